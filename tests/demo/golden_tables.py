"""Golden messages and schema files as the simulated upstream would hold what they say."""

import base64
import json
from decimal import Decimal
from typing import Any

from ticdc_assets.demo.change import ChangedRow
from ticdc_assets.events import Column, ColumnType, Index, TableSchema

Texts = tuple[str | None, ...]
_TIMES = {"datetime": 19, "timestamp": 19, "time": 10}
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


def of_schema_file(content: dict[str, Any]) -> TableSchema:
    """A schema file's table."""
    columns = []
    for stated in content["TableColumns"] or ():
        name, *unsigned = stated["ColumnType"].lower().split()
        default = stated.get("ColumnDefault")
        if name == "bit" and default is not None:
            default = str(int.from_bytes(default.encode(), "big"))
        kind = ColumnType(
            name,
            unsigned=bool(unsigned),
            length=_number(stated, "ColumnPrecision"),
            decimals=_number(stated, "ColumnScale"),
            elements=tuple(stated["ColumnElems"]) if "ColumnElems" in stated else None,
        )
        nullable = stated.get("ColumnNullable") != "false"
        columns.append(Column(stated["ColumnName"], kind, nullable=nullable, default=default))
    key = tuple(c["ColumnName"] for c in content["TableColumns"] or () if "ColumnIsPk" in c)
    indexes = (Index("PRIMARY", key, unique=True, primary=True),) if key else ()
    return TableSchema(content["Schema"], content["Table"], tuple(columns), indexes)


def _number(stated: dict[str, str], key: str) -> int | None:
    return int(stated[key]) if key in stated else None


def of_simple(stated: dict[str, Any]) -> TableSchema:
    """A `tableSchema` of the Simple protocol, JSON or Avro."""
    columns = []
    for column in stated["columns"]:
        data_type = column["dataType"]
        default = column["default"]
        decimals = data_type.get("decimal")
        if decimals is None and data_type["mysqlType"] in _TIMES:
            # Avro does not state them; only the length tells.
            decimals = max(data_type["length"] - _TIMES[data_type["mysqlType"]] - 1, 0)
        kind = ColumnType(
            data_type["mysqlType"],
            unsigned=bool(data_type.get("unsigned")),
            zerofill=bool(data_type.get("zerofill")),
            length=data_type.get("length"),
            decimals=decimals,
            elements=tuple(data_type["elements"]) if data_type.get("elements") else None,
            charset=data_type["charset"],
            collation=data_type["collate"],
        )
        if isinstance(default, str) and data_type["mysqlType"] == "bit":
            # Avro has the raw bytes.
            default = int.from_bytes(default.encode(), "big")
        default = None if default is None else str(default)
        columns.append(Column(column["name"], kind, column["nullable"], default))
    # The primary key that TiCDC makes up is no index of the table if another one covers it.
    indexes = [
        Index(i["name"], tuple(i["columns"]), unique=i["unique"], primary=i["primary"])
        for i in stated["indexes"]
    ]
    uniques = [index.columns for index in indexes if index.unique and not index.primary]
    indexes = [i for i in indexes if i.name != "primary" or i.columns not in uniques]
    return TableSchema(
        stated.get("schema") or stated["database"],
        stated["table"],
        tuple(columns),
        tuple(indexes),
        table_id=stated["tableID"],
        version=stated["version"],
    )


def mysql_text(value: Any, kind: ColumnType) -> str | None:
    """A value of Simple, Canal-JSON or Open Protocol as MySQL prints it; binary from base64."""
    if value is None:
        return None
    text = value["value"] if isinstance(value, dict) else str(value)
    if kind.name == "enum":
        return (kind.elements or ())[int(text) - 1]
    if kind.name == "set":
        bits = enumerate(kind.elements or ())
        return ",".join(member for bit, member in bits if int(text) >> bit & 1)
    if kind.name in _BINARY:
        return base64.b64decode(text).hex()
    if kind.name in ("float", "double") and "e" in text:
        return f"{Decimal(text):f}"
    return text


def has_invalid_member(row: dict[str, Any], schema: TableSchema) -> bool:
    """Whether an ENUM holds the index of no member, which the upstream here never has."""
    enums = [c.name for c in schema.columns if c.type.name == "enum"]
    return any(str(row.get(name)) == "0" for name in enums)


def only(schema: TableSchema, names: list[str], **changed: Any) -> TableSchema:
    """A schema of those columns that travel, in the order of the names."""
    columns = {column.name: column for column in schema.columns}
    fields = {name: getattr(schema, name) for name in schema.__struct_fields__} | changed
    return TableSchema(**fields | {"columns": tuple(columns[name] for name in names)})


def canonical(message: bytes) -> bytes:
    """A Canal-JSON message with `mysqlType` sorted: the server writes it in random order."""
    head, mark, rest = message.partition(b'"mysqlType":{')
    if not mark:
        return message
    types, end = json.JSONDecoder().raw_decode("{" + rest.decode())
    sorted_types = json.dumps(types, sort_keys=True, ensure_ascii=False).encode()
    return head + mark + sorted_types + ("{" + rest.decode())[end:].encode()


def canal_invalid(message: dict[str, Any]) -> bool:
    """Whether an ENUM holds the index of no member, which the upstream here never has."""
    rows = (message["old"] or []) + message["data"]
    enums = [name for name, kind in message["mysqlType"].items() if kind == "enum"]
    return any(row[name] == "0" for row in rows for name in enums)


def canal_row(message: dict[str, Any]) -> ChangedRow:
    """A row whose types are what the message says of them; members are called by their numbers."""
    columns = []
    for name in message["data"][0]:
        base, *attributes = message["mysqlType"][name].split()
        members = {"enum": range(100), "set": range(64)}.get(base)
        elements = tuple(map(str, members)) if members else None
        kind = ColumnType(base, "unsigned" in attributes, "zerofill" in attributes)
        kind = ColumnType(kind.name, kind.unsigned, kind.zerofill, elements=elements)
        columns.append(Column(name, kind))
    key = tuple(message["pkNames"])
    indexes = (Index("PRIMARY", key, unique=True, primary=True),) if key else ()
    schema = TableSchema(message["database"], message["table"], tuple(columns), indexes)

    def texts(row: dict[str, str | None]) -> tuple[str | None, ...]:
        found = []
        for column in columns:
            text, name = row[column.name], column.type.name
            if text is None or name not in ("enum", "set"):
                binary = text is not None and ("blob" in name or "binary" in name)
                found.append(text.encode("latin-1").hex() if text and binary else text)
            elif name == "enum":
                found.append(str(int(text) - 1))
            else:
                bits = range(64)
                found.append(",".join(str(bit) for bit in bits if int(text) >> bit & 1))
        return tuple(found)

    data = texts(message["data"][0])
    match message["type"]:
        case "INSERT":
            return ChangedRow(schema, None, data)
        case "DELETE":
            return ChangedRow(schema, data, None)
        case _:
            return ChangedRow(schema, texts(message["old"][0]), data)
