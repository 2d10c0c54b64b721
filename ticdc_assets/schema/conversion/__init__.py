"""Converting existing values as TiDB does when a DDL changes a column's type or adds a column.

Rules: TiCDC sends no rows for such a DDL, so this package repeats TiDB's conversion.  It clips
out-of-range values as a session without strict mode does; in strict mode the DDL would have failed.
A pair of types that TiDB does not convert raises `InvalidValue`.
"""
