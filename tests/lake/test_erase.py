"""Rows that are erased for good: no byte of them is left, and nothing brings them back.

Without Spark: the lakes are small, and erasing takes none.
"""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from pyiceberg.table import StaticTable

from tests.dumpling.exporter import TSO, Exporter, format_metadata
from tests.lake.canal import row, watermark
from tests.lake.erasing import LEFT, PERSON_FEED, ErasingLake, Person, PersonLake, list_images
from tests.lake.golden_runs import cuts
from tests.lake.privately import KEY as KEY_OF_RULES
from tests.lake.privately import find_in_files
from tests.truth import Name, Row
from tests.usual import usual
from ticdc_assets.changefeed.privacy import read_privacy
from ticdc_assets.dumpling.dialect import Dialect
from ticdc_assets.erase import erase as erasing
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.lake.advance import replay_tables
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.load import load_table
from ticdc_assets.load.load import load_tables
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.erasures import read_erasures
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.resources.load_source import open_export
from ticdc_assets.store import file_rewrites, old_files, purge
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger

CUSTOMERS: Name = ("shop", "customers")
LEAST = 8


def list_telling(dataset: str, name: Name, key: Row) -> set[str]:
    """List the texts of a row in all its events that no other row has."""
    own: set[str] = set()
    others: set[str] = set()
    for table, image in list_images(dataset):
        is_own = table == name and all(image.get(column) == key[column] for column in key)
        (own if is_own else others).update(text for text in image.values() if text)
    together = "\n".join(others)
    return {text for text in own if len(text) >= LEAST and text not in together}


def leave_out(rows: list[Row], key: Row) -> list[Row]:
    return [row for row in rows if any(row[column] != key[column] for column in key)]


@pytest.mark.parametrize(
    "dataset",
    [
        "lifecycle/simple-json",
        # `test_erase_large` erases rows of its files, too.
        pytest.param("lifecycle/storage-csv-full", marks=pytest.mark.all_cases),
        pytest.param("lifecycle/open-protocol-replayed", marks=pytest.mark.all_golden),
        pytest.param("lifecycle/canal-json-ext-delete-handle-key", marks=pytest.mark.all_golden),
    ],
)
def test_no_byte_of_golden_rows_is_left_and_all_others_are(tmp_path: Path, dataset: str) -> None:
    golden = ErasingLake(tmp_path, dataset)
    first, *later = cuts(dataset, [], Random(7), 3)
    golden.advance(first)
    for cut in later[:-1]:
        golden.advance(cut)
    keys = [(CUSTOMERS, {"id": "1"}), (("shop", "inventory"), {"sku": "SKU00", "warehouse": "1"})]
    for name, key in keys:
        before = golden.read()
        telling = list_telling(dataset, name, key)
        if name == CUSTOMERS:
            assert find_in_files(tmp_path / "lake", telling)
        done, searched = golden.erase(".".join(name), key)
        assert done.counts["events"] > 1
        assert searched.left == []
        assert find_in_files(tmp_path / "lake", telling) == {}
        assert golden.read() == {**before, name: leave_out(before[name], key)}
        assert build_ledger(golden.reader, read_last_snapshot(golden.lake)).adds_up
    # Input that comes later is applied as if the rows had never been, but for new changes of them.
    golden.advance(later[-1])
    (tmp_path / "whole").mkdir()
    whole = ErasingLake(tmp_path / "whole", dataset, history=(), changes=(), iceberg=())
    whole.advance(later[-1])
    expected = whole.read()
    through = {e.id: e.through_ts for e in read_erasures(golden.reader)}
    for number, (name, key) in enumerate(keys, 1):
        events = golden.find(".".join(name), key)
        assert events.events == 0 or events.target.newest_ts > through[number]
        if not events.events:
            expected[name] = leave_out(expected[name], key)
    assert golden.read() == expected
    last = read_last_snapshot(golden.lake)
    replay_tables(golden.lake, last, ReplayRequest(frozenset(last.versions), 0), lambda *_: None)
    assert golden.read() == expected
    assert build_ledger(golden.reader, read_last_snapshot(golden.lake)).adds_up


def test_a_hostile_key_goes_and_comes_back_by_nothing_but_new_changes(tmp_path: Path) -> None:
    person = Person()
    person.live()
    lake = PersonLake(tmp_path)
    lake.fill(person)
    assert lake.rows()[0]["pk"] == Person.ID
    assert find_in_files(tmp_path, {Person.ID, *Person.TEXTS})
    done, searched = lake.erase()
    assert searched.left == []
    assert {move[1:] for move in lake.found.moves} == {
        ("pk=moving", f"pk={Person.ID}"),
        (f"pk={Person.ID}", "pk=moved"),
    }
    assert done.counts == {
        "raw": 7,
        "quarantine": 1,
        "events": 7,
        "current": 1,
        "differences": 0,
        "history": done.counts["history"],
        "changes": done.counts["changes"],
    }
    lake.require_erased()
    assert lake.fold_changes() == LEFT
    assert lake.read_history() == LEFT
    shown = StaticTable.from_metadata(f"{lake.lake.path('iceberg')}/d.p").scan().to_arrow()
    assert sorted(shown["pk"].to_pylist()) == [row["pk"] for row in LEFT]
    # A moment of before is computed from the events that are left.
    assert [row["pk"] for row in lake.rows(14)] == ["other one", "still"]

    # Everything comes again, as after a restart of TiCDC.
    again = [*person.messages, *person.messages, watermark(person.ts + 1)]
    assert lake.advance(again).applied.problems == []
    lake.require_erased()
    lake.replay()
    lake.require_erased()
    maintain(lake.lake, read_last_snapshot(lake.lake))
    lake.require_erased()
    assert lake.fold_changes() == LEFT

    # A change since is one like any other; and the row can be erased again.
    person.messages = again
    person.ts += 1
    person.send("INSERT", person.person(Person.ID, Person.TEXTS[0], "new"))
    person.messages.append(watermark(person.ts))
    lake.advance(person.messages)
    assert [row["pk"] for row in lake.rows()] == [Person.ID, "moved", "other one", "still"]
    done, searched = lake.erase()
    assert (done.erasure.id, done.counts["events"], searched.left) == (2, 1, [])
    lake.require_erased()


class Killed(BaseException):
    pass


STEPS = [
    *((file_rewrites.FileRewrite, "_write"), (file_rewrites, "write_once")),
    *((purge, "write_checkpoint"), (old_files, "_remove"), (erasing, "write_erasure")),
    *((erasing, "write_new_versions"), (erasing, "publish"), (erasing, "publish_iceberg")),
    (erasing, "end_erasure"),
]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("life")
    person = Person()
    person.live()
    PersonLake(root).fill(person)
    return root


# Every run takes each step once.
KILLS = usual(
    [(*step, is_last) for step in STEPS for is_last in (False, True)],
    lambda place, name, is_last: is_last == (STEPS.index((place, name)) % 2 == 1),
)


@pytest.mark.parametrize(
    ("place", "name", "is_last"), KILLS, ids=lambda each: str(each).split(".")[-1]
)
# Parameters: fixtures, and where the command is killed.
def test_a_killed_erasure_is_completed_by_the_same_command(
    tmp_path: Path,
    life: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    name: str,
    *,
    is_last: bool,
) -> None:
    original = getattr(place, name)
    calls = 0

    def count(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*args, **options)

    kill_at = 1
    if is_last:
        shutil.copytree(life, tmp_path / "counted", copy_function=shutil.copy2)
        with monkeypatch.context() as patch:
            patch.setattr(place, name, count)
            PersonLake(tmp_path / "counted").erase()
        kill_at, calls = calls, 0

    def kill(*args: Any, **options: Any) -> Any:
        result = count(*args, **options) if calls + 1 < kill_at else None
        if result is None and calls + 1 >= kill_at:
            raise Killed
        return result

    shutil.copytree(life, tmp_path / "lake", copy_function=shutil.copy2)
    lake = PersonLake(tmp_path / "lake")
    with monkeypatch.context() as patch:
        patch.setattr(place, name, kill)
        with pytest.raises(Killed):
            lake.erase()
    # A run may come before the command is given again.
    lake.advance([])
    _, searched = lake.erase()
    assert searched.left == []
    assert [erasure.erased_at is None for erasure in read_erasures(lake.reader)] == [False]
    lake.require_erased()
    assert lake.fold_changes() == LEFT


LOADED = TableSchema(
    "d",
    "t",
    (
        Column("id", ColumnType("int"), nullable=False),
        Column("v", ColumnType("varchar", length=40)),
    ),
    indexes=(Index("PRIMARY", ("id",), unique=True, primary=True),),
)


def test_rows_of_loads_go_and_an_older_export_does_not_bring_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(_: object, do: Any, bundles: Any, __: object) -> Iterator[Any]:
        return (do(task) for bundle in bundles for task in bundle)

    monkeypatch.setattr(load_table, "run_in_workers", work)
    lake = PersonLake(tmp_path / "lake", PERSON_FEED)
    rows = [("1", Person.TEXTS[0]), ("2", "x")]
    messages = [row("d", "t", TSO + 5, id="7", v="n"), watermark(TSO + 10)]

    def load(ts: int) -> None:
        folder = tmp_path / f"export-{ts}"
        Exporter(folder).write({LOADED: rows})
        (folder / "metadata").write_text(format_metadata(ts))
        (done,) = load_tables(lake.lake, open_export(str(folder), Dialect()))
        assert done.outcome == "loaded"

    def require(*ids: str) -> None:
        shown = as_of(lake.lake)
        lines = [msgspec.json.decode(each) for each in shown.lines(shown.find("d.t")[0])]
        assert sorted(line["id"] for line in lines) == [*ids]

    load(TSO)
    lake.advance(messages)
    require("1", "2", "7")
    assert find_in_files(lake.root, [Person.TEXTS[0]])
    done, searched = lake.erase({"id": "1"}, "d.t")
    assert (done.counts["events"], done.counts["current"] > 0, searched.left) == (0, True, [])
    assert find_in_files(lake.root, [Person.TEXTS[0]]) == {}
    require("2", "7")
    lake.replay()
    require("2", "7")
    maintain(lake.lake, read_last_snapshot(lake.lake))
    # Of a ts before the erasure, when upstream had the row.
    rows.append(("7", "n"))
    load(TSO + 7)
    lake.advance(messages)
    require("2", "7")
    assert find_in_files(lake.root, [Person.TEXTS[0]]) == {}


def test_encrypted_records_lose_their_bytes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESTS_ERASE", KEY_OF_RULES)
    rules = {"key-env": "TESTS_ERASE", "raw": "encrypted"}
    rules |= {"table": [{"tables": ["*.*"], "keep": ["pk", "small"], "hash": ["street", "n"]}]}
    privacy = read_privacy(rules, has_records=True)
    feed = dataclasses.replace(PERSON_FEED, privacy=privacy)
    person = Person()
    person.live()
    lake = PersonLake(tmp_path, feed)
    lake.fill(person)
    done, searched = lake.erase()
    assert (done.counts["raw"], searched.left) == (7, [])
    raw = lake.reader.open("raw").to_pyarrow_table().to_pylist()
    assert sum(each["problem"] == "erased" for each in raw) == 7
    assert all((each["value"] is None) == (each["problem"] == "erased") for each in raw)
    lake.advance([*person.messages, *person.messages, watermark(person.ts + 1)])
    raw = lake.reader.open("raw").to_pyarrow_table().to_pylist()
    assert sum(each["problem"] == "erased" for each in raw) == 14
    assert [each["pk"] for each in lake.rows()] == [each["pk"] for each in LEFT]
    assert find_in_files(tmp_path, {Person.ID}) == {}
