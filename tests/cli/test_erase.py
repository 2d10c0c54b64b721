"""`erase`: what it says, what it finds left, and the errors of a key that is none."""

import json
from functools import cache
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.lake.canal import FEED, ddl, placed, row, watermark
from tests.lake.erasing import start_no_spark
from tests.lake.privately import find_in_files
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.erase import erase as erasing
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.resources import reading
from ticdc_assets.store.lake import Lake, LakeSession

STREET = "Lake Street 221, Springfield"
KEY = "ann@example.com"
MESSAGES = [
    ddl("d", "t", 10, "CREATE", "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` VARCHAR(40))"),
    row("d", "t", 11, id="1", v=STREET),
    row("d", "t", 12, id="2", v="somebody else"),
    ddl("d", "u", 13, "CREATE", "CREATE TABLE `u` (`v` VARCHAR(40) PRIMARY KEY)"),
    row("d", "u", 14, v=KEY),
    watermark(20),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The changefeed's folder in a lake that was made without Spark."""
    uri = f"dump://{tmp_path}/t.jsonl?protocol=canal-json&enable-tidb-extension=true"
    Path("changefeeds.toml").write_text(f'[[changefeed]]\nid = "{FEED.id}"\nsink-uri = "{uri}"\n')
    (feed,) = load_changefeeds(Path("changefeeds.toml")).values()
    location = Lake(str(tmp_path / "lake"), FEED.id)
    lake = LakeSession(cache(start_no_spark), location, feed)
    advance(lake, RecordSource(lambda _: placed(MESSAGES)))
    monkeypatch.setenv("TICDC_LAKE", location.root)
    monkeypatch.setattr(reading, "get_session", start_no_spark)
    return Path(location.path(""))


def test_a_row_is_erased_and_named_nowhere(run: Run, folder: Path) -> None:
    code, out, _ = run("erase", "d.t", "1", "--dry-run")
    assert (code, out) == (0, b"d.t: 1 event, 0 rows of 0 loads\nnothing was changed\n")
    assert run("show", "d.t", "--format", "json")[1].count(b"\n") == 2

    code, out, err = run("erase", "d.t", "id=1", "--format", "json")
    assert (code, err) == (0, [])
    done = json.loads(out)
    counted = {name: done[name] for name in ("erasure", "raw", "events", "current", "left")}
    assert counted == {"erasure": 1, "raw": 1, "events": 1, "current": 1, "left": []}
    assert done["texts_searched"] == 1
    assert find_in_files(folder, [STREET]) == {}
    assert run("show", "d.t", "--format", "json")[1] == b'{"id":"2","v":"somebody else"}\n'
    code, out, err = run("ledger")
    assert (code, err) == (0, [])
    code, _, err = run("why", "d.t", "id=1")
    assert (code, len(err)) == (2, 1)


def test_several_rows_are_erased_one_after_the_other(run: Run, folder: Path) -> None:
    code, out, err = run("erase", "d.t", "2", "id=1", "--format", "json")
    assert (code, err) == (0, [])
    assert [json.loads(line)["erasure"] for line in out.splitlines()] == [1, 2]
    assert run("show", "d.t", "--format", "json")[:2] == (0, b"")
    code, _, err = run("erase", "d.t", "id=3")
    said = "nothing of the row was in the lake: is the key right? See ticdc-assets why d.t"
    assert (code, err) == (0, [said])
    assert find_in_files(folder, [STREET, "somebody else"]) == {}


def test_an_erasure_that_was_begun_says_so_and_searches_the_key(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(erasing, "publish_iceberg", kill)
        with pytest.raises(Killed):
            run("erase", "d.u", KEY)
    (folder / "notes.txt").write_text(f"call {KEY}")
    code, _, err = run("erase", "d.u", KEY)
    begun = "erasure 1 had been begun: texts that are gone since are not searched"
    assert (code, err) == (1, [begun, "left: 1 text in notes.txt"])


def test_what_is_left_in_any_file_is_named(run: Run, folder: Path) -> None:
    (folder / "notes.txt").write_text(f"call {STREET} back")
    (folder / "current" / "torn.parquet").write_bytes(b"PAR1")
    code, out, err = run("erase", "d.t", "id=1")
    assert code == 1
    torn, notes = err
    assert torn.startswith("left: what could not be searched (")
    assert torn.endswith("in current/torn.parquet")
    assert notes == "left: 1 text in notes.txt"
    assert out.splitlines()[-1] == b"  left     2"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("v=x", "KEY: the handle key of d.t is id=VALUE"),
        ("w=x", "KEY: d.t has no column 'w'; it has id, v"),
    ],
)
def test_a_row_needs_its_whole_key(run: Run, folder: Path, key: str, said: str) -> None:
    code, out, err = run("erase", "d.t", key)
    assert (code, out) == (2, b"")
    assert said in err[0]
    assert not (folder / "erasures").exists()
