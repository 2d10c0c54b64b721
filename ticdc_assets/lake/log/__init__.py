"""The lake's own records: the applied log, the schema history and the catalog of tables."""
