"""`snapshot` against the shop's own truth: what is in the folder, and what is left alone."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.cli.conftest import Run, Shop
from tests.lake.canal import FEED, change, placed, row, watermark
from tests.lake.readers import READERS
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import encode_truth
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.resources import reading
from ticdc_assets.rows.lines import format_blocks
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.views import export
from ticdc_assets.views.asof import AsOfView, as_of
from ticdc_assets.views.export import Exporter
from ticdc_assets.views.large_tables import format_lines


def read_exported(
    folder: Path, format: export.Format, view: AsOfView, spark: SparkSession | None = None
) -> dict[tuple[str, str], list[bytes]]:
    """Return the rows of every table in a folder, as lines; with Spark if it is given."""
    listed: list[dict[str, Any]] = json.loads((folder / "tables.json").read_text())
    schemas = {(t.schema.database, t.schema.table): t.schema for t in view.tables()}
    found = {}
    for table in listed:
        name, place = (table["database"], table["table"]), folder / table["path"]
        if spark is not None:
            rows = spark.read.format("delta").load(str(place))
            lines = list(format_lines(rows, schemas[name], by_key=False))
        else:
            stored = pq.read_table(place) if format == "parquet" else _read_delta(place)
            block = dict(zip(stored.column_names, stored.columns, strict=True))
            (found_lines,) = format_blocks([block], schemas[name])
            lines = sorted(found_lines)
        assert table["rows"] == len(lines)
        found[name] = lines
    return found


def _read_delta(folder: Path) -> pa.Table:
    return READERS["DuckDB 1.5"](str(folder), DeltaTable(folder).version())


@pytest.mark.parametrize(("format", "between"), [("delta", False), ("parquet", True)])
def test_a_folder_has_every_table_as_it_was_and_spark_is_not_needed(
    shop: Shop,
    run: Run,
    here: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: export.Format,
    between: bool,
) -> None:
    monkeypatch.setattr(reading, "get_session", lambda *_: pytest.fail("Spark starts"))
    first, second = shop.simulation.checkpoints[1:3]
    ts = (first + second) // 2 if between else second
    folder = tmp_path / "of it"
    words = ("snapshot", "--at", ts, "--into", folder, "--format", format, *shop.options)
    code, out, err = run(*words)
    # A slow machine shows progress.
    assert (code, [line for line in err if not line.startswith("snapshot: ")]) == (0, [])
    assert str(folder) in out.decode()
    (feed,) = load_changefeeds(shop.simulation.changefeeds).values()
    view = as_of(LakeSession(here, Lake(str(shop.root), feed.id), feed), ts)
    assert read_exported(folder, format, view) == encode_truth(shop.simulation.truth(ts))
    # What is there is not written again, and nothing else is overwritten.
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run(*words)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    code, _, err = run(*words[:1], "--at", first, *words[3:])
    assert (code, len(err)) == (2, 1)
    assert f"--into: holds shop at {ts} as {format}" in err[0]
    others = tmp_path / "others"
    others.mkdir()
    (others / "letter.txt").write_text("mine")
    code, _, err = run("snapshot", "--into", others, *shop.options)
    assert (code, len(err)) == (2, 1)
    assert "is not empty, and holds no snapshot" in err[0]
    assert [path.name for path in others.iterdir()] == ["letter.txt"]
    for inside in (shop.root, shop.root / "new", shop.root / "shop" / "current" / "new"):
        code, _, err = run("snapshot", "--into", inside, *shop.options)
        assert (code, err) == (
            2,
            [f"ticdc-assets: {inside}: --into: is inside the lake: choose another folder"],
        )


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LakeSession:
    """Make a lake of tables with hostile names, which no test changes."""
    root = tmp_path_factory.mktemp("hostile")
    lake = LakeSession(spark, Lake(str(root / "lake"), FEED.id), FEED)
    wide = {"id": "1", "c,d": "[]", "a b": "x", "_inexact": "y", "at": "2024-01-01 10:00:00"}
    messages = [
        row("d/.", "t`é", 11, id="1"),
        change("INSERT", "..", "t", 12, wide, at="datetime"),
        change("INSERT", "d", "%41", 13, {"id": "5", "day": "0000-00-00"}, day="date"),
        watermark(20),
    ]
    advance(lake, RecordSource(lambda _: placed(messages)))
    return lake


@pytest.mark.parametrize("format", ["delta", "parquet", "shallow"])
def test_an_interrupted_snapshot_of_hostile_names_is_repeated(
    lake: LakeSession, spark: SparkSession, tmp_path: Path, format: export.Format
) -> None:
    view = as_of(lake)
    assert len(view.tables()) == 3
    folder = tmp_path / "out"
    exporter = Exporter(lake.location, str(folder), format)
    # Spark writes each table of a shallow one: killing between two of them is enough there.
    for number in (0,) if format == "shallow" else range(3):

        def stop(done: int, of: int, number: int = number) -> None:
            if done > number:
                raise Killed

        with pytest.raises(Killed):
            exporter.export(view, stop)
    # Files whose writing was interrupted.
    (folder / "snapshot.json").write_text('{"changefeed": "f", "ts"')
    with pytest.raises(ConfigError, match="is not empty"):
        exporter.export(view, lambda *_: None)
    what = {"changefeed": "f", "ts": 20, "format": format, "snapshot": view.snapshots[0]}
    (folder / "snapshot.json").write_text(json.dumps(what))
    (folder / "tables.json").write_text('[{"database"')
    exporter.export(view, lambda *_: None)
    # What a current table has at the ts of a snapshot need not be copied.
    assert bool(list(folder.glob("*/*.parquet"))) is (format != "shallow")
    expected = {(t.schema.database, t.schema.table): list(view.lines(t)) for t in view.tables()}
    assert len(expected) == 3
    # What refers to the files of the lake is for Spark.
    reader = spark if format == "shallow" else None
    assert read_exported(folder, format, view, reader) == expected


def test_every_table_of_hostile_names_has_a_frame(lake: LakeSession) -> None:
    view = as_of(lake)
    assert {name: frame.count() for name, frame in view.frames().items()} == {
        f"{t.schema.database}.{t.schema.table}": len(list(view.lines(t))) for t in view.tables()
    }
