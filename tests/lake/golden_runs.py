"""Apply golden datasets in cuts, and compare the lake with TiDB.

A cut of a topic lies anywhere between two records.  A cut of a folder lies between two steps of its
manifest, with some files of the next step already present.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from tests.golden import find_folder, meta, open_lines, storage_tree
from tests.lake.golden_readers import compare_readers
from tests.lake.reading import read_lines
from tests.reference.golden_feeds import (
    APPROXIMATE_REPORTED,
    DROPPED_REMAIN,
    EARLIER_ROWS,
    END_STATE_ONLY,
    PARTITIONED_DIFFER,
    PAUSED_REPORTED,
    QUARANTINED_REPORTED,
    ROWS_REPORTED,
    allowed,
    difference,
    feed_of,
    in_dropped_databases,
    list_untold,
    messages,
    replayed,
    replicated,
    schema_difference,
)
from tests.truth import Name, TrueTable, truth
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.advance import AdvanceResult, FolderSource, RecordSource, Source, advance
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.protocols.registry import get_ordering
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.resources.storage import open_claim_check_folder, open_sink_folder
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.stream.problem import KEY_ONLY, Problem
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker
from ticdc_assets.views.asof import AsOfView, as_of

_THREADS = 4
_KINDS = {
    "approximate": APPROXIMATE_REPORTED,
    "paused": PAUSED_REPORTED,
    "quarantined": QUARANTINED_REPORTED,
    "incomplete": ROWS_REPORTED,
}


def list_truth_points(dataset: str) -> list[int]:
    """List the truth points of a dataset at which the lake can be compared."""
    start = meta(dataset)["changefeed_start_ts"]
    points = [ts for ts in sorted(truth(dataset.split("/")[0])) if ts >= start]
    return points[-1:] if END_STATE_ONLY in allowed(dataset) else points


# --- apply ------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """The present part of a dataset: a number of records, or files and the `metadata` file."""

    records: int = 0
    files: tuple[str, ...] = ()
    metadata: bytes | None = None


class GoldenLake:
    """The lake of a dataset, and the part of its source present so far."""

    def __init__(self, spark: SparkSession, root: Path, dataset: str) -> None:
        self.spark = spark
        self.dataset = dataset
        self.feed = feed_of(dataset)
        if self.feed.transport == "storage":
            folder = root / "sink"
            folder.mkdir()
            self.feed = dataclasses.replace(self.feed, location=str(folder))
        self.lake = LakeSession(spark, Lake(str(root / "lake"), "golden"), self.feed)
        self.runs: list[AdvanceResult] = []
        # Views of later points start from earlier ones, where they can.
        self._seen: AsOfView | None = None

    def advance(self, cut: Cut) -> AdvanceResult:
        done = advance(self.lake, self._source(cut))
        self.runs.append(done)
        return done

    def _source(self, cut: Cut) -> Source:
        feed = self.feed
        if feed.transport != "storage":
            sent = messages(feed)[: cut.records]
            claims = partial(open_claim_check_folder, feed) if feed.claim_check_storage else None
            return RecordSource(lambda _: iter(sent), claims)  # type: ignore[arg-type]
        tree = storage_tree(self.dataset)
        for path in cut.files:
            place = Path(feed.location, path)
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(tree[path])
        if cut.metadata is not None:
            Path(feed.location, "metadata").write_bytes(cut.metadata)
        return FolderSource(open_sink_folder(feed), partial(open_sink_folder, feed))

    @property
    def applied(self) -> set[int]:
        return {run.applied.resolved_ts for run in self.runs}

    @property
    def is_dated(self) -> bool:
        """Return whether the stream states commit ts and checkpoints.

        Of a stream that states only milliseconds, the lake shows everything received.
        """
        feed = self.feed
        return feed.transport == "storage" or get_ordering(feed) != "milliseconds"

    def as_of(self, ts: int | None) -> AsOfView:
        self._seen = as_of(self.lake, ts, self._seen)
        return self._seen


def cuts(dataset: str, resolved: Collection[int], random: Random, others: int = 0) -> list[Cut]:
    """Make cuts that resolve exactly these ts, `others` anywhere, and the end."""
    feed = feed_of(dataset)
    if feed.transport == "storage":
        return _folder_cuts(dataset, resolved, random, others)
    by_ts = _resolved_by_record(dataset)
    ends = [random.choice([n for n, ts in by_ts if ts == wanted]) for wanted in resolved]
    ends += random.sample(range(1, len(by_ts)), others)
    return [Cut(records=end) for end in (*sorted(set(ends) - {len(by_ts)}), len(by_ts))]


@cache
def _resolved_by_record(dataset: str) -> list[tuple[int, int | None]]:
    """Return the resolved ts after every record, numbered from 1."""
    feed = feed_of(dataset)
    progress = ResolvedTsTracker(feed)
    found = []
    for number, message in enumerate(messages(feed), 1):
        progress.observe(read_topic_events(feed, [message], open_claim_check_folder(feed)))
        found.append((number, progress.resolved_ts))
    return found


def _folder_cuts(dataset: str, resolved: Collection[int], random: Random, others: int) -> list[Cut]:
    tree = storage_tree(dataset)
    steps = list(open_lines(find_folder(dataset) / "manifest.jsonl"))
    files = [[f["path"] for f in step["files"] or ()] for step in steps]
    # The last of several steps of one ts: only then is the ts complete.
    last = {step["ts"]: number for number, step in enumerate(steps)}
    numbers = [last[ts] for ts in resolved] + random.sample(sorted(last.values())[1:], others)
    found = []
    for number in sorted({n for n in numbers if n < len(steps) - 1}):
        there = [path for step in files[: number + 1] for path in step]
        # The sink flushes one table after another, while the lake reads.
        early = [path for path in files[number + 1] if random.random() < 0.5]
        metadata = b'{"checkpoint-ts":%d}' % steps[number]["ts"]
        chosen = dict.fromkeys(path for path in [*there, *early] if path != "metadata")
        found.append(Cut(files=tuple(chosen), metadata=metadata))
    return [*found, Cut(files=tuple(tree), metadata=tree["metadata"])]


# --- compare ------------------------------------------------------------------------


def compare(golden: GoldenLake, ts: int, sample: Random | None = None) -> None:
    """Compare the lake at a truth point with TiDB, or with the model where TiDB has no answer.

    With `sample` only the rows of a few tables are compared.
    """
    dataset = golden.dataset
    may, workload = allowed(dataset), dataset.split("/")[0]
    expected = replicated(dataset, truth(workload)[ts])
    shown = golden.as_of(ts if golden.is_dated else None)
    assert shown.ts == ts or not golden.is_dated
    tables = {(t.schema.database, t.schema.table): t for t in shown.tables()}
    assert set(expected) <= set(tables)
    surplus = set(tables) - set(expected) - list_untold(dataset)
    assert not surplus or (DROPPED_REMAIN in may and surplus <= in_dropped_databases(workload))
    chosen = sorted(tables)
    if sample is not None:
        chosen = sample.sample(chosen, min(3, len(chosen)))

    def read(name: tuple[str, str]) -> list[bytes] | None:
        try:
            return read_lines(golden.lake, shown, tables[name])
        except ConfigError:
            # Between windows, a row may stop a table that was not stopped before.
            is_between = PAUSED_REPORTED in may and ts not in golden.applied
            if is_between and _model(dataset, ts)[name].pause_reason is not None:
                return None
            raise

    with ThreadPoolExecutor(_THREADS) as pool:
        lines = list(pool.map(read, chosen))
    for name, ours in zip(chosen, lines, strict=True):
        if ours is None:
            continue
        true = expected.get(name)
        _compare(golden, ts, tables[name], [msgspec.json.decode(line) for line in ours], true)


def _compare(
    golden: GoldenLake,
    ts: int,
    table: Incarnation,
    rows: list[dict[str, str | None]],
    true: TrueTable | None,
) -> None:
    dataset = golden.dataset
    may, schema = allowed(dataset), table.schema
    name = schema.database, schema.table
    if table.is_stopped:
        may_pause = PAUSED_REPORTED in may or name in list_untold(dataset)
        assert may_pause, f"{name}: {table.reason}"
        assert _model(dataset, ts)[name].pause_reason is not None, f"{name}: {table.reason}"
        return
    partial_truth = may & {EARLIER_ROWS, ROWS_REPORTED}
    if true is not None and not (PARTITIONED_DIFFER in may and schema.partitioning is not None):
        assert schema_difference(schema, true, from_start=EARLIER_ROWS not in may) == [], name
        ours, theirs = true.strict(rows), true.strict_rows()
        if not partial_truth:
            assert difference(ours, theirs) == ([], []), name
            return
        assert ours <= theirs, name
    compare_with_model(dataset, ts, schema, rows)


def compare_with_model(
    dataset: str, ts: int, schema: TableSchema, rows: Sequence[Mapping[str, str | None]]
) -> None:
    """Compare the rows that a table has with those of the model at a ts."""
    model = _model(dataset, ts)[schema.database, schema.table]
    assert model.pause_reason is None
    theirs = [msgspec.json.decode(line) for line in encode_rows(model)]
    found = difference(_plain(rows, schema), _plain(theirs, schema))
    assert found == ([], []), (schema.database, schema.table)


def _plain(
    rows: Sequence[Mapping[str, str | None]], schema: TableSchema
) -> Counter[tuple[object, ...]]:
    """Count the rows of a lake or of the model; a column never sent is NULL in a lake."""
    names = [column.name for column in schema.columns if column.generated != "virtual"]
    return Counter(tuple(row.get(name) for name in names) for row in rows)


@cache
def _model(dataset: str, ts: int) -> dict[Name, Any]:
    replay = replayed(dataset)
    replay.advance(ts)
    return {(t.schema.database, t.schema.table): t for t in replay.model.tables}


def advance_in_windows(golden: GoldenLake, random: Random, resolved: int, others: int) -> None:
    """Apply a dataset; compare it whenever a truth point is applied, at the end by all readers.

    `resolved` windows end at truth points, `others` anywhere, and the last one at the end.
    """
    points = list_truth_points(golden.dataset)
    chosen = random.sample(points[:-1], min(resolved, len(points) - 1))
    for cut in cuts(golden.dataset, chosen, random, others):
        ts = golden.advance(cut).applied.resolved_ts
        if ts in points:
            compare(golden, ts)
    if points[-1] not in golden.applied:
        # This stream does not state how far it is complete.
        compare(golden, points[-1])
    assert {*chosen, points[-1]} <= golden.applied or not golden.is_dated
    assert unexpected_problems(golden) == []
    for unopened in compare_readers(golden.lake):
        print(unopened)


def _find_rule(problem: Problem) -> str | None:
    """Return what a dataset must be allowed to have such a problem."""
    if problem.kind == "quarantined" and problem.reason.startswith(KEY_ONLY):
        return ROWS_REPORTED
    return _KINDS.get(problem.kind)


def unexpected_problems(golden: GoldenLake) -> list[str]:
    """Describe all problems except those the dataset is known to have."""
    may, untold = allowed(golden.dataset), list_untold(golden.dataset)
    problems = [problem for run in golden.runs for problem in run.applied.problems]
    return [
        p.describe()
        for p in problems
        if p.data_may_differ and _find_rule(p) not in may and (p.database, p.table) not in untold
    ]
