"""Every golden dataset, applied in windows, equals TiDB at every truth point it reaches.

The datasets arrive in pieces, as a topic or a folder grows, and each piece is applied up to its
resolved ts.
"""

from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from random import Random
from zlib import crc32

import msgspec
import pytest

from tests.golden import datasets, find_folder, meta, open_lines, released_datasets, storage_tree
from tests.plan.engine import Engine
from tests.reference.golden_feeds import (
    APPROXIMATE_REPORTED,
    DROPPED_REMAIN,
    EARLIER_ROWS,
    END_STATE_ONLY,
    PARTITIONED_DIFFER,
    PAUSED_REPORTED,
    QUARANTINED_REPORTED,
    ROWS_REPORTED,
    UNUSABLE,
    allowed,
    difference,
    feed_of,
    in_dropped_databases,
    keys,
    keys_before_the_start,
    list_untold,
    messages,
    replicated,
    schema_difference,
)
from tests.truth import truth
from tests.usual import usual
from ticdc_assets.events import Event, Watermark
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.resources.storage import open_claim_check_folder
from ticdc_assets.stream.reading import read_folder_events, read_topic_events

# Of each workload those that differ most; the others with `-m all_golden`.
USUAL = (
    "lifecycle/canal-json-ext-handle-key-only",
    "lifecycle/canal-json-ext-raw-change",
    "lifecycle/canal-json-ext-replayed",
    "lifecycle/newarch-simple-avro",
    "lifecycle/newarch-storage-canal-json-across-nodes",
    "lifecycle/newarch-storage-csv-table-id-path",
    "lifecycle/open-protocol-only-updated",
    "lifecycle/simple-avro-bootstrap-p0",
    "lifecycle/simple-json-topic-per-table",
    "lifecycle/storage-canal-json-restart",
    "lifecycle/storage-csv-raw-change",
    "types/newarch-open-protocol",
    "types/storage-csv-force-replicate",
)


def is_usual(dataset: str) -> bool:
    return any(fnmatch(dataset, pattern) for pattern in USUAL)


ALL = usual(
    [d for d in [*datasets(), *released_datasets()] if UNUSABLE not in allowed(d)],
    is_usual,
    pytest.mark.all_golden,
)


@pytest.mark.parametrize("dataset", ALL)
def test_windows_equal_tidb(dataset: str) -> None:
    random = Random(crc32(dataset.encode()))
    points = [ts for ts in sorted(truth(dataset.split("/")[0])) if ts >= started(dataset)]
    engine = Engine.of(feed_of(dataset))
    compared = []
    for piece in arriving(dataset, random):
        engine.take(piece)
        resolved = engine.resolved_ts
        for ts in points:
            if resolved is not None and engine.now.ts < ts <= resolved and random.random() < 0.7:
                engine.advance(ts, more_may_come=not engine.is_storage)
                if END_STATE_ONLY not in allowed(dataset):
                    compare(engine, dataset, ts)
                    compared.append(ts)
        engine.advance()
    compare(engine, dataset, points[-1])
    assert compared or END_STATE_ONLY in allowed(dataset)
    assert engine.replays == 0 or END_STATE_ONLY in allowed(dataset)
    kinds = {
        "approximate": APPROXIMATE_REPORTED,
        "paused": PAUSED_REPORTED,
        "quarantined": QUARANTINED_REPORTED,
    }
    untold = list_untold(dataset)
    problems = [
        p for p in engine.problems if p.data_may_differ and (p.database, p.table) not in untold
    ]
    assert [p.describe() for p in problems if kinds.get(p.kind) not in allowed(dataset)] == []
    assert engine.now.unknown_tables == []


def started(dataset: str) -> int:
    start: int = meta(dataset)["changefeed_start_ts"]
    return start


def compare(engine: Engine, dataset: str, ts: int) -> None:
    """Compare the tables of an engine with those of TiDB."""
    may = allowed(dataset)
    workload = dataset.split("/")[0]
    expected = replicated(dataset, truth(workload)[ts])
    tables = engine.live_tables()
    untold = list_untold(dataset)
    stopped = {name: reason for name, reason in engine.stopped().items() if name not in untold}
    assert not stopped or PAUSED_REPORTED in may, stopped
    surplus = (set(tables) | set(stopped)) - set(expected) - untold
    assert not surplus or (DROPPED_REMAIN in may and surplus <= in_dropped_databases(workload))
    for name, true in expected.items():
        if name in stopped:
            continue
        table = tables[name]
        if PARTITIONED_DIFFER in may and table.schema.partitioning is not None:
            continue
        ours = true.strict([msgspec.json.decode(line) for line in encode_rows(table)])
        theirs = true.strict_rows()
        from_start = EARLIER_ROWS not in may
        assert schema_difference(table.schema, true, from_start=from_start) == []
        if table.incomplete:
            assert ROWS_REPORTED in may
            assert keys(true, theirs - ours) <= table.incomplete
            assert ours <= theirs
        elif not from_start:
            assert ours <= theirs
            assert keys(true, theirs - ours) <= keys_before_the_start(dataset, true)
        else:
            assert difference(ours, theirs) == ([], [])


def arriving(dataset: str, random: Random) -> Iterator[list[Event]]:
    """Yield a dataset in pieces."""
    feed = feed_of(dataset)
    if feed.transport == "storage":
        yield from growing(dataset, random)
        return
    events = topic_events_of(dataset)
    sizes = random.choice([[5, 40, 200], [60, 300], [1, 400]])
    start = 0
    while start < len(events):
        size = random.choice(sizes)
        yield events[start : start + size]
        start += size


@cache
def topic_events_of(dataset: str) -> list[Event]:
    feed = feed_of(dataset)
    return list(read_topic_events(feed, messages(feed), open_claim_check_folder(feed)))


def growing(dataset: str, random: Random) -> Iterator[list[Event]]:
    """Yield what is new in a folder at each poll; some files are ahead of the checkpoint."""
    feed, tree = feed_of(dataset), storage_tree(dataset)
    there: dict[str, bytes] = {}
    read: set[str] = set()
    steps = list(open_lines(find_folder(dataset) / "manifest.jsonl"))
    for step in steps:
        for file in step["files"] or ():
            there[file["path"]] = tree[file["path"]]
        if step is not steps[-1] and random.random() < 0.7:
            continue
        if step is steps[-1]:
            there |= tree
        metadata = msgspec.json.encode({"checkpoint-ts": step["ts"]})
        grown = {**there, "metadata": metadata}
        listed = [path for path in grown if path not in read or "meta/" in path]
        events = list(read_folder_events(feed, listed, grown.__getitem__))
        yield [e for e in events if isinstance(e, Watermark) or e.position.path not in read]
        read |= set(there)
