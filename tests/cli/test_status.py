"""`status` over changefeeds with small lakes that were made without Spark."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets.cli import patience, records
from ticdc_assets.cli import status as command
from ticdc_assets.events.tso import compose
from ticdc_assets.resources.max_lag import MAX_LAG
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import QUARANTINE
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import locked
from ticdc_assets.store.writer import LakeWriter

HOUR = 3600
PROJECT = Path(__file__).resolve().parents[2]


def ts(seconds_ago: float) -> int:
    return compose(round((time.time() - seconds_ago) * 1000))


def declare(*ids: str) -> None:
    """Declare changefeeds on folders beside the declaration."""
    Path("changefeeds.toml").write_text(
        "".join(
            f'[[changefeed]]\nid = "{id}"\nsink-uri = "file://{Path.cwd()}/{id}?protocol=csv"\n'
            for id in ids
        )
    )


def write(id: str, checkpoint: float, applied: float, **statuses: str) -> None:
    """Write a source and a lake whose ts are that many seconds ago."""
    Path(id).mkdir()
    Path(id, "metadata").write_text(json.dumps({"checkpoint-ts": ts(checkpoint)}))
    lake = Lake(str(Path("lake").absolute()), id)
    with locked(lake, "advance"):
        write_snapshot(lake, 1, ts(applied))
        write_tables(lake, [schema("shop", name) for name in ("a", "b")], **statuses)
        LakeWriter(lake).create("quarantine", arrow_schema(QUARANTINE), {})


def test_sizes_add_up_to_what_is_stored(run: Run) -> None:
    declare("shop", "new")
    write("shop", 1, 2)
    code, out, err = run("status", "--sizes", "--format", "json", "--changefeed", "shop")
    assert (code, err) == (0, [])
    sizes = {each["layer"]: each for each in json.loads(out)["sizes"]}
    assert set(sizes) == {"quarantine", "log", "other"}
    files = [path for path in Path("lake/shop").rglob("*") if path.is_file()]
    assert sum(each["stored_bytes"] for each in sizes.values()) == sum(
        path.stat().st_size for path in files
    )
    data = [path for path in files if path.suffix == ".parquet"]
    assert sizes["log"]["bytes"] == sum(path.stat().st_size for path in data)
    assert {each["removable_bytes"] for each in sizes.values()} == {0}
    # A killed run left this one.
    left = Path("lake/shop/applied/left.parquet")
    left.write_bytes(b"x" * 5000)
    os.utime(left, (0, 0))
    code, out, err = run("status", "--sizes")
    lines = [line.split() for line in out.decode().splitlines()]
    assert lines[-4] == [
        "changefeed",
        "layer",
        "files",
        "newest",
        "versions",
        "stored",
        *lines[-4][6:],
    ]
    (log,) = (line for line in lines if line[:2] == ["shop", "log"])
    assert log[-2:] == ["4.9", "kB"]
    assert [line for line in err if line.startswith("sizes: new: ")]


def test_what_needs_a_person_comes_first(run: Run) -> None:
    declare("well", "stopped", "paused", "behind", "new")
    write("well", 1, 2)
    write("stopped", HOUR, HOUR)
    write("paused", 1, 2, b="paused")
    write("behind", 1, HOUR)
    code, out, err = run("status")
    assert code == 0
    rows = [line.split("  ") for line in out.decode().splitlines()]
    table = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert table[0][:5] == ["changefeed", "state", "lag", "checkpoint lag", "lake lag"]
    assert [row[:2] for row in table[1:]] == [
        ["behind", "behind"],
        ["new", "empty"],
        ["stopped", "stopped"],
        ["paused", "up to date"],
        ["well", "up to date"],
    ]
    # A second and more go by meanwhile.
    assert table[1][2:5:2] == ["60 min", "60 min"]
    assert re.fullmatch(r"\d s", table[1][3])
    assert table[3][2:5] == ["60 min", "60 min", "0 s"]
    assert [line.partition(": ")[0] for line in err] == ["behind", "empty", "stopped", "paused"]
    assert "see ticdc-assets tables --changefeed paused" in err[-1]


def test_the_exit_code_is_for_those_who_ask_for_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare("well", "behind")
    write("well", 1, 300)
    write("behind", 1, HOUR)
    for words, expected in (
        ((), 0),
        (("--max-lag", "10m"), 1),
        (("--max-lag", "2h"), 0),
        (("--max-lag", "10m", "--changefeed", "well"), 0),
        (("--max-lag", "4m59s", "--changefeed", "well"), 1),
    ):
        assert run("status", *words)[0] == expected, words
    monkeypatch.setenv(MAX_LAG, "2h")
    # The limit decides what is late, and the option what is an error.
    code, out, _ = run("status", "--format", "json")
    assert (code, [json.loads(line)["is_late"] for line in out.splitlines()]) == (0, [False, False])
    monkeypatch.setenv(MAX_LAG, "never")
    code, out, err = run("status")
    assert (code, out) == (2, b"")
    assert err == ["ticdc-assets: TICDC_MAX_LAG: 'never' must be a duration such as 30s or 1m"]
    code, _, err = run("status", "--max-lag", "10")
    assert code == 2
    assert "--max-lag: '10' must be a duration such as 30s or 1m" in err[0]


def test_json_has_an_object_per_changefeed(run: Run) -> None:
    declare("a", "b")
    write("a", 5, HOUR)
    lake = Lake(str(Path("lake").absolute()), "a")
    with pytest.raises(ValueError, match="no"), locked(lake, "advance"):
        raise ValueError("no password=S3CRET")
    code, out, err = run("status", "--format", "json")
    assert code == 0
    found = {record["changefeed"]: record for record in map(json.loads, out.splitlines())}
    assert set(found) == {"a", "b"}
    a, b = found["a"], found["b"]
    assert {name for name in a if a[name] is None} == {"records_behind", "proofs"}
    assert (a["state"], a["is_late"], a["max_lag_seconds"]) == ("behind", True, 600)
    assert a["lag_seconds"] == pytest.approx(HOUR, abs=60)
    both = a["checkpoint_lag_seconds"] + a["lake_lag_seconds"]
    assert a["lag_seconds"] == pytest.approx(both, abs=0.2)
    assert a["resolved_ts"] >> 18 == pytest.approx((time.time() - HOUR) * 1000, abs=60_000)
    assert a["resolved_at"].endswith("Z")
    assert (a["tables"], a["paused"], a["quarantined"]) == (2, 0, 0)
    assert (a["last_run"]["result"], a["last_run"]["reason"]) == ("failed", "no password=…")
    assert "last run: a: advance failed: no password=…" in err
    assert (b["state"], b["resolved_ts"], b["last_run"]) == ("empty", None, None)
    # Every object has the same fields, in the same order.
    assert list(a) == list(b) == list(records.Status.__struct_fields__)


def test_a_lake_that_cannot_be_read_is_a_state_and_stops_no_other(run: Run) -> None:
    declare("well", "damaged")
    write("well", 1, 1)
    write("damaged", 1, 1)
    for file in Path("lake/damaged/applied").glob("*.parquet"):
        file.write_bytes(b"damaged")
    code, out, err = run("status", "--max-lag", "10m")
    assert code == 1
    assert [line.split()[1] for line in out.decode().splitlines()[1:]] == ["unreadable", "up"]
    assert err[0].startswith("unreadable: damaged: ")


def test_a_source_without_an_answer_does_not_keep_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare("well")
    write("well", 1, 1)
    monkeypatch.setattr(command, "PATIENCE", 0.3)
    monkeypatch.setattr(patience.os, "_exit", lambda code: (_ for _ in ()).throw(SystemExit(code)))
    monkeypatch.setattr(
        "ticdc_assets.resources.source_state.read_checkpoint", lambda _: time.sleep(3)
    )
    code, out, err = run("status", "--max-lag", "10m")
    # The lake alone shows that nothing is late yet.
    assert code == 0
    assert out.decode().splitlines()[1].split()[:2] == ["well", "unreachable"]
    assert err == ["unreachable: well: gives no answer within 0 s"]


WITHOUT_SPARK = """
import sys
for name in ("pyspark", "py4j", "dagster"):
    sys.modules[name] = None
from ticdc_assets import cli
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("words", [("status", "--max-lag", "10m"), ("check",)])
def test_monitoring_takes_neither_spark_nor_dagster(words: tuple[str, ...]) -> None:
    declare("well")
    write("well", 1, 1)
    command = [sys.executable, "-c", WITHOUT_SPARK, *words]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    process = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (process.returncode, process.stderr) == (0, b"")
    assert process.stdout
