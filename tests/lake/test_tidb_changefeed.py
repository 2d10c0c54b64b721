"""Changefeeds of a real TiDB: lakes have at any TSO the rows that `tidb_snapshot` shows."""

import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.lake.tidb_recording import (
    MANNERS,
    ONCE,
    Recording,
    Table,
    declare,
    read_all,
    record,
    record_at_random,
    recorder_of,
    simplify,
    write,
)
from tests.tidb_server import Tidb
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import SimulationOptions
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.advance import advance
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.resources.dump import read_dump
from ticdc_assets.resources.reading import open_source
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.stream.reading import read_folder_events, read_topic_events
from ticdc_assets.views.asof import as_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recording(tidb: Tidb) -> Recording:
    with recorder_of(tidb) as recorder:
        return record(recorder, seed=1, transactions=250, steps=2)


@pytest.mark.parametrize(
    "manner",
    [
        pytest.param(manner, marks=() if manner in ("csv", "open") else pytest.mark.all_cases)
        for manner in MANNERS
    ],
)
def test_a_lake_has_at_any_tso_the_rows_that_tidb_has_then(
    request: pytest.FixtureRequest, tidb: Tidb, recording: Recording, manner: str, tmp_path: Path
) -> None:
    session = make_lake(request, tmp_path / "feed", recording, MANNERS[manner])
    for ts in recording.moments(Random(manner), 8):
        assert_equal(read_lake(session, ts), read_all(tidb, ts), ts)


@pytest.mark.parametrize("manner", MANNERS)
def test_what_every_protocol_says_of_a_tidb_is_what_it_shows(
    tidb: Tidb, recording: Recording, manner: str, tmp_path: Path
) -> None:
    replay = replay_feed(tmp_path / "feed", recording, MANNERS[manner])
    for ts in recording.moments(Random(manner), 8):
        replay.advance(ts)
        assert_equal(read_model(replay), read_all(tidb, ts), ts)


@pytest.mark.all_cases
@pytest.mark.parametrize("manner", MANNERS)
def test_thousands_of_transactions(
    request: pytest.FixtureRequest, tidb: Tidb, manner: str, tmp_path: Path
) -> None:
    seed = 100 + list(MANNERS).index(manner)
    with recorder_of(tidb) as recorder:
        recording = record(recorder, seed, transactions=2500, steps=7)
    session = make_lake(request, tmp_path / "feed", recording, MANNERS[manner])
    for ts in sorted({*recording.moments(Random(seed), 60), *recording.ddl_moments()}):
        assert_equal(read_lake(session, ts), read_all(tidb, ts), ts)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.all_cases) for seed in range(6)]
    + [pytest.param(seed, marks=pytest.mark.soak) for seed in range(1000, 1100)],
)
def test_random_ddl_on_tables_of_all_kinds(
    request: pytest.FixtureRequest, tidb: Tidb, seed: int, tmp_path: Path
) -> None:
    with recorder_of(tidb) as recorder:
        recording = record_at_random(recorder, seed, transactions=500, steps=5)
    moments = sorted({*recording.moments(Random(seed), 20), *recording.ddl_moments()})
    expected = {ts: read_all(tidb, ts) for ts in moments}
    assert len(moments) > 50
    for manner, options in ONCE.items():
        replay = replay_feed(tmp_path / manner, recording, options)
        for ts in moments:
            replay.advance(ts)
            assert_equal(read_model(replay), expected[ts], ts)
    chosen = list(ONCE.values())[seed % len(ONCE)]
    session = make_lake(request, tmp_path / "feed", recording, chosen)
    for ts in moments:
        assert_equal(read_lake(session, ts), expected[ts], ts)


def make_lake(
    request: pytest.FixtureRequest,
    folder: Path,
    recording: Recording,
    options: SimulationOptions,
) -> LakeSession:
    """Make a lake, and advance it at each checkpoint of its changefeed."""
    (feed,) = load_changefeeds(declare(folder, options)).values()
    # Only some changes of types take it.
    start_spark = partial(request.getfixturevalue, "spark")
    session = LakeSession(start_spark, Lake(str(folder / "lake"), feed.id), feed)
    for checkpoint in write(recording, folder, options):
        applied = advance(session, open_source(feed)).applied
        assert applied.resolved_ts == checkpoint
        assert [problem.describe() for problem in applied.problems] == []
    return session


def read_lake(session: LakeSession, ts: int) -> dict[str, Table]:
    seen = as_of(session, ts)
    found = {}
    for table in seen.tables():
        assert not table.is_stopped, table.reason
        found[table.schema.table] = bring_down(table.schema, seen.lines(table))
    return found


def replay_feed(folder: Path, recording: Recording, options: SimulationOptions) -> ModelReplay:
    (feed,) = load_changefeeds(declare(folder, options)).values()
    assert list(write(recording, folder, options)) == recording.checkpoints
    replay = ModelReplay(feed)
    if feed.transport == "storage":
        sink = open_sink_folder(feed)
        replay.add(read_folder_events(feed, sink.paths(), sink.read))
    else:
        replay.add(read_topic_events(feed, read_dump(Path(feed.location)), None))
    return replay


def read_model(replay: ModelReplay) -> dict[str, Table]:
    assert [problem for problem in replay.model.problems if problem.data_may_differ] == []
    return {
        table.schema.table: bring_down(table.schema, encode_rows(table))
        for table in replay.model.tables
    }


def bring_down(schema: TableSchema, lines: Any) -> Table:
    columns = [(c.name, c.type.name) for c in schema.columns if c.generated != "virtual"]
    return simplify(columns, [json.loads(line) for line in lines])


def assert_equal(found: dict[str, Table], expected: dict[str, Table], ts: int) -> None:
    assert found.keys() == expected.keys(), ts
    for table in found:
        assert found[table] == expected[table], (ts, table)
