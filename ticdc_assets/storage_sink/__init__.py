"""The grammar of the storage sink's folder: paths, schema files, metadata, index files.

Rules of this room: it reads texts and bytes and opens no file.  Nothing ever writes to the folder.
"""
