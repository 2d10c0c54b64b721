"""The columns of an Iceberg table, made of those of a Delta table.

Data files have no field ids, so a table states them by the names in the files, and these names are
the same for all of its snapshots.  A name keeps its id as long as older values can be read as its
type; a type that Iceberg cannot read them as gets a new id, and snapshots from before that would
read nothing under the name.  So they leave the table then (`Columns.is_break`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping, create_mapping_from_schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from ticdc_assets.rows.columns import measure_decimal
from ticdc_assets.store.delta_log import TableState

_TYPES: Mapping[str, IcebergType] = {
    "boolean": BooleanType(),
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "string": StringType(),
    "binary": BinaryType(),
}
_WIDER = ((IntegerType, LongType), (FloatType, DoubleType))
_WIDENED = "delta.typeChanges"


class CannotPublish(Exception):
    """A table that Iceberg does not have in this form; the text says why, and what to do."""


@dataclass(frozen=True)
class Columns:
    """The columns of the next snapshot; `is_break`: without the snapshots before it."""

    schema: Schema
    is_break: bool


def choose_columns(state: TableState, known: Sequence[Schema], last_id: int) -> Columns:
    """Choose the columns for a Delta table; `known` are those of the snapshots that remain.

    Raise `CannotPublish` for what Iceberg does not have.
    """
    if state.properties.get("delta.columnMapping.mode", "none") != "none":
        raise CannotPublish(
            "it has Delta's column mapping, so its files have other names of columns; rename"
            " columns whose names have spaces or one of ,;{}()= upstream, then load the table again"
        )
    before = {field.name: field for schema in known for field in schema.fields}
    ids = count(max([last_id, *(schema.highest_field_id for schema in known)]) + 1)
    fields, is_break = [], False
    for column in json.loads(state.schema)["fields"]:
        name = column["name"]
        _check_widening(column)
        known_field = before.get(name)
        type = None if known_field is None else _fit(column["type"], known_field.field_type)
        if known_field is not None and type is not None:
            id = known_field.field_id
        else:
            id = next(ids)
            type = _make_type(name, column["type"], ids)
            is_break = is_break or known_field is not None
        doc = column.get("metadata", {}).get("comment")
        fields.append(NestedField(id, name, type, required=False, doc=doc))
    same = [schema.schema_id for schema in known if list(schema.fields) == fields]
    newest = max((schema.schema_id for schema in known), default=-1)
    try:
        schema = Schema(*fields, schema_id=same[0] if same else newest + 1)
    except ValueError as error:
        # A column may have the name of a part of another one, such as `a.element`.
        raise CannotPublish(f"Iceberg does not take its columns: {error}") from None
    return Columns(schema, is_break)


def write_name_mapping(schemas: Iterable[Schema]) -> str:
    """Write which field ids the names in data files stand for, for some snapshots."""
    by_name: dict[str, MappedField] = {}
    for schema in schemas:
        by_name |= {field.names[0]: field for field in create_mapping_from_schema(schema)}
    return NameMapping(list(by_name.values())).model_dump_json()


def _make_type(name: str, delta: Any, ids: Iterator[int]) -> IcebergType:
    """Make the type of a column; its parts get ids of their own."""
    match delta:
        case str() if delta in _TYPES:
            return _TYPES[delta]
        case str() if delta.startswith("decimal("):
            return DecimalType(*measure_decimal(delta))
        case {"type": "array", "elementType": element}:
            id = next(ids)
            return ListType(id, _make_type(name, element, ids), element_required=False)
        case {"type": "map", "keyType": key, "valueType": value}:
            key_id, value_id = next(ids), next(ids)
            key_type, value_type = (_make_type(name, part, ids) for part in (key, value))
            return MapType(key_id, key_type, value_id, value_type, value_required=False)
    raise CannotPublish(f"the column {name!r} has a type that Iceberg lacks: {delta!r}")


def _fit(delta: Any, known: IcebergType) -> IcebergType | None:
    """Return the type of a column that had another one, with its ids; None if it is another one."""
    match known:
        case ListType():
            # `vector`, of which there is one kind.
            is_same = isinstance(delta, dict) and delta["type"] == "array"
            return known if is_same else None
        case MapType():
            is_same = isinstance(delta, dict) and delta["type"] == "map"
            return known if is_same else None
    if not isinstance(delta, str):
        return None
    type = _make_type("", delta, count())
    return type if type == known or _is_wider(known, type) else None


def _is_wider(old: IcebergType, new: IcebergType) -> bool:
    """Whether Iceberg reads values of a type as another one."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return any(isinstance(old, one) and isinstance(new, other) for one, other in _WIDER)


def _check_widening(column: Mapping[str, Any]) -> None:
    """Raise `CannotPublish` if files may have values that not all readers take for the type.

    Spark's vectorized reader of Iceberg widens no whole numbers of one or two bytes to eight.
    """
    name, type = column["name"], column["type"]
    for change in column.get("metadata", {}).get(_WIDENED, ()):
        old = change["fromType"]
        one, other = (_make_type(name, each, count()) for each in (old, type))
        is_read = one == other or _is_wider(one, other)
        if not is_read or (old in ("byte", "short") and type == "long"):
            raise CannotPublish(
                f"the column {name!r} was widened from {old} to {type} without writing its files"
                " again, which readers of Iceberg do not follow; load the table again"
            )
