"""Canal-JSON, in topics and in files, with and without the TiDB extension."""
