"""Iceberg tables in a REST catalog: by its names, readers see what TiDB had, at every moment."""

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import RESTError
from pyiceberg.table import Table
from requests import Request

from tests.catalogs.rest_names import ByName, list_names, read_ids, update
from tests.catalogs.test_glue import send_all
from tests.hostile_names import NAMES
from tests.lake.addresses import create, send
from tests.lake.canal import FEED, change, ddl, row, watermark
from tests.lake.erasing import LEFT, PERSON_FEED, Person, PersonLake
from tests.lake.iceberg_tables import Stream, open_iceberg, open_lake, read_snapshots
from tests.lake.life_of_names import Life, Name
from tests.lake.privately import find_in_files
from tests.lake.test_iceberg import DDLS
from tests.servers import HOST, free_port, iceberg_catalog
from ticdc_assets.catalogs import read_registration, register
from ticdc_assets.changefeed.catalog import IcebergRestCatalog
from ticdc_assets.erase.search import Search
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.iceberg import shown_table
from ticdc_assets.lake.iceberg.columns import CannotPublish
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources.catalogs import open_catalog, update_catalogs
from ticdc_assets.resources.inspect_catalogs import inspect_catalogs


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with iceberg_catalog(tmp_path_factory.mktemp("iceberg")) as url:
        yield url


@pytest.fixture(scope="module")
def reader(url: str) -> RestCatalog:
    client = load_catalog("reader", type="rest", uri=url)
    assert isinstance(client, RestCatalog)
    return client


def test_a_reader_by_name_sees_a_life_of_twenty_tables_and_no_half_of_a_change(
    tmp_path: Path, url: str, reader: RestCatalog
) -> None:
    lake, life = open_lake(tmp_path, "*.*"), Life(6)
    by_name = ByName(lake, reader, "twenty_")
    before: dict[Name, Any] = {}
    for _ in range(4):
        after = life.live()
        assert advance(lake, life.send()).applied.problems == []
        by_name.allowed, by_name.names = [before, after], sorted({*before, *after})
        with by_name.reading():
            assert update(lake, url, "twenty_") == []
        by_name.allowed = [after]
        by_name.read_all()
        assert by_name.faults == []
        before = after


def test_each_snapshot_has_the_columns_and_rows_of_its_time(
    tmp_path: Path, url: str, reader: RestCatalog
) -> None:
    lake = open_lake(tmp_path, "d.t")
    stream = Stream(lake)
    sql = "CREATE TABLE t (id INT PRIMARY KEY, v INT, w VARCHAR(20))"
    first = change("INSERT", "d", "t", 3, {"id": "1", "v": "10", "w": "a"}, v="int")
    assert stream.send(ddl("d", "t", 2, "CREATE", sql), first) == []
    for number, (actions, _, _) in enumerate(DDLS, 1):
        altered = [
            ddl("d", "t", number * 10 + at, "ALTER", f"ALTER TABLE t {action}")
            for at, action in enumerate(actions)
        ]
        assert stream.send(*altered) == []
        # The catalog misses every other window.
        if number % 2:
            assert update(lake, url, "ddl_") == []
            shown = read_all(open_iceberg(lake, "d.t"))
            assert read_all(reader.load_table(("ddl_d", "t"))) == shown


def read_all(table: Table) -> dict[int, list[dict[str, Any]]]:
    return {ts: rows.to_pylist() for ts, rows in read_snapshots(table)}


def test_an_entry_follows_its_table_with_few_calls_and_drops_no_file(
    tmp_path: Path, url: str, reader: RestCatalog
) -> None:
    lake, calls = open_lake(tmp_path, "d.*"), Counter[str]()
    messages = [create(name, 2 + n) for n, name in enumerate("abc")]
    advance(lake, send_all(*messages, watermark(9)))
    assert update(lake, url, "few_") == []
    assert reader.load_namespace_properties(("few_d",))["ticdc.changefeed"] == FEED.id
    # What other people state of the table stays, and what they write into it does not.
    table = reader.load_table(("few_d", "a"))
    assert lake.path("iceberg-catalog/d.a/") in table.metadata_location
    table.transaction().set_properties(team="sales").commit_transaction()
    table.append(open_iceberg(lake, "d.a").scan().to_arrow())
    messages += [watermark(9), row("d", "a", 12, id="7"), watermark(19)]
    advance(lake, send_all(*messages))
    assert update(lake, url, "few_", calls) == []
    # One to look it up, one to commit.
    assert calls == Counter(GET=1, POST=1)
    assert read_ids(reader, "few_d", "a") == [7]
    table = reader.load_table(("few_d", "a"))
    assert table.properties["team"] == "sales"
    assert table.properties["ticdc.resolved_ts"] == "19"
    assert len(table.snapshots()) == 2
    calls.clear()
    assert update(lake, url, "few_", calls) == []
    assert calls == Counter()
    files = {path for path in Path(lake.path("")).rglob("*") if path.is_file()}
    messages += [ddl("d", "a", 22, "ERASE", "DROP TABLE a"), watermark(29)]
    advance(lake, send_all(*messages))
    assert update(lake, url, "few_", calls) == []
    assert calls == Counter(GET=1, DELETE=1)
    assert list_names(reader, "few_d") == {"b", "c"}
    assert {path for path in files if not path.exists()} == set()


def test_only_own_entries_are_changed(tmp_path: Path, url: str, reader: RestCatalog) -> None:
    lakes = [open_lake(tmp_path / name, "d.*") for name in ("first", "second")]
    messages = [create(name, 2 + n) for n, name in enumerate("ab")]
    for lake in lakes:
        advance(lake, send_all(*messages, watermark(9)))
    assert update(lakes[0], url, "own_") == []
    (one, two) = update(lakes[1], url, "own_")
    assert one.reason.startswith("iceberg-rest: own_d.a is there already, of another lake, at")
    assert two.table == "b"
    assert update(lakes[1], url, "other_") == []
    # Somebody takes the place of one: it is neither replaced nor dropped.
    reader.drop_table(("own_d", "a"))
    theirs = reader.create_table(("own_d", "a"), open_iceberg(lakes[0], "d.a").schema())
    more = [ddl("d", name, 12 + n, "ERASE", f"DROP TABLE {name}") for n, name in enumerate("ab")]
    advance(lakes[0], send_all(*messages, watermark(9), *more, create("a", 15), watermark(19)))
    (problem,) = update(lakes[0], url, "own_")
    assert problem.reason.startswith("iceberg-rest: own_d.a is there already, and no changefeed")
    assert list_names(reader, "own_d") == {"a"}
    assert reader.load_table(("own_d", "a")).metadata == theirs.metadata
    assert list_names(reader, "other_d") == {"a", "b"}
    # Without the file, the entries of tables that are gone are found by their owner.
    Path(lakes[1].path("catalog-iceberg-rest.json")).unlink()
    advance(lakes[1], send_all(*messages, watermark(9), *more, watermark(19)))
    assert update(lakes[1], url, "other_") == []
    assert list_names(reader, "other_d") == set()


def test_an_entry_goes_and_comes_back_with_the_iceberg_table(
    tmp_path: Path, url: str, reader: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path, "d.*")
    stream = Stream(lake)
    stream.send(create("t", 2), create("u", 3), row("d", "t", 4, id="1"))
    assert update(lake, url, "back_") == []
    # Whoever deletes the folder gets other files and numbers, with no table changed.
    shutil.rmtree(lake.path("iceberg"))
    stream.send()
    assert update(lake, url, "back_") == []
    assert read_ids(reader, "back_d", "t") == [1]
    assert len(reader.load_table(("back_d", "t")).snapshots()) == 1

    def cannot(*_: object) -> None:
        raise CannotPublish("for a reason")

    with monkeypatch.context() as patch:
        patch.setattr(shown_table, "choose_columns", cannot)
        stream.send(row("d", "t", 24, id="2"))
    assert update(lake, url, "back_") == []
    assert list_names(reader, "back_d") == {"u"}
    stream.send(row("d", "t", 34, id="3"))
    assert update(lake, url, "back_") == []
    assert read_ids(reader, "back_d", "t") == [1, 2, 3]
    # A table that is behind its snapshot stays behind in the catalog, too, until it is not.
    hint = Path(lake.path("iceberg/d.t/metadata/version-hint.text"))
    good = hint.read_text()
    hint.write_text("77")
    stream.send(row("d", "t", 44, id="4"), row("d", "u", 45, id="5"))
    (problem,) = update(lake, url, "back_")
    assert problem.reason == "iceberg-rest: iceberg/d.t is not at the last snapshot"
    assert read_ids(reader, "back_d", "t") == [1, 2, 3]
    assert read_ids(reader, "back_d", "u") == [5]
    hint.write_text(good)
    stream.send()
    assert update(lake, url, "back_") == []
    assert read_ids(reader, "back_d", "t") == [1, 2, 3, 4]
    # Without the setting, there is none of them, here and there.
    stream.lake = open_lake(tmp_path)
    stream.send()
    assert update(stream.lake, url, "back_") == []
    assert list_names(reader, "back_d") == set()


def test_hostile_names_have_entries_or_a_reason_why_not(
    tmp_path: Path, url: str, reader: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register, "_MOST_SHOWN", 99)
    lake = open_lake(tmp_path, "*.*")
    names = [*NAMES, "Mixed", "a.b", "a/b", "..", "%2F", "a?b=c#d", "İ", "i̇", "x" * 64, "👍" * 64]
    created = [
        ddl("d", name, 2 + n, "CREATE", f"CREATE TABLE `{name.replace('`', '``')}` (id INT)")
        for n, name in enumerate(names)
    ]
    other = ddl("a.b", "t", 98, "CREATE", "CREATE TABLE t (id INT)")
    advance(lake, send_all(*created, other, watermark(99)))
    reasons = {problem.table: problem.reason for problem in update(lake, url, "odd_")}
    there = list_names(reader, "odd_d")
    tables = {table.schema.table for table in read_last_snapshot(lake).state.incarnations.values()}
    for name in tables:
        is_there = name.lower() in there
        assert is_there != (name in reasons), name
        if is_there:
            assert (
                reader.load_table(("odd_d", name.lower())).properties["ticdc.table"] == f"d.{name}"
            )
    assert {"plain", "mixed", "x" * 64, "订单 👍", "a.b", "%2f"} <= there
    assert "as d.i̇ would" in reasons["İ"]
    assert "takes no name with '/' in it" in reasons["a/b"]
    assert "takes a dot in a database for two of them: 'odd_a.b'" in reasons["t"]
    assert ("odd_a", "b") not in reader.list_namespaces()


def test_a_catalog_that_is_down_is_caught_up_with(
    tmp_path: Path, url: str, reader: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path, "d.*")
    advance(lake, send(2))
    (problem,) = update(lake, f"http://{HOST}:{free_port()}", "down_")
    assert problem.reason.startswith("iceberg-rest: the Iceberg catalog does not answer: ")
    # What is there is no such catalog.
    (problem,) = update(lake, f"{url}/nothing", "down_")
    assert problem.reason.startswith("iceberg-rest: the Iceberg catalog answers ")
    monkeypatch.setattr(RestCatalog, "commit_table", lose_answer(RestCatalog.commit_table))
    found = update(lake, url, "down_")
    assert {problem.table for problem in found} == {"a", "b"}
    monkeypatch.undo()
    assert update(lake, url, "down_") == []
    assert read_registration(lake.location, "iceberg-rest").problems == ()
    assert read_ids(reader, "down_d", "a") == [1, 3]
    (none, there) = inspect_catalogs(replace(FEED, catalogs=(IcebergRestCatalog(url),)), "/lake")
    assert (none.result, there.result) == ("warning", "ok")
    assert "no table is an Iceberg table" in none.message
    assert there.message.startswith(f"iceberg-rest at {url} has ")
    # Credentials are those of pyiceberg's configuration.
    feed = replace(lake.feed, catalogs=(IcebergRestCatalog(url, "down_", profile="nobody"),))
    (problem,) = update_catalogs(lake.location, feed)
    assert problem.reason.endswith("pyiceberg's configuration has no catalog 'nobody'")
    monkeypatch.setenv("PYICEBERG_CATALOG__SOME_BODY__TOKEN", "t0ps3cret-token")
    settings = IcebergRestCatalog(url, "down_", profile="some-body")
    catalog: Any = open_catalog(settings)
    assert catalog.list_entries("down_d").keys() == {"a", "b"}
    request = catalog._client._session.prepare_request(Request("GET", url))
    assert request.headers["Authorization"] == "Bearer t0ps3cret-token"


def lose_answer(call: Any) -> Any:
    def make(*arguments: Any) -> None:
        call(*arguments)
        raise RESTError("lost")

    return make


def test_of_an_erased_row_no_catalog_has_a_byte_and_readers_by_name_see_all_others(
    tmp_path: Path, url: str, reader: RestCatalog
) -> None:
    feed = replace(PERSON_FEED, history=(), changes=())
    person, lake = Person(), PersonLake(tmp_path / "lake", feed)
    person.live()
    ends = [n for n, m in enumerate(person.messages, 1) if b"WATERMARK" in (m.value or b"")]
    for end in ends:
        lake.advance(person.messages[:end])
        assert update(lake.lake, url, "erased_") == []
    name = ("erased_d", "p")
    before = reader.load_table(name)
    assert len(before.snapshots()) == len(ends)
    # What engines in Java commit has its manifests in the folder of the catalog.
    for manifest in Path(lake.lake.path("iceberg/d.p/metadata")).glob("*-m0.avro"):
        shutil.copy(manifest, lake.lake.path("iceberg-catalog/d.p"))
    texts = {Person.ID, *Person.TEXTS}
    assert any("iceberg-catalog/" in path for path in find_in_files(tmp_path, texts))
    before.append(before.scan().to_arrow())
    done, _ = lake.erase()
    assert update(lake.lake, url, "erased_") == []
    assert Search(lake.reader, done.erasure, lake.found.target).run(lambda *_: None).left == []
    assert find_in_files(tmp_path, texts) == {}
    assert len(reader.load_table(name).snapshots()) == 1
    assert read_ids(reader, *name, column="pk") == [row["pk"] for row in LEFT]
    person.messages += [*person.messages, watermark(person.ts + 1)]
    lake.advance(person.messages)
    assert update(lake.lake, url, "erased_") == []
    assert read_ids(reader, *name, column="pk") == [row["pk"] for row in LEFT]
    assert find_in_files(tmp_path, texts) == {}
