"""The SQL that reads rows of a table upstream by their keys, and their values as row images.

Identifiers are quoted.  Of a key, numbers are written as such after they were read as values of
their column, binary values in hexadecimal, and all other texts are parameters.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.rows.columns import format_mysql_type, list_stored_columns
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import read_value
from ticdc_assets.upstream.snapshot import Row
from ticdc_assets.upstream.sql import ServerSql, fit_fraction, quote

# The values of a row's key, which identify the rows of an answer.
Key = tuple[Value, ...]
_BITS = (1 << 64) - 1


class UpstreamTable:
    """A table upstream at one moment, and the key columns by which its rows are read."""

    def __init__(self, schema: TableSchema, key: Sequence[str]) -> None:
        self._name = f"{quote(schema.database)}.{quote(schema.table)}"
        self._columns = list_stored_columns(schema)
        stored = {fold_name(column.name): column for column in self._columns}
        found = [stored.get(fold_name(name)) for name in key]
        self._key = [column for column in found if column is not None]
        if not key:
            raise InvalidValue("the message states no key")
        if len(self._key) < len(key):
            raise InvalidValue("the table has other columns at this commit ts than its key")
        leading = {fold_name(name) for index in schema.indexes for name in index.columns[:1]}
        if leading.isdisjoint(map(fold_name, key)):
            # Every row of the table would have to be read.
            raise InvalidValue(f"no index has the columns of its key: {', '.join(key)}")
        self._sql = ServerSql(is_tidb=True)

    def read_key(self, image: Mapping[str, str | None]) -> Key:
        """Read the key in a row image; raise `InvalidValue` if it has none."""
        texts = {fold_name(name): text for name, text in image.items()}
        return tuple(
            _read_key_value(texts.get(fold_name(column.name)), column.type) for column in self._key
        )

    def write_query(self, keys: Sequence[Key]) -> tuple[str, list[str]]:
        """Write the query for the rows with these keys, and its parameters.

        A row more than there are keys shows that they do not identify rows.
        """
        values: list[str] = []
        conditions = [
            " AND ".join(
                _write_condition(column, value, values)
                for column, value in zip(self._key, key, strict=True)
            )
            for key in keys
        ]
        listed = ", ".join(map(self._write_value, self._columns))
        chosen = " OR ".join(f"({condition})" for condition in conditions)
        sql = f"SELECT {_escape(listed)} FROM {_escape(self._name)} WHERE {chosen}"
        return f"{sql} LIMIT {len(keys) + 1}", values

    def _write_value(self, column: Column) -> str:
        name = quote(column.name)
        match describe(column.type).kind:
            case "enum" | "set":
                return f"CAST({name} AS UNSIGNED)"
            case "float":
                # A FLOAT prints fewer digits than it has.  Adding 0 would lose the sign of -0.
                return f"{name} * 1e0"
            case _:
                return self._sql.write_canonical(column)

    def read_row(self, row: Row) -> dict[str, str | None]:
        """Read a row of the answer as a row image."""
        return {
            column.name: None if value is None else _decode(value, column.type)
            for column, value in zip(self._columns, row, strict=True)
        }

    def write_observed(self, stated: str) -> str:
        """Write `RowChange.observed` for whole rows, as the rows of this protocol state it."""
        # Open Protocol states NOT NULL, and the columns of a key are never NULL.
        suffix = " not null" if " not null" in stated else ""
        types = {
            column.name: format_mysql_type(column.type) + ("" if column.nullable else suffix)
            for column in self._columns
        }
        return msgspec.json.encode(types).decode()


def _escape(sql: str) -> str:
    """Escape the sign of parameters."""
    return sql.replace("%", "%%")


def _read_key_value(text: str | None, type: ColumnType) -> Value:
    if text is None:
        raise InvalidValue("the message lacks a value of the key")
    kind = describe(type).kind
    if kind in ("enum", "set"):
        # Its number: the members would be compared as texts.
        number = read_value(text, replace(type, elements=None))
        return int(str(number)) & _BITS
    value = read_value(text, type)
    match kind:
        case "json" | "vector":
            raise InvalidValue(f"a {type.name} cannot be a key")
        case "datetime" | "time":
            if EITHER in text:
                raise InvalidValue("its key is one of two moments: let TiCDC run with tz = UTC")
            return fit_fraction(text, type)
        case "binary" if type.name == "binary":
            assert isinstance(value, bytes)
            return value.ljust(type.length or 1, b"\0")
        case "text":
            # Lone surrogates stand for bytes; others stand for nothing.
            text.encode("utf-8", "surrogateescape")
    return value


def _write_condition(column: Column, value: Value, values: list[str]) -> str:
    """Write that a column has a value, and add the parameter that this takes."""
    name = _escape(quote(column.name))
    match value:
        case bytes():
            return f"{name} = X'{value.hex()}'"
        case float():
            # With an exponent it is no DECIMAL.
            text = repr(value)
            return f"{name} = {text}" + ("" if "e" in text else "e0")
        case str():
            values.append(value)
            return f"{name} = %s"
    if describe(column.type).kind == "year":
        # Compared with a YEAR, a number below 100 is of this century.
        name = f"{name} + 0"
    return f"{name} = {value:f}" if not isinstance(value, int) else f"{name} = {value}"


def _decode(value: bytes, type: ColumnType) -> str:
    if describe(type).kind == "binary":
        return b64encode(value).decode()
    return value.decode("utf-8", "surrogateescape")
