"""Models of the lake's own tables, made of their contracts: columns, types, and what is in them.

The columns are those of `lake.tables`; only what a column may hold is said here.  Every value check
of pandera is a Spark job of its own and keeps no count and no sample, so the checks of a model are
also read as one condition: rows that break any of them are found in one go, and the model then says
of these few what is wrong.
"""

from collections.abc import Iterator
from typing import Any, get_args

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import Op, Ordering
from ticdc_assets.lake.columns.expressions import any_of
from ticdc_assets.lake.store.contracts import CONTRACTS, RAW_FILES, RAW_RECORDS
from ticdc_assets.plan.state import Status

KINDS = ("row", "ddl", "bootstrap", "watermark", "rejected", "file", "batch")
ROLES = ("data", "changed data", "schema", "changed schema", "same schema", "metadata", "stray")
CAME_FROM = ("ddl", "bootstrap", "rows")

_POSITIVE = {"gt": 0, "nullable": False}
_NOT_NEGATIVE = {"ge": 0, "nullable": True}
_THERE = {"nullable": False}
# What columns may hold; one that is not named here may hold anything, or nothing.
_DOMAINS: dict[str, dict[str, dict[str, Any]]] = {
    "raw": {"batch": _POSITIVE, "seq": _POSITIVE},
    "events": {
        "batch": _POSITIVE,
        "seq": _POSITIVE,
        "kind": {"isin": list(KINDS), "nullable": False},
        "op": {"isin": [op.value for op in Op], "nullable": True},
        "ordering": {"isin": list(get_args(Ordering)), "nullable": True},
        # A bootstrap of the storage sink and a first watermark may say 0.
        "commit_ts": _NOT_NEGATIVE,
        "partition": _NOT_NEGATIVE,
    },
    "quarantine": {
        "batch": _POSITIVE,
        "seq": _POSITIVE,
        "stage": {"isin": ["decode", "apply"], "nullable": False},
        "error": _THERE,
        "reason": _THERE,
    },
    "schema_history": {
        "incarnation": _THERE,
        "valid_from": _NOT_NEGATIVE | _THERE,
        "came_from": {"isin": list(CAME_FROM), "nullable": False},
        "schema": _THERE,
    },
    "tables": {
        "incarnation": _THERE,
        "location": _THERE,
        "state": {"isin": list(get_args(Status)), "nullable": False},
        "created_ts": _NOT_NEGATIVE | _THERE,
    },
    "applied": {
        "seq": _POSITIVE,
        "at": _THERE,
        "resolved_ts": _NOT_NEGATIVE | _THERE,
        "batch": _NOT_NEGATIVE | _THERE,
        "state_seq": _POSITIVE,
    },
}
_OF_FILES: dict[str, dict[str, Any]] = {
    "path": _THERE,
    "role": {"isin": list(ROLES), "nullable": False},
    "size": _NOT_NEGATIVE | _THERE,
    "number": _NOT_NEGATIVE,
}
_OF_RECORDS: dict[str, dict[str, Any]] = {"partition": _NOT_NEGATIVE, "offset": _NOT_NEGATIVE}

# pandera's own types say nothing of a model that is made at run time.
Model = Any

TABLES = tuple(_DOMAINS)


def contract(spark: SparkSession, table: str, feed: Changefeed) -> T.StructType:
    """The columns that a table of the lake is to have."""
    if table == "raw":
        columns = RAW_FILES if feed.transport == "storage" else RAW_RECORDS
    else:
        columns = CONTRACTS[table]
    return spark.createDataFrame([], columns).schema


def model(spark: SparkSession, table: str, feed: Changefeed) -> Model:
    """The model of a table of the lake."""
    domains = dict(_DOMAINS[table])
    if table == "raw":
        domains |= _OF_FILES if feed.transport == "storage" else _OF_RECORDS
    # pandera knows no struct; `misshapen` looks at those.
    columns = {
        field.name: field.dataType
        for field in contract(spark, table, feed)
        if not isinstance(field.dataType, T.StructType)
    }
    fields = {name: pa.Field(**domains.get(name, {"nullable": True})) for name in columns}
    body = {"__annotations__": columns, "__module__": __name__, **fields}
    return type(f"{table.title().replace('_', '')}Model", (pa.DataFrameModel,), body)


def misshapen(spark: SparkSession, rows: DataFrame, table: str, feed: Changefeed) -> list[str]:
    """How a table's columns differ from its contract where pandera does not see it."""
    wanted = {f.name: f.dataType for f in contract(spark, table, feed)}
    there = {f.name: f.dataType for f in rows.schema.fields}
    structs = [name for name, type in wanted.items() if isinstance(type, T.StructType)]
    wrong = [
        f"{name}: {there[name].simpleString() if name in there else 'not there'}"
        for name in structs
        if name not in there or there[name].simpleString() != wanted[name].simpleString()
    ]
    return wrong + [f"{name}: is in no contract" for name in there if name not in wanted]


def broken(model: Model) -> Column:
    """Whether a row breaks any of a model's value checks."""
    return any_of(_conditions(model))


def _conditions(model: Model) -> Iterator[Column]:
    for name, column in model.to_schema().columns.items():
        value = F.col(f"`{name}`")
        if not column.nullable:
            yield value.isNull()
        for check in column.checks:
            said = check.statistics
            match check.name:
                case "isin":
                    holds = value.isin(list(said["allowed_values"]))
                case "greater_than":
                    holds = value > said["min_value"]
                case "greater_than_or_equal_to":
                    holds = value >= said["min_value"]
                case _:
                    raise NotImplementedError(f"{name}: {check.name}")
            # What is NULL is not a matter of its value.
            yield F.coalesce(~holds, F.lit(False))
