"""Models of the lake's own tables: the columns of their contracts, and the domain of every column.

Each value check of pandera is a Spark job of its own that keeps neither count nor sample.  So a
model's checks are also combined into one condition: one query finds all rows that violate any of
them, and the model then describes a sample of those rows.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import pyspark.sql.types as T
from pyspark.sql.pandas.types import from_arrow_schema

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import Op, Ordering
from ticdc_assets.plan.state import ShownStatus
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import CONTRACTS, RAW_FILES, RAW_RECORDS

KINDS = ("row", "ddl", "bootstrap", "watermark", "quarantined", "file", "batch")
ROLES = ("data", "changed data", "schema", "changed schema", "same schema", "metadata", "stray")
ORIGINS = ("ddl", "bootstrap", "load", "upstream", "rows")
STAGES = ("decode", "apply", "load")

_POSITIVE = {"gt": 0, "nullable": False}
_NON_NEGATIVE = {"ge": 0, "nullable": True}
_REQUIRED = {"nullable": False}
_NULLABLE = {"nullable": True}
# A column without a domain may hold any value, or NULL.
_DOMAINS: dict[str, dict[str, dict[str, Any]]] = {
    "raw": {"batch": _POSITIVE, "seq": _POSITIVE},
    "events": {
        "batch": _POSITIVE,
        "seq": _POSITIVE,
        "kind": {"isin": list(KINDS), "nullable": False},
        "op": {"isin": [op.value for op in Op], "nullable": True},
        "ordering": {"isin": list(get_args(Ordering)), "nullable": True},
        # 0 in bootstraps of the storage sink and in the first watermark.
        "commit_ts": _NON_NEGATIVE,
        "partition": _NON_NEGATIVE,
    },
    "quarantine": {
        # A row of a load came with no batch.
        "batch": _POSITIVE | _NULLABLE,
        "seq": _POSITIVE | _NULLABLE,
        "stage": {"isin": list(STAGES), "nullable": False},
        "error": _REQUIRED,
        "reason": _REQUIRED,
    },
    "schema_history": {
        "incarnation": _REQUIRED,
        "valid_from": _NON_NEGATIVE | _REQUIRED,
        "origin": {"isin": list(ORIGINS), "nullable": False},
        "schema": _REQUIRED,
    },
    "tables": {
        "incarnation": _REQUIRED,
        "location": _REQUIRED,
        "status": {"isin": list(get_args(ShownStatus)), "nullable": False},
        "created_ts": _NON_NEGATIVE | _REQUIRED,
    },
    "applied": {
        "snapshot_id": _POSITIVE,
        "committed_at": _REQUIRED,
        "resolved_ts": _NON_NEGATIVE | _REQUIRED,
        "batch": _NON_NEGATIVE | _REQUIRED,
        "state_snapshot_id": _POSITIVE,
    },
}
_FILE_DOMAINS: dict[str, dict[str, Any]] = {
    "path": _REQUIRED,
    "role": {"isin": list(ROLES), "nullable": False},
    "size": _NON_NEGATIVE | _REQUIRED,
    "number": _NON_NEGATIVE,
}
_RECORD_DOMAINS: dict[str, dict[str, Any]] = {"partition": _NON_NEGATIVE, "offset": _NON_NEGATIVE}

# pandera has no type for a model that is made at run time.
Model = Any

TABLES = tuple(_DOMAINS)


def contract_schema(table: str, feed: Changefeed) -> T.StructType:
    """Return the columns that the contract of a table of the lake states."""
    return _parse(choose_contract(table, feed))


def choose_contract(table: str, feed: Changefeed) -> str:
    """Return the contract of a table of the lake."""
    if table == "raw":
        return RAW_FILES if feed.transport == "storage" else RAW_RECORDS
    return CONTRACTS[table]


@cache
def _parse(columns: str) -> T.StructType:
    # Spark's own parser of DDL takes a session, and small runs start none.
    return from_arrow_schema(arrow_schema(columns))


def make_model(table: str, feed: Changefeed) -> Model:
    """Make the model of a table of the lake."""
    return _make_model(table, contract_schema(table, feed), feed.transport == "storage")


@cache
def _make_model(table: str, contract: T.StructType, is_folder: bool) -> Model:
    # Imported late: it takes half a second, and the tables of a run are written before its checks.
    import pandera.pyspark as pa

    domains = dict(_DOMAINS[table])
    if table == "raw":
        domains |= _FILE_DOMAINS if is_folder else _RECORD_DOMAINS
    # pandera has no structs, and they have no domain.
    columns = {
        field.name: field.dataType
        for field in contract
        if not isinstance(field.dataType, T.StructType)
    }
    fields = {name: pa.Field(**domains.get(name, {"nullable": True})) for name in columns}
    body = {"__annotations__": columns, "__module__": __name__, **fields}
    return type(f"{table.title().replace('_', '')}Model", (pa.DataFrameModel,), body)


def list_column_faults(schema: T.StructType, table: str, feed: Changefeed) -> list[str]:
    """Return how the columns of a table of the lake differ from its contract."""
    expected, actual = (
        {field.name: field.dataType.simpleString() for field in each}
        for each in (contract_schema(table, feed), schema)
    )
    differing = [
        f"{name}: the type is {actual[name]}, not {type}" if name in actual else f"{name}: missing"
        for name, type in expected.items()
        if actual.get(name) != type
    ]
    return differing + [f"{name}: not in the contract" for name in actual if name not in expected]


def list_checked_columns(model: Model) -> list[str]:
    """List the columns whose values a model checks."""
    columns = model.to_schema().columns
    return [name for name, column in columns.items() if column.checks or not column.nullable]


def format_violation(model: Model) -> str:
    """Format the condition that a row, `r`, violates any value check of a model."""
    return " OR ".join(_violations(model))


def _violations(model: Model) -> Iterator[str]:
    for name, column in model.to_schema().columns.items():
        if not column.nullable:
            yield f"r.{name} IS NULL"
        for check in column.checks:
            # A NULL violates no value check.
            yield f"r.{name} {_format_opposite(name, check)}"


def _format_opposite(name: str, check: Model) -> str:
    parameters = check.statistics
    match check.name:
        case "isin":
            values = ", ".join(f"'{value}'" for value in parameters["allowed_values"])
            return f"NOT IN ({values})"
        case "greater_than":
            return f"<= {parameters['min_value']}"
        case "greater_than_or_equal_to":
            return f"< {parameters['min_value']}"
        case _:
            raise NotImplementedError(f"{name}: {check.name}")
