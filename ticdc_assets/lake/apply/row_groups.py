"""Describe pending rows in row groups, without reading a value.

Blocks of rows are summarized one by one: whatever a window has, few of its rows are in memory.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.plan.ddl_cuts import DdlCuts
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.schema.inference import statement_order
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.texts import replace_surrogates

# What the rows of a group share, besides the DDLs before them.
_GROUP = (
    *("database", "table", "schema_version", "observed", "columns", "key_columns"),
    *("member_names", "ordered_by_commit_ts", "after_ddls"),
)
# The columns of `events` that this always reads.
_READ = (
    *("name", "database", "table", "schema_version", "observed", "columns", "key_columns"),
    *("member_names", "op", "handle_key_only"),
)
# No name of a column has this character.
_BETWEEN_KEYS = "\0"
# How many DDLs come before the rows of a group.
_CUTS = "cuts"
_COUNTED = ("rows", "inserts", "upserts", "overwrites", "key_only", "checksums")


@dataclass(frozen=True)
class GroupOptions:
    """What the rows of a changefeed are counted for.

    Without certain inserts no row counts as one: each may overwrite a row.
    """

    old_values_may_lack: bool
    inserts_are_certain: bool = True
    has_checksums: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `events` that are read: images are long."""
        before = ("before",) if self.old_values_may_lack else ()
        return (*_READ, *before, *(("checksum",) if self.has_checksums else ()))

    def list_counted(self, rows: pa.Table) -> dict[str, Any]:
        """Return which rows each count of a group is of."""
        op = rows["op"]
        counted = {"upserts": pc.equal(op, "upsert"), "key_only": rows["handle_key_only"]}
        if self.inserts_are_certain:
            counted["inserts"] = pc.equal(op, "insert")
        if self.old_values_may_lack:
            is_update = pc.equal(op, "update")
            counted["overwrites"] = pc.and_(is_update, pc.is_null(rows["before"]))
        if self.has_checksums:
            counted["checksums"] = pc.is_valid(rows["checksum"])
        return counted


def summarize(rows: pa.Table, cuts: DdlCuts, options: GroupOptions) -> pa.Table:
    """Summarize some pending rows: one line for each group that they are of."""
    shared = {name: rows[name] for name in _GROUP}
    shared["key_columns"] = pc.binary_join(rows["key_columns"], _BETWEEN_KEYS)
    shared[_CUTS] = pa.array(_count_cuts(rows, cuts), pa.int64())
    counted = {name: is_one.cast(pa.int64()) for name, is_one in options.list_counted(rows).items()}
    ts, one = rows["order_ts"], pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
    return _join(pa.table({**shared, "first_ts": ts, "last_ts": ts, "rows": one, **counted}))


def list_groups(summaries: Iterable[pa.Table]) -> list[RowGroup]:
    """List the groups of pending rows that were summarized in blocks, in their order."""
    lines = _join(pa.concat_tables(summaries)).to_pylist()
    return sorted(map(_make_group, lines), key=_sort_key)


def _join(lines: pa.Table) -> pa.Table:
    """Make one line of those of each group."""
    shared = [*_GROUP, _CUTS]
    counted = [name for name in lines.column_names if name in _COUNTED]
    totals = [("first_ts", "min"), ("last_ts", "max"), *((name, "sum") for name in counted)]
    joined = lines.group_by(shared, use_threads=False).aggregate(totals)
    return joined.select([*shared, *("_".join(total) for total in totals)]).rename_columns(
        [*shared, *(name for name, _ in totals)]
    )


def _count_cuts(rows: pa.Table, cuts: DdlCuts) -> np.ndarray:
    """Count how many of the DDLs that may concern a row's table come before the row."""
    times = rows["order_ts"].to_numpy()
    after_ddls = rows["after_ddls"].to_numpy()
    counts = np.zeros(len(times), np.int64)
    if not cuts.by_table and not cuts.everywhere:
        return counts
    encoded = rows["name"].combine_chunks().dictionary_encode()
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    by_name = _name_cuts(cuts)
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(len(encoded.dictionary) + 1))
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        of_table = by_name.get(name, cuts.everywhere)
        if of_table:
            places = order[bounds[number] : bounds[number + 1]]
            at = times[places]
            cut_times = np.array(of_table, np.int64)
            counts[places] = np.where(
                after_ddls[places],
                np.searchsorted(cut_times, at, "right"),
                np.searchsorted(cut_times, at, "left"),
            )
    return counts


def _name_cuts(cuts: DdlCuts) -> dict[str, tuple[int, ...]]:
    """Return the cuts of tables by the names that `events` has."""
    named = ((make_table_name(*table), cuts.of(table)) for table in cuts.by_table)
    return {replace_surrogates(name): times for name, times in named if name is not None}


def _make_group(row: Mapping[str, Any]) -> RowGroup:
    return RowGroup(
        **{"inserts": 0} | {name: row[name] for name in row if name not in ("key_columns", _CUTS)},
        key_columns=_split_keys(row["key_columns"]),
    )


def _split_keys(keys: str | None) -> tuple[str, ...] | None:
    if keys is None:
        return None
    return tuple(keys.split(_BETWEEN_KEYS)) if keys else ()


def _sort_key(group: RowGroup) -> tuple[Any, ...]:
    stated = statement_order(group.schema_version, group.observed, group.key_columns)
    return (group.first, group.database, group.table, *stated)
