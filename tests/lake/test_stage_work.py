"""What stages did is in the record of the run that they belong to, and is the same as they say."""

import json
from pathlib import Path

import pytest

from tests.lake.addresses import open_lake, send
from ticdc_assets.lake.advance import advance, replay_tables
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.store.last_run import read_last_run
from ticdc_assets.store.lock import locked
from ticdc_assets.store.reader import LakeReader


def test_a_run_records_what_its_stages_did(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    # Nobody records this one.
    advance(lake, send(1))
    with locked(lake.location, "advance"):
        done = [advance(lake, send(windows)) for windows in (3, 5)]
    run = read_last_run(lake.location)
    assert run is not None
    assert run.started_at is not None
    assert run.ended_at is not None
    assert list(run.work) == ["ingest", "decode", "apply", "history", "publish"]
    for stage, work in run.work.items():
        assert work.times == 2, stage
    assert run.work["ingest"].rows == sum(each.ingested.items for each in done) > 0
    assert run.work["ingest"].bytes == sum(each.ingested.bytes for each in done) > 0
    assert run.work["ingest"].listed == sum(each.ingested.listed for each in done)
    assert run.work["decode"].rows == sum(each.decoded.rows for each in done) > 0
    assert run.work["apply"].rows == sum(each.applied.rows for each in done) > 0
    took = (run.ended_at - run.started_at).total_seconds()
    stages = sum(work.seconds for work in run.work.values())
    # They are nearly all of it, and do not overlap.
    assert took / 2 < stages < took + 0.1
    assert run.total_work == run.work

    with locked(lake.location, "rebuild"):
        snapshot = read_existing_snapshot(LakeReader(lake.location))
        ids = frozenset(id for _, id in snapshot.state.names)
        replayed = replay_tables(lake, snapshot, ReplayRequest(ids, 0), lambda *_: None)
    last = read_last_run(lake.location)
    assert last is not None
    assert last.work["replay"].rows == replayed.rows > 0
    assert last.total_work["apply"] == run.work["apply"]
    assert last.total_work["publish"].times == 3
    assert last.runs == {"advance ok": 1, "rebuild ok": 1}


def test_a_record_of_an_older_program_is_read(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    with locked(lake.location, "advance"):
        pass
    file = Path(lake.path("last_run.json"))
    record = json.loads(file.read_text())
    for name in ("work", "total_work", "runs"):
        del record[name]
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="no"), locked(lake.location, "maintain"):
        raise ValueError("no")
    run = read_last_run(lake.location)
    assert run is not None
    assert (run.total_work, run.runs) == ({}, {"maintain failed": 1})
