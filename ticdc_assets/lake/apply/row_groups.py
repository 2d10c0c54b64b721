"""Describe pending rows in row groups, without reading a value: with Spark, or few with Arrow."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.lake.events.event_rows import make_table_name
from ticdc_assets.lake.store.arrow import replace_surrogates
from ticdc_assets.plan.ddl_cuts import DdlCuts
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.schema.inference import statement_order

# What the rows of a group share, besides the DDLs before them.
_GROUP = (
    *("database", "table", "schema_version", "observed", "columns", "key_columns"),
    *("member_names", "ordered_by_commit_ts", "after_ddls"),
)
_CUTS, _CUTS_BEFORE = "cuts", "cuts_before"


@dataclass(frozen=True)
class GroupOptions:
    """What the rows of a changefeed are counted for.

    Without certain inserts no row counts as one: each may overwrite a row.
    """

    old_values_may_lack: bool
    inserts_are_certain: bool = True
    has_checksums: bool = False

    def list_counted(
        self, get: Callable[[str], Any], is_null: Callable[[Any], Any]
    ) -> dict[str, Any]:
        """Return which rows each count of a group is of; in Spark, or in Arrow."""
        op = get("op")
        counted = {"upserts": op == "upsert", "key_only": get("handle_key_only")}
        if self.inserts_are_certain:
            counted["inserts"] = op == "insert"
        if self.old_values_may_lack:
            counted["overwrites"] = (op == "update") & is_null(get("before"))
        if self.has_checksums:
            counted["checksums"] = ~is_null(get("checksum"))
        return counted


def group_rows(rows: DataFrame, cuts: DdlCuts, options: GroupOptions) -> list[RowGroup]:
    """Describe pending rows in groups with Spark."""
    counted = options.list_counted(F.col, Column.isNull)
    groups = (
        _count_cuts(rows, cuts)
        .groupBy(*_GROUP, _CUTS_BEFORE)
        .agg(
            F.min("order_ts").alias("first_ts"),
            F.max("order_ts").alias("last_ts"),
            F.count(F.lit(1)).alias("rows"),
            *(F.count_if(is_one).alias(name) for name, is_one in counted.items()),
        )
    )
    return sorted((_make_group(row.asDict()) for row in groups.collect()), key=_sort_key)


def group_few_rows(rows: pa.Table, cuts: DdlCuts, options: GroupOptions) -> list[RowGroup]:
    """Describe pending rows in groups, in this process."""
    counted = options.list_counted(pc.field, pc.Expression.is_null)
    columns = {name: pc.field(name) for name in (*_GROUP, "name", "order_ts")}
    narrow = ds.dataset(rows).to_table(columns | counted, use_threads=False)
    by_name = _name_cuts(cuts)
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in narrow.to_pylist():
        row["key_columns"] = _make_tuple(row["key_columns"])
        times = by_name.get(row["name"], cuts.everywhere)
        before = (bisect_right if row["after_ddls"] else bisect_left)(times, row["order_ts"])
        facts = (row["order_ts"], *(bool(row[name]) for name in counted))
        groups.setdefault((*(row[name] for name in _GROUP), before), []).append(facts)
    found = []
    for shared, members in groups.items():
        ts, *flags = zip(*members, strict=True)
        counts = dict(zip(counted, map(sum, flags), strict=True))
        ends = {"first_ts": min(ts), "last_ts": max(ts), "rows": len(ts)}
        found.append(_make_group({**dict(zip(_GROUP, shared, strict=False)), **ends, **counts}))
    return sorted(found, key=_sort_key)


def _count_cuts(rows: DataFrame, cuts: DdlCuts) -> DataFrame:
    """Add how many of the DDLs that may concern a row's table come before the row."""
    if not cuts.by_table and not cuts.everywhere:
        return rows.withColumn(_CUTS_BEFORE, F.lit(0))
    by_name = _name_cuts(cuts)
    listed = pa.table(
        {"name": list(by_name), _CUTS: list(map(list, by_name.values()))},
        pa.schema({"name": pa.string(), _CUTS: pa.list_(pa.int64())}),
    )
    frame = F.broadcast(rows.sparkSession.createDataFrame(listed))
    elsewhere = F.array(*map(F.lit, cuts.everywhere)).cast("array<bigint>")
    times = F.coalesce(F.col(_CUTS), elsewhere)

    def is_before(ts: Column) -> Column:
        return (ts < F.col("order_ts")) | ((ts == F.col("order_ts")) & F.col("after_ddls"))

    return rows.join(frame, "name", "left").withColumn(
        _CUTS_BEFORE, F.size(F.filter(times, is_before))
    )


def _name_cuts(cuts: DdlCuts) -> dict[str, tuple[int, ...]]:
    """Return the cuts of tables by the names that `events` has."""
    named = ((make_table_name(*table), cuts.of(table)) for table in cuts.by_table)
    return {replace_surrogates(name): times for name, times in named if name is not None}


def _make_group(row: dict[str, Any]) -> RowGroup:
    row.pop(_CUTS_BEFORE, None)
    return RowGroup(**{"inserts": 0, **row, "key_columns": _make_tuple(row["key_columns"])})


def _make_tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _sort_key(group: RowGroup) -> tuple[Any, ...]:
    stated = statement_order(group.schema_version, group.observed, group.key_columns)
    return (group.first, group.database, group.table, *stated)
