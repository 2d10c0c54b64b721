"""What the lake promises of itself: nothing refused unsaid, and every input accounted for."""

from collections import defaultdict

from pyspark.sql import functions as F

from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import Found, Violations, promise
from ticdc_assets.errors import ChecksumMismatch
from ticdc_assets.lake.events.event_rows import table_name
from ticdc_assets.lake.views.ledger import build_ledger

_LOST = "row events, and what became of them"
_FAULT = ("what", "table", "counted", "told")
_REFUSED = ("stage", "database", "table", "commit_ts", "error", "reason", "place")


@promise("quarantine", "ERROR")
def quarantine_is_empty(scene: CheckContext) -> Found:
    """Everything that came in or was due could be decoded and applied.

    What could not is in the quarantine with its position, the reason and its bytes; the rest goes
    on without it.  Checksums of schema files have a check of their own.
    """
    doubted = ChecksumMismatch.__name__
    if not any(row["is_here"] and row["error"] != doubted for row in scene.refused):
        return Violations(_REFUSED)
    refused = scene.read("quarantine").where(F.col("error") != doubted)
    place = F.concat_ws("-", "source", "partition", "number")
    return refused.where(scene.refused_here).withColumn("place", place).select(*_REFUSED)


@promise("checkpoints", "ERROR", blocking=True)
def ledger_balances(scene: CheckContext) -> Found:
    """Every input is accounted for: applied, superseded, quarantined, waiting, or sent again.

    Of a window: its row events that were due were read, every batch is marked as decoded once, and
    all that was refused is kept.  Tables that were replayed, or are stopped, are recounted by a
    full check only.
    """
    if scene.window.is_whole:
        done = build_ledger(scene.lake, scene.after)
        found: list[tuple[object, ...]] = [
            (_LOST, table.name, table.input, table.input - table.missing)
            for table in done.tables
            if not table.adds_up
        ]
        found += [(fault, None, None, None) for fault in done.source.faults]
        return Violations(_FAULT, found)
    return Violations(_FAULT, [*_of_counts(scene), *_of_rows(scene), *_of_batches(scene)])


def _of_counts(scene: CheckContext) -> list[tuple[object, ...]]:
    """Counts that contradict themselves."""
    found: list[tuple[object, ...]] = []
    for line in scene.new_lines:
        for count in line["counts"] or ():
            told = count["applied"] + count["superseded"] + count["quarantined"]
            if told != count["read"]:
                what = f"row events applied, superseded and quarantined, line {line['seq']}"
                found.append((what, count["name"], count["read"], told))
    return found


def _of_rows(scene: CheckContext) -> list[tuple[object, ...]]:
    """Names of which the window read other than what was due."""
    if scene.has_replays:
        return []
    state = scene.after.state
    # Stopped tables read nothing beyond where they stopped, and dropped ones may have been stopped.
    stopped = {
        t.id
        for t in state.incarnations.values()
        if t.is_stopped or t.status_before_drop is not None
    }
    partial = {
        table_name(line["database"], line["table"])
        for line in scene.history
        if line["incarnation"] in stopped
    }
    partial |= {table_name(u.database, u.table) for u in state.unknown_tables}
    read: dict[str, int] = defaultdict(int)
    for line in scene.new_lines:
        for count in line["counts"] or ():
            read[count["name"]] += count["read"]
    # Rows with a commit ts that had been applied when they came are repetitions; those in
    # milliseconds may be.
    counted: dict[str, int] = defaultdict(int)
    for row in scene.counted_due:
        counted[row["name"]] += row["count"] if row["fresh"] else 0
    in_milliseconds = {
        row["name"] for row in scene.counted_due if row["ordering"] == "milliseconds"
    }
    unsure = partial | in_milliseconds
    return [
        ("row events read", name, counted.get(name, 0), read.get(name, 0))
        for name in sorted({*counted, *read})
        if name not in unsure and counted.get(name, 0) != read.get(name, 0)
    ]


def _of_batches(scene: CheckContext) -> list[tuple[object, ...]]:
    """Batches that are not marked as decoded just once, and refusals that were not kept."""
    kinds: dict[tuple[str, int], int] = defaultdict(int)
    for row in scene.tally:
        kinds[row["kind"], row["batch"] or 0] += row["count"]
    found: list[tuple[object, ...]] = [
        (f"marks of batch {batch} as decoded", None, 1, kinds["batch", batch])
        for batch in sorted({row["batch"] for row in scene.taken})
        if kinds["batch", batch] != 1
    ]
    before = scene.before.batch
    refused = sum(n for (kind, batch), n in kinds.items() if kind == "rejected" and batch > before)
    of_decode = [row for row in scene.refused if row["is_new"] and row["stage"] == "decode"]
    kept = sum(row["count"] for row in of_decode)
    if refused != kept:
        found.append(("inputs that were refused and kept", None, refused, kept))
    return found
