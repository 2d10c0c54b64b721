"""A lake of a later format is left alone by all commands, which say what to install."""

import logging
import shutil
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

import ticdc_assets
from tests.cli.conftest import Run
from tests.cli.test_load import SCHEMA
from tests.cli.test_mending import dump
from tests.dumpling.exporter import Exporter
from tests.lake.canal import row, watermark
from tests.lake.older_lakes import FEED, unpack
from ticdc_assets import definitions
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources import reading
from ticdc_assets.resources.lake import LAKE
from ticdc_assets.store.format import FORMAT
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.lock import locked
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.version import VERSION

LATER = FORMAT + 3
SAID = (
    f"has format {LATER} in this lake, and this is ticdc-assets {VERSION}, which knows formats up"
    f" to {FORMAT}: install version 9.8.7 or newer of ticdc-assets; nothing was changed"
)
TABLE = "d.t"
COMMANDS = [
    *(["advance"], ["resume", TABLE], ["rebuild", TABLE], ["rebuild", "--all"]),
    *(
        ["rebuild", TABLE, "--from-raw"],
        ["maintain"],
        ["erase", TABLE, "id=1"],
        ["load", "export"],
        ["verify"],
    ),
    *(["show", TABLE], ["show", TABLE, "--at", "15"], ["show", "--out", "shown"], ["tables"]),
    *(["tables", "--paths"], ["snapshot", "--into", "copy"], ["sql", "--for", "duckdb"]),
    *(["dbt-sources"], ["events", TABLE], ["why", TABLE, "id=1"], ["schema", TABLE]),
    *(["quarantine"], ["quarantine", TABLE], ["ledger"], ["backup", "--into", "copy"]),
]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake of a later format, whose changefeed has more to come."""
    records = dump(tmp_path / "t.jsonl", [row("d", "t", 90, id="9"), watermark(99)])
    uri = f"dump://{records}?protocol=canal-json&enable-tidb-extension=true"
    upstream = '[changefeed.upstream]\nhost = "127.0.0.1"\nport = 1\nuser = "u"\n'
    Path("changefeeds.toml").write_text(
        f'[[changefeed]]\nid = "{FEED.id}"\nsink-uri = "{uri}"\n{upstream}'
    )
    Exporter(Path("export")).write({SCHEMA: [("1", "a")]})
    root = unpack(tmp_path, FORMAT)
    stated = {"ticdc.format": str(LATER), "ticdc.format_since": "9.8.7"}
    applied = DeltaTable(Lake(root, FEED.id).path("applied"))
    applied.alter.set_table_properties(stated, raise_if_not_exists=False)
    monkeypatch.setenv(LAKE, root)
    monkeypatch.setattr(reading, "get_session", lambda *_: pytest.fail("Spark was started"))
    return Path(root)


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_does_nothing_with_a_lake_of_a_later_format(
    lake: Path, run: Run, command: list[str]
) -> None:
    before = read_files(lake)
    code, out, err = run(*command)
    # `load` names its source first.
    assert (code, out if command[0] != "load" else b"", len(err)) == (2, b"", 1), err
    assert SAID in err[0]
    assert str(lake) in err[0]
    assert read_files(lake) == before


def test_status_and_check_show_a_lake_of_a_later_format(lake: Path, run: Run) -> None:
    before = read_files(lake)
    code, out, err = run("status", "--max-lag", "10m")
    assert (code, "unreadable" in out.decode(), len(err)) == (1, True, 1)
    assert SAID in err[0]
    code, out, _ = run("check")
    assert (code, SAID in " ".join(out.decode().split())) == (1, True), out.decode()
    assert read_files(lake) == before


def test_python_and_dagster_do_nothing_with_a_lake_of_a_later_format(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (feed,) = load_changefeeds(Path("changefeeds.toml")).values()
    before = read_files(lake)
    for changefeed in (None, feed.id, feed):
        with pytest.raises(ConfigError, match=r"install version 9\.8\.7"):
            ticdc_assets.open_lake(lake, changefeed)
    with caplog.at_level(logging.ERROR, "dagster.ticdc"):
        graph = definitions.graph([feed], str(lake))
    assert SAID in caplog.text
    repository = graph.get_repository_def()
    asset = repository.asset_graph.get(dg.AssetKey([feed.id, "unreadable_lake"]))
    assert "9.8.7" in (asset.description or "").replace("\\", "")
    for name in (f"maintain_{feed.id}", f"rebuild_{feed.id}"):
        config = {"ops": {"replay_f_tables": {"config": {"tables": [TABLE]}}}}
        job = repository.get_job(name)
        done = job.execute_in_process(
            run_config=config if name.startswith("rebuild") else None, raise_on_error=False
        )
        assert not done.success
    assert read_files(lake) == before


def test_another_changefeed_of_the_lake_is_not_affected(lake: Path) -> None:
    other = lake / "other"
    shutil.copytree(lake / FEED.id, other)
    stated = {"ticdc.format": str(FORMAT)}
    DeltaTable(str(other / "applied")).alter.set_table_properties(stated, raise_if_not_exists=False)
    found = {table.name for table in ticdc_assets.open_lake(lake, "other").tables()}
    assert found == {"d.k", "d.s", "d.t"}


def test_a_format_that_is_no_number_is_an_error(lake: Path) -> None:
    applied = DeltaTable(str(lake / FEED.id / "applied"))
    applied.alter.set_table_properties({"ticdc.format": "two"}, raise_if_not_exists=False)
    with pytest.raises(ConfigError, match="'two'"):
        LakeReader(Lake(str(lake), FEED.id)).open("applied")


def test_who_waits_for_the_lock_changes_nothing_before_it_knows_the_format(lake: Path) -> None:
    before = read_files(lake)
    location = Lake(str(lake), FEED.id)
    with pytest.raises(ConfigError, match=r"install version 9\.8\.7"), locked(location, "advance"):
        pytest.fail("the lock was taken")
    assert read_files(lake) == before
