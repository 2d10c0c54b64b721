"""Loading from a real server: rows come into the lake as they are there, and changes follow."""

import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace as replace_struct
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, change, placed, row, watermark
from tests.lake.reading import read_lines
from tests.lake.test_load import Killed, read_rows
from tests.lake.test_verify_types import ALL_TYPES, FILLED, ROWS
from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.mariadb_server import MariaDb
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.load import load as load_module
from ticdc_assets.load import upstream_pages, upstream_source
from ticdc_assets.load.load import TableResult, load_tables
from ticdc_assets.load.upstream_source import UpstreamSource
from ticdc_assets.log.loads import read_loads
from ticdc_assets.plan.load import Load
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.load_source import open_database
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.upstream.snapshot import Pace, Reader, Row, UpstreamSnapshot
from ticdc_assets.verify.verify import Environment, verify
from ticdc_assets.views.asof import as_of

TSO = 470608231338082304
KEYED = replace(FEED, start_ts=1)


@pytest.fixture
def server(mariadb: MariaDb) -> MariaDb:
    mariadb.run("CREATE OR REPLACE DATABASE l CHARACTER SET utf8mb4")
    return mariadb


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> LakeSession:
    feed = replace(KEYED, filter_rules=("l.*", "!l.hid*"))
    return LakeSession(spark, Lake(str(tmp_path / "lake"), feed.id), feed)


def load(lake: LakeSession, server: MariaDb, *names: str) -> dict[str, TableResult]:
    with open_database(UpstreamDatabase("f", server.upstream), lake.feed, TSO) as source:
        return {result.name: result for result in load_tables(lake, source, names)}


def find_load(lake: LakeSession, table: str) -> Load:
    (found,) = (x for x in read_loads(LakeReader(lake.location)) if x.schema.table == table)
    return found


def run_advance(lake: LakeSession, messages: Sequence[Message]) -> None:
    done = advance(lake, RecordSource(lambda _: placed(messages)))
    assert done.applied.problems == []


def test_all_types_come_as_they_are_upstream(
    spark: SparkSession, tmp_path: Path, server: MariaDb, lake: LakeSession
) -> None:
    """Compared with rows that come another way: as images of events; and by `verify`."""
    server.run("USE l", ALL_TYPES, f"INSERT INTO `all types` (id, {FILLED}) VALUES {ROWS}")
    results = load(lake, server)
    assert {r.name: (r.outcome, r.rows, r.quarantined) for r in results.values()} == {
        "l.all types": ("loaded", 4, 0),
    }
    copy = UpstreamCopy.make(spark, tmp_path / "copy", server)
    copy.copy(read_schema("l", ALL_TYPES))
    loaded = find_load(lake, "all types")
    copied = replace_struct(loaded, incarnation="all types-1", version=0)
    assert Counter(map(repr, read_rows(lake, loaded))) == Counter(
        map(repr, read_rows(copy.lake, copied))
    )

    run_advance(lake, [watermark(TSO + 1)])
    environment = Environment(
        LakeReader(lake.location),
        lake.feed,
        lambda: lake,
        UpstreamDatabase("f", server.upstream).open_snapshot,
        wait_seconds=0.0,
    )
    found = list(verify(environment, (), lambda _: None))
    assert [(each.verdict, each.upstream_rows) for each in found] == [("equal", 4)]


@dataclass
class Writer:
    """Writes to a table without end, and sends each change as TiCDC would."""

    server: MariaDb
    rows: dict[int, str] = field(default_factory=lambda: dict.fromkeys(range(300), "0"))
    messages: list[Message] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    must_end: bool = False

    @property
    def ts(self) -> int:
        return TSO + len(self.messages)

    def start(self) -> threading.Thread:
        values = ", ".join(f"({id}, '{v}')" for id, v in self.rows.items())
        ddl = "CREATE TABLE busy (id int PRIMARY KEY, v varchar(20))"
        self.server.run("USE l", ddl, f"INSERT INTO busy VALUES {values}")
        thread = threading.Thread(target=self._run)
        thread.start()
        return thread

    def _run(self) -> None:
        random = Random(1)
        while not self.must_end:
            with self.lock:
                self._write(random.randrange(400), random)
            # Of more changes, applying takes longer and shows no more.
            time.sleep(0.01)

    def _write(self, id: int, random: Random) -> None:
        old, ts = self.rows.get(id), self.ts + 1
        if old is None:
            sql, message = (
                f"INSERT INTO busy VALUES ({id}, '{ts}')",
                row("l", "busy", ts, id=str(id), v=str(ts)),
            )
        elif random.random() < 0.3:
            sql = f"DELETE FROM busy WHERE id = {id}"
            message = change("DELETE", "l", "busy", ts, {"id": str(id), "v": old})
        else:
            sql = f"UPDATE busy SET v = '{ts}' WHERE id = {id}"
            message = change("UPDATE", "l", "busy", ts, {"id": str(id), "v": str(ts)}, {"v": old})
        self.server.run("USE l", sql)
        self.messages.append(message)
        if sql.startswith("DELETE"):
            del self.rows[id]
        else:
            self.rows[id] = str(ts)


def test_rows_are_of_one_moment_while_others_write_and_their_changes_follow(
    server: MariaDb, lake: LakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_pages, "_ROWS_PER_PAGE", 20)
    writer = Writer(server)
    thread = writer.start()
    try:
        while writer.ts < TSO + 20:
            time.sleep(0.01)
        database = UpstreamDatabase("f", server.upstream, rows_per_second=300)
        with ExitStack() as stack:
            with writer.lock:
                source = stack.enter_context(open_database(database, lake.feed, writer.ts))
                at, expected = writer.ts, dict(writer.rows)
            (result,) = load_tables(lake, source)
        assert writer.ts > at + 5
    finally:
        writer.must_end = True
        thread.join()

    assert (result.outcome, result.rows) == ("loaded", len(expected))
    loaded = read_rows(lake, find_load(lake, "busy"))
    assert {int(r["id"] or ""): r["v"] for r in loaded} == expected
    assert len(loaded) == len(expected)

    run_advance(lake, [*writer.messages, watermark(writer.ts)])
    shown = as_of(lake)
    (table,) = shown.tables()
    lines = sorted(read_lines(lake, shown, table))
    truth = server.run("SELECT id, v FROM l.busy")
    assert lines == sorted(f'{{"id":"{id}","v":"{v}"}}\n'.encode() for id, v in truth)


def test_a_connection_that_breaks_leaves_no_table_half_loaded(
    server: MariaDb, lake: LakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_pages, "_ROWS_PER_PAGE", 10)
    monkeypatch.setattr(upstream_source, "_BYTES_PER_PORTION", 1)
    server.run(
        "USE l",
        *(f"CREATE TABLE {t} (id int PRIMARY KEY)" for t in ("a", "b", "hidden", "Twin", "twin")),
        *(f"INSERT INTO {name} SELECT seq FROM seq_1_to_25" for name in ("a", "b")),
        "CREATE TABLE keyless (v int)",
        "CREATE TABLE odd (g geometry, id int PRIMARY KEY)",
        "CREATE VIEW v AS SELECT 1",
        "CREATE SEQUENCE s",
    )
    others = {
        "l.keyless": ("left out", "force-replicate = true"),
        "l.odd": ("failed", "geometry"),
        **dict.fromkeys(("l.Twin", "l.twin"), ("failed", "l.Twin and l.twin, which are one table")),
    }
    database = UpstreamDatabase("f", server.upstream)
    with open_database(database, lake.feed, TSO) as source:
        assert [name for name, _ in source.skipped] == ["l.s", "l.v"]
        spend, spent = source.snapshot.pace.spend, [0]

        def kill(rows: int) -> None:
            spent[0] += rows
            # In the last page of the first table.
            if spent[0] == 25:
                for (id,) in server.run(
                    "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'verify'"
                ):
                    server.run(f"KILL {id}")
            spend(rows)

        source.snapshot.pace.spend = kill  # type: ignore[method-assign]
        results = {r.name: r for r in load_tables(lake, source)}
    loaded = [name for name in ("l.a", "l.b") if results[name].outcome == "loaded"]
    failed = [name for name in ("l.a", "l.b") if results[name].outcome == "failed"]
    assert len(loaded) == len(failed) == 1
    reason = results[failed[0]].reason or ""
    assert "changefeed f.upstream: host: " in reason
    assert "must be reachable; run it again to continue" in reason

    # Of all tables there are, only those of the changefeed are loaded.
    assert set(results) == {"l.a", "l.b", *others}
    again = load(lake, server)
    assert {again[name].outcome for name in loaded} == {"already loaded"}
    assert {again[name].outcome for name in failed} == {"loaded"}
    for name, (outcome, reason) in others.items():
        assert again[name].outcome == outcome
        assert reason in (again[name].reason or "")
    (hidden,) = load(lake, server, "l.hidden").values()
    assert (hidden.outcome, hidden.reason) == (
        "left out",
        "filter.rules keep it out of the changefeed",
    )
    for table in ("a", "b"):
        rows = read_rows(lake, find_load(lake, table))
        assert sorted(int(r["id"] or "") for r in rows) == list(range(1, 26))
    assert find_load(lake, "a").origin == f"127.0.0.1:{server.port}/l"


@dataclass
class OtherTypes:
    """A connection that says that all columns are INTs."""

    reader: Reader

    def query(self, sql: str) -> Sequence[Row]:
        rows = self.reader.query(sql)
        if not sql.startswith("SHOW CREATE TABLE"):
            return rows
        return [(row[0], (row[1] or b"").replace(b"varchar(9)", b"int(11)")) for row in rows]

    def stream(self, sql: str) -> Generator[Sequence[Row]]:
        return self.reader.stream(sql)

    def renew(self) -> None: ...


@contextmanager
def open_other(server: MariaDb, feed: Changefeed) -> Iterator[UpstreamSource]:
    with (
        UpstreamDatabase("f", server.upstream).open_snapshot(TSO) as snapshot,
        snapshot.borrow() as reader,
    ):
        other = UpstreamSnapshot([OtherTypes(reader)], Pace(None), is_tidb=False)
        yield UpstreamSource(other, "db:3306", feed, takes_newest=True)


def test_rows_that_their_types_do_not_hold_are_in_the_quarantine_once(
    server: MariaDb, lake: LakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_pages, "_ROWS_PER_PAGE", 3)
    monkeypatch.setattr(upstream_source, "_BYTES_PER_PORTION", 1)
    server.run(
        "USE l",
        "CREATE TABLE odd (id int PRIMARY KEY, v varchar(9), d date)",
        "INSERT INTO odd SELECT seq, IF(seq IN (2, 8), 'x', seq), IF(seq < 6, NULL, '0000-00-00')"
        " FROM seq_1_to_8",
    )

    def fail(lake: LakeSession, load: Load) -> Load:
        raise Killed

    with open_other(server, lake.feed) as source:
        source.snapshot.ts = TSO
        with monkeypatch.context() as patch:
            patch.setattr(load_module, "append_load", fail)
            with pytest.raises(Killed):
                load_tables(lake, source)
        (result,) = load_tables(lake, source)
        assert (result.outcome, result.rows, result.quarantined) == ("loaded", 6, 2)
        # With rows in the quarantine, a newer load is another.
        source.snapshot.ts = TSO + 1
        (result,) = load_tables(lake, source)
        assert result.outcome == "loaded"
    kept = read_table(lake, "quarantine").where(f"commit_ts = {TSO}").orderBy("source").collect()
    assert [(r["source"], r["number"], r["error"], r["raw"]) for r in kept] == [
        ("l.odd: all rows", 1, "InvalidValue", b'{"id":"2","v":"x","d":null}'),
        ("l.odd: all rows after (6)", 1, "InvalidValue", b'{"id":"8","v":"x","d":"0000-00-00"}'),
    ]
    first, _ = read_loads(LakeReader(lake.location))
    rows = read_rows(lake, first)
    assert sorted(int(r["id"] or "") for r in rows) == [1, 3, 4, 5, 6, 7]
    assert {r["d"] for r in rows if int(r["id"] or "") > 5} == {"0000-00-00"}


def test_a_load_that_waits_to_be_taken_up_is_as_good_as_a_newer_one(
    server: MariaDb, lake: LakeSession
) -> None:
    server.run("USE l", "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")

    def load_newest(ts: int) -> str:
        with open_database(UpstreamDatabase("f", server.upstream), lake.feed, ts) as source:
            # As TiDB does, which chooses a ts by itself.
            source.takes_newest = True
            (result,) = load_tables(lake, source)
        return result.outcome

    assert [load_newest(TSO), load_newest(TSO + 5)] == ["loaded", "already loaded"]
    run_advance(lake, [watermark(TSO + 7)])
    assert load_newest(TSO + 9) == "loaded"
