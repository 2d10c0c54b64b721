"""What the lake promises of itself: nothing is dropped silently, and every input is counted."""

from collections import defaultdict

from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import Result, promise
from ticdc_assets.checks.invariants.queries import KnownRows
from ticdc_assets.errors import ChecksumMismatch
from ticdc_assets.lake.quarantine import list_faults
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.ledger import build_ledger

_LEDGER = ("what", "table", "expected", "counted")
_QUARANTINED = ("stage", "database", "table", "commit_ts", "error", "reason", "position")
_LACKED = ("stage", "database", "table", "commit_ts", "reason", "count", "position")
_POSITION = ("source", "partition", "number")
_Rows = list[tuple[object, ...]]


@promise("quarantine", "ERROR")
def quarantine_is_empty(context: CheckContext) -> Result:
    """Every input could be decoded, and every row and DDL could be applied.

    What could not is in the quarantine with its position, the reason and its bytes; everything else
    was applied without it.  `schema_file_checksums_match` reports checksums of schema files.
    """
    checksum = ChecksumMismatch.__name__
    if not any(row["in_range"] and row["error"] != checksum for row in context.quarantine_counts):
        return KnownRows(_QUARANTINED)
    columns = (*(name for name in _QUARANTINED if name != "position"), "batch", *_POSITION)
    shown = ", ".join(f"q.{name}" for name in _QUARANTINED if name != "position")
    return context.query(
        f"SELECT {shown}, concat_ws('-', q.source, q.partition, q.number) AS position"
        f" FROM {{quarantine}} q WHERE q.error <> '{checksum}' AND ({context.in_new_quarantine})",
        quarantine=context.read("quarantine", columns),
    )


@promise("quarantine", "WARN")
def tables_lack_nothing(context: CheckContext) -> Result:
    """No table lacks what is in the quarantine, whichever run put it there.

    `ticdc-assets quarantine` lists the reasons.  What can be applied later leaves the quarantine;
    the rest counts until its table is loaded, dropped or truncated, or `verify` finds it equal.
    """
    if not context.quarantine_counts:
        return KnownRows(_LACKED)
    rows = [
        (f.stage, f.database, f.table, f.commit_ts, f.reason, f.count, str(f.position))
        for f in list_faults(LakeReader(context.lake.location))
        if f.is_open
    ]
    return KnownRows(_LACKED, rows)


@promise("checkpoints", "ERROR", blocking=True)
def ledger_balances(context: CheckContext) -> Result:
    """Every input is accounted for: applied, superseded, repeated, waiting or quarantined.

    For new snapshots: every pending row event was read, every batch has one `batch` event, and
    every quarantined input is in the quarantine.  Only a full check recounts tables that were
    replayed, are paused or are waiting.
    """
    if context.range.is_full:
        return KnownRows(_LEDGER, _recount_everything(context))
    return KnownRows(
        _LEDGER, [*_check_counts(context), *_check_rows(context), *_check_batches(context)]
    )


def _recount_everything(context: CheckContext) -> _Rows:
    ledger = build_ledger(LakeReader(context.lake.location), context.after)
    rows: _Rows = [
        ("row events with a known outcome", table.name, table.input, table.input - table.missing)
        for table in ledger.tables
        if not table.adds_up
    ]
    return rows + [(fault, None, None, None) for fault in ledger.source.faults]


def _check_counts(context: CheckContext) -> _Rows:
    """Return counts of the applied log that contradict themselves."""
    rows: _Rows = []
    for snapshot in context.new_snapshots:
        for count in snapshot.counts:
            outcomes = count.rows.applied + count.rows.superseded + count.rows.quarantined
            if outcomes != count.rows.read:
                number = snapshot.snapshot_id
                what = f"row events applied, superseded and quarantined, snapshot {number}"
                rows.append((what, count.name, count.rows.read, outcomes))
    return rows


def _check_rows(context: CheckContext) -> _Rows:
    """Return names of which the range read more or fewer rows than were pending."""
    if context.has_replays:
        return []
    pending: dict[str, int] = defaultdict(int)
    for row in context.pending_counts:
        # A late row ordered by commit ts repeats one that was applied.
        pending[row["name"]] += 0 if row["is_late"] else row["count"]
    # A row ordered by milliseconds may repeat one too: whether it does is not known.
    inexact = {row["name"] for row in context.pending_counts if row["ordering"] == "milliseconds"}
    read: dict[str, int] = defaultdict(int)
    for snapshot in context.new_snapshots:
        for count in snapshot.counts:
            # Of no table are those that arrived below a fold, which are late.
            read[count.name] += count.rows.read if count.incarnation else 0
    names = {*pending, *read} - inexact - _names_of_stopped_tables(context)
    return [
        ("row events read", name, pending.get(name, 0), read.get(name, 0))
        for name in sorted(names)
        if pending.get(name, 0) != read.get(name, 0)
    ]


def _names_of_stopped_tables(context: CheckContext) -> set[str | None]:
    """Return names of tables that read no row beyond a point, or did not when they were dropped."""
    state = context.after.state
    stopped = {
        t.id
        for t in state.incarnations.values()
        if t.is_stopped or t.status_before_drop is not None
    }
    names = {
        make_table_name(version["database"], version["table"])
        for version in context.schema_versions
        if version["incarnation"] in stopped
    }
    return names | {make_table_name(u.database, u.table) for u in state.unknown_tables}


def _check_batches(context: CheckContext) -> _Rows:
    """Return batches without exactly one `batch` event, and quarantined inputs that are missing."""
    kinds: dict[tuple[str, int], int] = defaultdict(int)
    for row in context.event_counts:
        kinds[row["kind"], row["batch"] or 0] += row["count"]
    rows: _Rows = [
        (f"`batch` events of batch {batch}", None, 1, kinds["batch", batch])
        for batch in sorted({row["batch"] for row in context.ingested_counts})
        if kinds["batch", batch] != 1
    ]
    before = context.before.batch
    events = sum(
        n for (kind, batch), n in kinds.items() if kind == "quarantined" and batch > before
    )
    kept = sum(
        row["count"]
        for row in context.quarantine_counts
        if row["in_new_batches"] and row["stage"] == "decode"
    )
    if events != kept:
        rows.append(("quarantined inputs", None, events, kept))
    return rows
