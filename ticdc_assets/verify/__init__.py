"""Prove that current tables equal the tables upstream, reading from upstream as little as it takes.

`verify` compares with the database upstream, `against` with a copy that another pipeline fills.

- Both sides compute the same hash of every row, from the same canonical text of every value.
  `canonical` states the texts in Python, `upstream_sql` in the SQL of the server, `lake_hashes` as
  Spark expressions, `copy_values` as those of DuckDB; tests compare them value by value.
- Sums of hashes are compared per range of keys; only ranges that differ are read more closely, down
  to the rows.  No side ever holds a whole table in one process, except a small one of the lake.
- Upstream is only read, by a bounded number of connections, in queries of bounded ranges.
"""
