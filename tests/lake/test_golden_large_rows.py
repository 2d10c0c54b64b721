"""Recorded messages that hold a key only make the tables that TiDB had, with rows from upstream.

Upstream is a fake TiDB.  Its rows come from the reference model and another dataset of the same
workload, which has all of them.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from zlib import crc32

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.checks.test_golden_checks import failed
from tests.lake import golden_runs
from tests.lake.fake_tidb import FakeTidb, Row, fill_table
from tests.lake.golden_runs import Cut, GoldenLake, advance_in_windows, compare, list_truth_points
from tests.mariadb_server import MariaDb
from tests.reference.golden_feeds import (
    QUARANTINED_REPORTED,
    ROWS_REPORTED,
    allowed,
    difference,
    feed_of,
    messages,
    replayed,
    replicated,
)
from tests.truth import truth
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks import SnapshotRange
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import FETCHED, Event, RowChange, TableSchema
from ticdc_assets.lake.advance import RecordSource, Source, replay_tables
from ticdc_assets.lake.events.large_rows import LargeRows, lacks_row
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.store.event_rows import Arrival
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.upstream.snapshot import UpstreamRows
from ticdc_assets.views.ledger import build_ledger

PROTOCOLS = ("open-protocol", "canal-json-ext", "simple-json", "simple-avro")
DATASETS = [f"{w}/{p}-handle-key-only" for w in ("types", "lifecycle") for p in PROTOCOLS]
# A table upstream at one ts.
_Table = tuple[TableSchema, list[Row]]


def read_events(feed: Changefeed) -> Iterator[Event]:
    return read_topic_events(feed, messages(feed), None)


@cache
def tables_upstream(dataset: str) -> dict[int, list[_Table]]:
    """Compute the tables with rows that a dataset lacks, at the commit ts of each."""
    workload, _, protocol = dataset.partition("/")
    other = "canal-json-ext" if protocol.startswith("simple-json") else "simple-json"
    whole = replayed(f"{workload}/{other}")
    lacking = [e for e in read_events(feed_of(dataset)) if isinstance(e, RowChange)]
    wanted = {(e.commit_ts, e.database, e.table) for e in lacking if lacks_row(e)}
    found: dict[int, list[_Table]] = {}
    for ts, database, table in sorted(wanted):
        whole.advance(ts)
        model = whole.find_table(f"{database}.{table}")
        rows = [msgspec.json.decode(line) for line in encode_rows(model)]
        found.setdefault(ts, []).append((model.schema, rows))
    return found


def make_fake(dataset: str, server: MariaDb) -> FakeTidb:
    tables = tables_upstream(dataset)

    def fill(ts: int) -> None:
        for schema, rows in tables[ts]:
            fill_table(server, schema, rows)

    return FakeTidb(server, fill=fill)


def complete(fake: FakeTidb, feed: Changefeed, events: Iterable[Event]) -> list[Event]:
    arrivals = [Arrival(1, seq, 0, event) for seq, event in enumerate(events)]
    with ExitStack() as connections:
        large_rows = LargeRows(feed, fake.open, connections)
        return [arrival.event for arrival in large_rows.complete(arrivals)]


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_model_with_rows_of_a_fake_tidb_is_what_tidb_had(
    mariadb: MariaDb, dataset: str
) -> None:
    feed, fake = feed_of(dataset), make_fake(dataset, mariadb)
    sent = list(read_events(feed))
    completed = complete(fake, feed, sent)

    count = sum(lacks_row(event) for event in sent)
    assert count == (1 if dataset.startswith("types") else 17)
    changes = [event for event in completed if isinstance(event, RowChange)]
    assert sum(change.upstream == FETCHED for change in changes) == count
    assert not any(map(lacks_row, changes))
    # The columns of a table, and the rows of one commit ts.
    assert len(fake.sent) == 2 * len(fake.read) == 2 * len(tables_upstream(dataset))

    replay = ModelReplay(feed)
    replay.add(completed)
    for ts in list_truth_points(dataset):
        replay.advance(ts)
        tables = {(t.schema.database, t.schema.table): t for t in replay.model.tables}
        for name, true in replicated(dataset, truth(dataset.split("/")[0])[ts]).items():
            rows = [msgspec.json.decode(line) for line in encode_rows(tables[name])]
            found = difference(true.strict(rows), true.strict_rows())
            assert found == ([], []) or QUARANTINED_REPORTED in allowed(dataset), name
            if name in (("shop", "orders"), ("types_db", "t_str")):
                assert found == ([], []), name
    assert not [p for p in replay.model.problems if p.kind == "incomplete"]


class FetchingLake(GoldenLake):
    """The lake of a dataset whose changefeed declares the database upstream."""

    def __init__(self, spark: SparkSession, root: Path, dataset: str, fake: FakeTidb) -> None:
        super().__init__(spark, root, dataset)
        self.fake = fake
        self.is_upstream_there = True

    def _source(self, cut: Cut) -> Source:
        source = super()._source(cut)
        assert isinstance(source, RecordSource)
        return dataclasses.replace(source, open_upstream=self.open)

    @contextmanager
    def open(self) -> Iterator[UpstreamRows]:
        if not self.is_upstream_there:
            raise ConfigError("must be reachable", setting="host")
        with self.fake.open() as rows:
            yield rows

    def rebuild(self) -> None:
        last = read_last_snapshot(self.lake)
        everything = ReplayRequest(frozenset(last.state.incarnations), 0)
        replay_tables(self.lake, last, everything, lambda *_: None)


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no row be missing that is in the stream by its key only."""

    def without_large_rows(dataset: str) -> set[str]:
        return allowed(dataset) - {ROWS_REPORTED}

    monkeypatch.setattr(golden_runs, "allowed", without_large_rows)


@pytest.mark.all_golden
@pytest.mark.usefixtures("strict")
def test_the_lake_with_rows_of_a_fake_tidb_is_what_tidb_had(
    spark: SparkSession, tmp_path: Path, mariadb: MariaDb
) -> None:
    dataset = "lifecycle/open-protocol-handle-key-only"
    golden = FetchingLake(spark, tmp_path, dataset, make_fake(dataset, mariadb))
    golden.is_upstream_there = False
    with pytest.raises(ConfigError, match="host: must be reachable"):
        golden.advance(Cut(records=len(messages(golden.feed))))
    # What was ingested waits for upstream.
    assert read_last_snapshot(golden.lake).ts == 0
    for name in ("quarantine", "events"):
        assert read_table(golden.lake, name).count() == 0

    golden.is_upstream_there = True
    advance_in_windows(golden, Random(1), 0, 0)
    fetched = read_table(golden.lake, "events").where("statement = 'fetched'")
    assert fetched.where("kind = 'row' AND NOT handle_key_only").count() == 17
    assert build_ledger(LakeReader(golden.lake.location), read_last_snapshot(golden.lake)).adds_up

    # A rebuild needs no upstream.
    golden.is_upstream_there = False
    golden.rebuild()
    compare(golden, list_truth_points(dataset)[-1])


@pytest.mark.all_golden
@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("dataset", DATASETS)
def test_the_lake_with_rows_of_a_fake_tidb_keeps_all_promises_in_windows(
    spark: SparkSession, tmp_path: Path, mariadb: MariaDb, dataset: str
) -> None:
    golden = FetchingLake(spark, tmp_path, dataset, make_fake(dataset, mariadb))
    advance_in_windows(golden, Random(crc32(dataset.encode())), 2, 1)
    assert read_table(golden.lake, "events").where("statement = 'fetched'").count()
    if QUARANTINED_REPORTED not in allowed(dataset):
        assert not failed(golden, SnapshotRange(0, read_last_snapshot(golden.lake).snapshot_id))
