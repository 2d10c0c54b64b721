"""MySQL types: their table, their declarations, their values and row checksums.

Rules: every dispatch on a type starts from its row in `type_table`, which `mysql_type.describe`
finds.  A text that its type cannot hold raises `InvalidValue`; nothing is repaired.
"""
