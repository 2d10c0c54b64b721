"""What TiDB makes of existing values when a column changes its type or is added."""
