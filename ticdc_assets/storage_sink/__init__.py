"""The file formats of a storage-sink folder: paths, schema files, metadata and index files.

Rules: this package parses text and bytes and opens no file.  Nothing ever writes to the folder.
"""
