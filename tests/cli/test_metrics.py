"""`metrics` over small lakes that were made without Spark."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.cli.conftest import Run
from tests.cli.made_metrics import (
    STATUSES,
    by,
    collect,
    make_collector,
    make_lake,
)
from tests.cli.test_status import HOUR, declare, ts
from tests.made_lake import write_snapshot
from tests.resources.s3_account import open_client, s3_account
from ticdc_assets.cli import metrics as command
from ticdc_assets.cli.metric_families import METRICS
from ticdc_assets.cli.status import ReadStatus
from ticdc_assets.log.verifications import Results, TableVerification
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.last_run import StageClock
from ticdc_assets.store.lock import locked


def test_values_are_those_of_status(run: Run) -> None:
    declare("well", "behind", "new")
    make_lake("well", [f"t{n}" for n in range(12)])
    make_lake("behind", ["a"], applied=HOUR)
    lake = Lake(str(Path("lake").absolute()), "behind")
    with pytest.raises(ValueError, match="no"), locked(lake, "advance"):
        raise ValueError("no")
    found = collect()
    code, out, _ = run("status", "--format", "json")
    assert code == 0
    records = [json.loads(line) for line in out.splitlines()]
    assert len(records) == 3
    for record in records:
        id = record["changefeed"]

        def value(name: str, id: str = id) -> float | None:
            return found.get((name, (("changefeed", id),)))

        states = by(found, "ticdc_changefeed_state", "state", id)
        assert [state for state, is_in in states.items() if is_in] == [record["state"]]
        assert value("ticdc_late") == record["is_late"]
        for name in ("lag", "checkpoint_lag", "lake_lag", "max_lag"):
            assert value(f"ticdc_{name}_seconds") == pytest.approx(
                record[f"{name}_seconds"], abs=20
            )
        for name, field in (("resolved", "resolved_at"), ("checkpoint", "checkpoint_at")):
            assert value(f"ticdc_{name}_timestamp_seconds") == seconds(record[field])
        for name in ("newest_input", "applied"):
            assert value(f"ticdc_{name}_timestamp_seconds") == seconds(record[f"{name}_at"])
        tables = by(found, "ticdc_tables", "status", id)
        stopped = {name: record[name] for name in ("paused", "waiting", "partial")}
        assert tables == {"live": record["tables"] - sum(stopped.values()), **stopped}
        assert sum(by(found, "ticdc_quarantined", "stage", id).values()) == record["quarantined"]
        run_record = record["last_run"] or {"started_at": None, "ended_at": None}
        for name in ("start", "end"):
            moment = value(f"ticdc_last_run_{name}_timestamp_seconds")
            assert moment == seconds(run_record[f"{name}ed_at"])
    # As they were made.
    assert by(found, "ticdc_tables", "status", "well") == {
        # One of which no table is known.
        "live": 3,
        "paused": 3,
        "waiting": 3,
        "partial": 2,
    }
    assert by(found, "ticdc_quarantined", "stage", "well") == {"decode": 2, "apply": 0, "load": 1}
    results = by(found, "ticdc_last_run_result", "result", "behind")
    assert [name for name, is_so in results.items() if is_so] == ["failed"]
    assert by(found, "ticdc_last_run_result", "result", "well") == {}


def seconds(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


def test_sizes_are_those_of_the_files() -> None:
    declare("a")
    lake = make_lake("a", [f"t{n}" for n in range(24)])
    write_deltalake(lake.path("history/t3"), pa.table({"n": [1]}))
    # Files that no version has any more do not count.
    write_deltalake(lake.path("history/t3"), pa.table({"n": [1, 2]}), mode="overwrite")
    found = collect()
    layers: Counter[tuple[str, str]] = Counter()
    files: dict[str, int] = {}
    for log in Path("lake").rglob("_delta_log"):
        table = DeltaTable(log.parent)
        layer = log.relative_to("lake/a").parts[0]
        layer = layer if layer in ("current", "history", "quarantine") else "log"
        paths = [Path(uri.removeprefix("file://")) for uri in table.file_uris()]
        layers[layer, "files"] += len(paths)
        layers[layer, "bytes"] += sum(path.stat().st_size for path in paths)
        layers[layer, "rows"] += table.to_pyarrow_dataset().count_rows()
        files[log.parent.name] = len(paths)
    for unit in ("files", "bytes", "rows"):
        expected = {layer: number for (layer, of), number in layers.items() if of == unit}
        assert by(found, f"ticdc_lake_{unit}", "layer", "a") == expected
    assert set(layers) >= {("history", "files"), ("current", "files"), ("quarantine", "files")}
    names = [f"t{n}" for n in range(24) if STATUSES[n % len(STATUSES)] != "dropped"]
    largest = sorted(names, key=lambda name: -files[name])[:20]
    assert by(found, "ticdc_table_files", "table", "a") == {name: files[name] for name in largest}
    assert set(by(found, "ticdc_table_bytes", "table", "a")) == set(largest)


def test_sizes_in_an_object_store_are_those_on_a_disk(moto: str) -> None:
    declare("a")
    lake = make_lake("a", ["t0", "t1", "t2"])
    write_deltalake(lake.path("history/t1"), pa.table({"n": [1]}))
    on_disk = collect()
    with s3_account(moto) as url:
        for path in filter(Path.is_file, Path("lake").rglob("*")):
            open_client(url).put_object(Bucket="lakes", Key=str(path), Body=path.read_bytes())
        in_store = collect(make_collector(lake="s3://lakes/lake"))
    sizes = [key for key in on_disk if key[0].startswith(("ticdc_table", "ticdc_lake_delta"))]
    sizes += [key for key in on_disk if key[0] in ("ticdc_lake_files", "ticdc_lake_bytes")]
    assert len(sizes) > 12
    assert {key: in_store.get(key) for key in sizes} == {key: on_disk[key] for key in sizes}


def test_only_tables_that_changed_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from ticdc_assets.views import lake_sizes

    declare("a")
    lake = make_lake("a", [f"t{n}" for n in range(8)])
    read: list[str] = []
    real = lake_sizes.read_state

    def counted(reader: Any, table: str, version: int) -> Any:
        read.append(table)
        return real(reader, table, version)

    monkeypatch.setattr(lake_sizes, "read_state", counted)
    monkeypatch.setattr(command, "_CACHE_SECONDS", 0.0)
    collector = make_collector()
    # There is no time for any table; the rest is there all the same.
    monkeypatch.setattr(command, "_MEASURING", 0.0)
    none = collect(collector)
    of_feed = (("changefeed", "a"),)
    assert none["ticdc_lake_delta_tables_measured", of_feed] == 0
    assert none["ticdc_lake_delta_tables", of_feed] == 8
    assert none["ticdc_up", (("changefeed", "a"), ("part", "lake"))] == 1
    monkeypatch.setattr(command, "_MEASURING", 1.0)
    assert collect(collector)["ticdc_lake_delta_tables_measured", of_feed] == 8
    assert sorted(read) == [f"current/t{n}" for n in range(8)]
    read.clear()
    write_deltalake(lake.current_path("t5"), pa.table({"n": [1]}), mode="append")
    write_snapshot(lake, 2, ts(1), {"t5": 6})
    assert by(collect(collector), "ticdc_table_files", "table", "a")["t5"] == 7
    assert read == ["current/t5"]


def test_what_stages_did_adds_up_over_runs() -> None:
    declare("a")
    lake = make_lake("a", ["t"])
    done = [("advance", 10, None), ("advance", 5, ValueError("no")), ("maintain", 0, None)]
    for name, rows, error in done:
        try:
            with locked(lake, name):
                clock = StageClock(lake)
                if rows:
                    clock.end("ingest", rows, 100 * rows, listed=7)
                    clock.end("apply", rows)
                    clock.end("apply", rows)
                if error is not None:
                    raise error
        except ValueError:
            pass
        if name == "advance" and error is None:
            first = json.loads(Path(lake.path("last_run.json")).read_text())["work"]
    found = collect()
    assert by(found, "ticdc_stage_rows_total", "stage", "a") == {"ingest": 15, "apply": 30}
    assert by(found, "ticdc_stage_bytes_total", "stage", "a") == {"ingest": 1500, "apply": 0}
    assert found["ticdc_source_files_listed_total", (("changefeed", "a"),)] == 14
    assert found["ticdc_windows_total", (("changefeed", "a"),)] == 4
    times = by(found, "ticdc_stage_seconds_total", "stage", "a")
    assert times["apply"] > first["apply"]["seconds"] > 0
    # The last run had no stages.
    assert by(found, "ticdc_last_run_stage_seconds", "stage", "a") == {}
    ended = {
        (dict(labels)["command"], dict(labels)["result"]): number
        for (name, labels), number in found.items()
        if name == "ticdc_runs_total"
    }
    assert ended == {("advance", "ok"): 1, ("advance", "failed"): 1, ("maintain", "ok"): 1}
    # While a run goes on, counters stay.
    with locked(lake, "advance"):
        during = collect()
    assert by(during, "ticdc_stage_rows_total", "stage", "a") == {"ingest": 15, "apply": 30}
    results = by(during, "ticdc_last_run_result", "result", "a")
    assert [result for result, is_so in results.items() if is_so] == ["running"]
    assert ("ticdc_last_run_end_timestamp_seconds", (("changefeed", "a"),)) not in during


def test_what_cannot_be_read_is_a_metric(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    declare("damaged", "gone", "well")
    lakes = {id: make_lake(id, ["t"]) for id in ("damaged", "gone", "well")}
    Path(lakes["damaged"].path("applied"), "_delta_log", f"{0:020}.json").write_text("{broken")
    shutil.rmtree("gone")
    monkeypatch.setattr(command, "_CACHE_SECONDS", 0.0)
    collector = make_collector()
    found = collect(collector)
    up = {
        (dict(labels)["changefeed"], dict(labels)["part"]): value
        for (name, labels), value in found.items()
        if name == "ticdc_up"
    }
    assert [part for part, is_up in up.items() if not is_up] == [
        ("damaged", "lake"),
        ("gone", "source"),
    ]
    assert {id for id, part in up if part == "lake"} == set(lakes)
    # Not 0: that is not known.
    assert by(found, "ticdc_tables", "status", "damaged") == {}
    assert by(found, "ticdc_lake_files", "layer", "damaged") == {}
    assert by(found, "ticdc_tables", "status", "gone")["live"] == 1
    Path("changefeeds.toml").write_text("[[changefeed]")
    later = collect(collector)
    assert later["ticdc_up", (("changefeed", ""), ("part", "declarations"))] == 0
    assert later["ticdc_up", (("changefeed", "well"), ("part", "lake"))] == 1

    def fail(*_: object) -> None:
        raise RuntimeError("password=S3CRET")

    monkeypatch.setattr(command, "read_status", fail)
    assert collect(collector)["ticdc_up", (("changefeed", ""), ("part", "metrics"))] == 0
    said = capsys.readouterr().err
    assert "RuntimeError" in said
    assert "S3CRET" not in said


def test_every_metric_has_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    declare("a")
    with Path("changefeeds.toml").open("a") as file:
        file.write('[changefeed.upstream]\nhost = "h"\nuser = "u"\nprove-every-days = 2\n')
    lake = make_lake("a", ["t", "u", "v"])
    results = Results(lake)
    results.prepare()
    for incarnation, days in (("t0", 1), ("t1", 9)):
        at = datetime.now(UTC) - timedelta(days=days)
        names = {"incarnation": incarnation, "database": "d", "table": "of then"}
        cost = {"rows_summed": 100 * days, "rows_sent": days}
        results.add(
            TableVerification(
                run="r", resolved_ts=1, verdict="equal", verified_at=at, **names, **cost
            )
        )
    with locked(lake, "advance"):
        StageClock(lake).end("apply", 1, listed=1)
    real = command.read_status

    def of_topics(*arguments: Any) -> list[ReadStatus]:
        # A folder has no records.
        [found] = real(*arguments)
        return [replace(found, record=msgspec.structs.replace(found.record, records_behind=7))]

    monkeypatch.setattr(command, "read_status", of_topics)
    found = collect()
    assert {name for name, _ in found} == set(METRICS)
    assert found["ticdc_records_behind", (("changefeed", "a"),)] == 7
    states = {"proven": 1, "old": 1, "never": 1, "differs": 0, "skipped": 0}
    assert by(found, "ticdc_proof_tables", "proof", "a") == states
    ages = by(found, "ticdc_table_proof_age_seconds", "table", "a")
    assert ages == pytest.approx({"t": 86_400, "u": 9 * 86_400}, abs=60)
    assert found["ticdc_proof_interval_seconds", (("changefeed", "a"),)] == 2 * 86_400
    # The table that was never proven is as old as TiDB.
    assert found["ticdc_proof_late", (("changefeed", "a"),)] == 2
    assert found["ticdc_proof_rows_read", (("changefeed", "a"),)] == 100
