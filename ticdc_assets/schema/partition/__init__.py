"""Locating partitions: which partition TiDB keeps a row in, by the table's PARTITION BY clause.

DROP, TRUNCATE and EXCHANGE PARTITION remove or swap rows that the stream never mentions, so the
partition of every row must be known.

Rules: nothing is guessed.  A partitioning that cannot be evaluated raises `UnsupportedDdl`, a row
that cannot be placed raises `InvalidValue`.  `locate` is the entry; it compiles SQL by
`expression`, `compiler` and `function`, and compares values by `column` and `collation`.  `method`
has one function per partitioning method.
"""
