"""Arrow schemas of the contracts, and Arrow arrays of values from outside."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from ticdc_assets.store.texts import replace_surrogates

_TYPES = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}
_COMMENT = re.compile("--.*")
_TOKEN = re.compile(r"\w+|[<>]")


def arrow_schema(contract: str) -> pa.Schema:
    """Read a contract as an Arrow schema."""
    # Commas and colons only separate; the brackets alone tell where a type ends.
    tokens = deque(_TOKEN.findall(_COMMENT.sub("", contract)))
    return pa.schema(_read_fields(tokens))


def _read_fields(tokens: deque[str]) -> list[tuple[str, pa.DataType]]:
    fields = []
    while tokens and tokens[0] != ">":
        name = tokens.popleft()
        fields.append((name, _read_type(tokens)))
    return fields


def _read_type(tokens: deque[str]) -> pa.DataType:
    name = tokens.popleft()
    if name in _TYPES:
        return _TYPES[name]
    tokens.popleft()
    kind: pa.DataType
    match name:
        case "array":
            kind = pa.list_(_read_type(tokens))
        case "map":
            kind = pa.map_(_read_type(tokens), _read_type(tokens))
        case "struct":
            kind = pa.struct(_read_fields(tokens))
        case _:
            raise ValueError(f"a contract has the unknown type {name}")
    tokens.popleft()
    return kind


def make_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Make an Arrow array; lone surrogates in texts, which Arrow cannot hold, become U+FFFD."""
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([replace_surrogates(value) for value in values], kind)


def make_table(contract: str, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Make an Arrow table of a contract from its rows."""
    schema = arrow_schema(contract)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [make_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
