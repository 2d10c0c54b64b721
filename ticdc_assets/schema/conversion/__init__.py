"""Converting existing values as TiDB does when a column changes its type or is added.

Rules: TiCDC sends no rows for such a DDL, so TiDB's conversion is repeated here.  A value that does
not fit is clipped as in a session without strict mode; in strict mode the DDL would have failed.  A
pair of types that TiDB does not convert raises `InvalidValue`.
"""
