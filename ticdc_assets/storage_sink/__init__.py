"""The grammar of the storage sink's folder: paths, schema files, metadata, index files.

Rules of this room: texts and bytes only, no file is opened; the user's folder is only ever read.
"""
