"""Which partition TiDB keeps a row in, by what DDL says of the table's partitions."""
