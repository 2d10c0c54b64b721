"""The table of MySQL types, one row per type, with their synonyms and protocol codes.

Data only: `mysql_type` looks types up and `type_text` parses declarations.
"""

from typing import Literal

from msgspec import Struct

Kind = Literal[
    "integer",
    "float",
    "decimal",
    "bit",
    "year",
    "date",
    "datetime",
    "time",
    "text",
    "binary",
    "enum",
    "set",
    "json",
    "vector",
]


class MysqlType(Struct, frozen=True):
    """One type: its kind, its Delta type as Spark DDL text, and its size.

    `width` is the size of an integer or float in bytes, and the maximum size of a TEXT or BLOB
    type in bytes.  `length` is the length of a declaration that states none.
    """

    name: str
    kind: Kind
    delta: str
    unsigned_delta: str | None = None
    width: int | None = None
    length: int | None = None


TYPES: dict[str, MysqlType] = {
    row.name: row
    for row in (
        MysqlType("tinyint", "integer", "tinyint", unsigned_delta="smallint", width=1),
        MysqlType("smallint", "integer", "smallint", unsigned_delta="int", width=2),
        MysqlType("mediumint", "integer", "int", unsigned_delta="int", width=3),
        MysqlType("int", "integer", "int", unsigned_delta="bigint", width=4),
        MysqlType("bigint", "integer", "bigint", unsigned_delta="decimal(20,0)", width=8),
        MysqlType("float", "float", "float", width=4),
        MysqlType("double", "float", "double", width=8),
        MysqlType("decimal", "decimal", "decimal", length=10),
        MysqlType("bit", "bit", "bigint", length=1),
        MysqlType("year", "year", "smallint", length=4),
        MysqlType("date", "date", "date"),
        MysqlType("datetime", "datetime", "timestamp_ntz"),
        MysqlType("timestamp", "datetime", "timestamp"),
        MysqlType("time", "time", "string"),
        MysqlType("char", "text", "string", length=1),
        MysqlType("varchar", "text", "string"),
        MysqlType("var_string", "text", "string"),
        MysqlType("tinytext", "text", "string", width=0xFF),
        MysqlType("text", "text", "string", width=0xFFFF),
        MysqlType("mediumtext", "text", "string", width=0xFFFFFF),
        MysqlType("longtext", "text", "string", width=0xFFFFFFFF),
        MysqlType("binary", "binary", "binary", length=1),
        MysqlType("varbinary", "binary", "binary"),
        MysqlType("tinyblob", "binary", "binary", width=0xFF),
        MysqlType("blob", "binary", "binary", width=0xFFFF),
        MysqlType("mediumblob", "binary", "binary", width=0xFFFFFF),
        MysqlType("longblob", "binary", "binary", width=0xFFFFFFFF),
        MysqlType("enum", "enum", "string"),
        MysqlType("set", "set", "string"),
        MysqlType("json", "json", "string"),
        MysqlType("vector", "vector", "array<float>"),
    )
}

# Synonyms: words separated by single spaces, to the declaration that they stand for.
SYNONYMS: dict[str, str] = {
    "bool": "tinyint(1)",
    "boolean": "tinyint(1)",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "middleint": "mediumint",
    "int4": "int",
    "integer": "int",
    "int8": "bigint",
    "serial": "bigint unsigned",
    "float4": "float",
    "float8": "double",
    "real": "double",
    "double precision": "double",
    "dec": "decimal",
    "numeric": "decimal",
    "fixed": "decimal",
    "character": "char",
    "character varying": "varchar",
    "char varying": "varchar",
    "varcharacter": "varchar",
    "char byte": "binary",
    "nchar": "char",
    "nchar varying": "varchar",
    "nchar varchar": "varchar",
    "national char": "char",
    "national character": "char",
    "national char varying": "varchar",
    "national character varying": "varchar",
    "national varchar": "varchar",
    "national varcharacter": "varchar",
    "nvarchar": "varchar",
    "nchar varcharacter": "varchar",
    "long": "mediumtext",
    "long varchar": "mediumtext",
    "long char varying": "mediumtext",
    "long character varying": "mediumtext",
    "long varcharacter": "mediumtext",
    "long varbinary": "mediumblob",
}

# The binary type that a text type with charset `binary` is.
BINARY_TWINS: dict[str, str] = {
    "char": "binary",
    "varchar": "varbinary",
    "var_string": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}

# MySQL's type codes, which Open Protocol sends, to type names.  A column whose BinaryFlag is set
# has the twin in `BINARY_TWINS` instead.
OPEN_CODES: dict[int, str] = {
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "float",
    5: "double",
    7: "timestamp",
    8: "bigint",
    9: "mediumint",
    10: "date",
    11: "time",
    12: "datetime",
    13: "year",
    14: "date",
    15: "varchar",
    16: "bit",
    225: "vector",
    245: "json",
    246: "decimal",
    247: "enum",
    248: "set",
    249: "tinytext",
    250: "mediumtext",
    251: "longtext",
    252: "text",
    253: "varchar",
    254: "char",
}
