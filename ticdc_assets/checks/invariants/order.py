"""What the protocols promise of order: watermarks that only grow, and what precedes what."""

from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pyarrow as pa

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.event_facts import (
    DIGEST_COLUMNS,
    EVENT_DIGESTS,
    read_digests,
)
from ticdc_assets.checks.invariants.invariant import Result, promise
from ticdc_assets.checks.invariants.queries import GetColumn, KnownRows, Rows, choose_rows, map_rows
from ticdc_assets.checks.invariants.rows import ROW_COLUMNS
from ticdc_assets.protocols.registry import get_ordering, get_traits
from ticdc_assets.store.arrow import make_table

_DECREASE = ("snapshot_id", "partition", "ts_before", "ts")
_LATE = (*ROW_COLUMNS, "resolved_before")
_MISSING_DDL = ("database", "table", "commit_ts", "sql", "source", "missing_in_partitions")
_VERSION_DECREASE = ("database", "table", "valid_from", "schema_version", "version_before", "sql")


@promise("checkpoints", "ERROR", blocking=True)
def resolved_ts_is_monotonic(context: CheckContext) -> Result:
    """The resolved ts, and the watermark of each partition, never decreases.

    A sender that restarts repeats smaller watermarks; they are ignored.
    """
    decreases: list[tuple[object, ...]] = []
    for one, other in pairwise(context.snapshots):
        number = other.snapshot_id
        if other.ts < one.ts:
            decreases.append((number, "all", one.ts, other.ts))
        watermarks = other.watermarks
        decreases += [
            (number, partition, ts, watermarks.get(partition))
            for partition, ts in sorted(one.watermarks.items())
            if watermarks.get(partition, -1) < ts
        ]
    return KnownRows(_DECREASE, decreases)


def _has_commit_ts(feed: Changefeed) -> bool:
    return get_ordering(feed) == "commit_ts"


@promise("events", "WARN", applies_to=_has_commit_ts)
def no_new_rows_below_resolved_ts(context: CheckContext) -> Result:
    """Once a resolved ts is applied, no new row arrives with a commit ts up to and including it.

    A late row that arrived before is a repetition.  Any other was missing from the tables until
    now; the lake has replayed them.
    """
    is_one_snapshot = len(context.new_snapshots) == 1
    if is_one_snapshot and not any(
        row["kind"] == "row" and row["is_late"] for row in context.event_counts
    ):
        return KnownRows(_LATE)
    rows = {"events": context.events, "resolved": _resolved_ts_before_batches(context)}
    late = (
        "FROM {events} e JOIN {resolved} r ON e.batch = r.batch"
        " WHERE e.kind = 'row' AND e.ordering = 'commit_ts' AND e.commit_ts <= r.resolved_before"
    )
    bounds = "SELECT min(e.commit_ts), max(e.commit_ts), max(e.batch) "
    ((first, last, batch),) = context.query(bounds + late, **rows).collect()
    if first is None:
        return KnownRows(_LATE)
    if context.feed.transport == "storage":
        # A file that waited for its schema file arrived in time: its rows are not late.
        late += " AND EXISTS (SELECT 1 FROM {files} f WHERE f.seq = e.seq AND f.batch = e.batch)"
        rows["files"] = context.read("raw", ("seq", "batch"), {"batch": context.before.batch})
    late += (
        " AND NOT EXISTS (SELECT 1 FROM {known} k WHERE k.name = e.name"
        " AND k.commit_ts = e.commit_ts AND k.digest = e.digest AND k.batch < e.batch)"
    )
    rows["known"] = _read_known_rows(context, first, last, batch)
    columns = ", ".join(f"e.{name}" for name in ROW_COLUMNS)
    return context.query(f"SELECT {columns}, r.resolved_before {late}", **rows)


def _read_known_rows(context: CheckContext, first: int, last: int, batch: int) -> Rows:
    """Read the digests of rows between two commit ts that arrived before a batch."""
    stored = context.read("events", ("kind", *DIGEST_COLUMNS), {"commit_ts": first - 1})

    def is_chosen(get: GetColumn) -> Any:
        return (get("kind") == "row") & (get("commit_ts") <= last) & (get("batch") < batch)

    return map_rows(choose_rows(stored, is_chosen), read_digests, EVENT_DIGESTS)


def _resolved_ts_before_batches(context: CheckContext) -> pa.Table:
    """Return the resolved ts that was applied when each batch was ingested."""
    snapshots = sorted((row.batch, row.ts) for row in context.snapshots)
    batches = [batch for batch, _ in snapshots]
    greatest: list[int] = []
    for _, ts in snapshots:
        greatest.append(max(ts, greatest[-1] if greatest else 0))
    rows: list[tuple[object, ...]] = []
    for batch in range(context.before.batch + 1, context.after.batch + 1):
        position = bisect_left(batches, batch)
        if position:
            rows.append((batch, greatest[position - 1]))
    return make_table("batch bigint, resolved_before bigint", rows)


def _has_ordered_files(feed: Changefeed) -> bool:
    one_node = not feed.enable_table_across_nodes
    return feed.transport == "storage" and _has_commit_ts(feed) and one_node


@promise("events", "WARN", applies_to=_has_ordered_files)
def commit_ts_is_monotonic_per_file(context: CheckContext) -> Result:
    """Within one data file, commit ts never decrease.

    From one file to the next they may, as rows are repeated after a restart; and within one file
    where several nodes write a table.
    """
    columns = ", ".join(f"e.{name}" for name in (*ROW_COLUMNS, "commit_ts_before"))
    return context.query_events(
        f"SELECT {columns} FROM (SELECT *, lag(commit_ts) OVER"
        " (PARTITION BY source, seq ORDER BY number) AS commit_ts_before FROM {events} o"
        " WHERE is_pending AND ordering = 'commit_ts') e WHERE commit_ts < commit_ts_before"
    )


@promise("events", "WARN", applies_to=lambda feed: get_traits(feed).sends_ddl_to_all_partitions)
def ddl_reaches_all_partitions(context: CheckContext) -> Result:
    """Simple and Open Protocol send every DDL to all partitions of its topic.

    Canal-JSON sends it to partition 0 only.  A partition must have it once its watermark is beyond
    the DDL's commit ts; at exactly that ts the two come in either order.
    """
    if not any(row["kind"] == "ddl" for row in context.event_counts):
        return KnownRows(_MISSING_DDL)
    partitions: dict[str, dict[int, int]] = defaultdict(dict)
    for name, watermark in context.snapshots[-1].watermarks.items() if context.snapshots else ():
        topic, _, number = name.rpartition("-")
        partitions[topic][int(number)] = watermark
    sent: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    ddls = context.query_events(
        "SELECT DISTINCT e.source, e.database, e.table, e.commit_ts, e.sql, e.partition"
        f" FROM {{events}} e WHERE e.kind = 'ddl' AND e.commit_ts >= {context.before.ts}"
        f" AND e.commit_ts < {context.after.ts}"
    )
    for *ddl, partition in ddls.collect():
        sent[tuple(ddl)].add(partition)
    missing: list[tuple[object, ...]] = []
    for (topic, database, table, ts, sql), sent_to in sent.items():
        beyond = {number for number, watermark in partitions[topic].items() if watermark > ts}
        if lacking := sorted(beyond - sent_to):
            missing.append((database, table, ts, sql, topic, ", ".join(map(str, lacking))))
    return KnownRows(_MISSING_DDL, missing)


@promise("events", "WARN")
def schema_versions_increase(context: CheckContext) -> Result:
    """The schema version of a table never decreases from one DDL to the next.

    In Simple, RENAME keeps it; in the storage sink it is the DDL's commit ts.
    """
    decreases: list[tuple[object, ...]] = []
    for versions in context.schema_versions_by_table.values():
        numbered = [row for row in versions if row["schema_version"] is not None]
        # A version that ends where it begins was superseded by a later DDL of the same commit ts.
        numbered.sort(
            key=lambda row: (
                row["valid_from"],
                row["valid_to"] is None,
                row["valid_to"],
                row["schema_version"],
            )
        )
        for one, other in pairwise(numbered):
            before = one["schema_version"]
            if other["schema_version"] < before and other["valid_from"] >= context.before.ts:
                values = {**other, "version_before": before}
                decreases.append(tuple(values[name] for name in _VERSION_DECREASE))
    return KnownRows(_VERSION_DECREASE, decreases)
