"""Rows read from a real TiDB by their keys are those that its own texts show, as of their ts."""

import dataclasses
import json
from contextlib import ExitStack
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from tests.lake.test_verify_types import ALL_TYPES, FILLED, ROWS
from tests.lake.upstream_copy import FEED, Image, read_images, read_schema
from tests.lake.upstream_spy import UpstreamSpy
from tests.mariadb_server import MariaDb
from tests.schema.partition.test_tidb_collations import COLLATIONS
from tests.tidb_server import Tidb
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import FETCHED, Op, RowChange, TableSchema, TopicPosition
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.lake.events.large_rows import (
    NOT_FOUND,
    NOT_TIDB,
    NOT_UNIQUE,
    OTHER_COLUMNS,
    LargeRows,
)
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.store.event_rows import Arrival
from ticdc_assets.upstream.snapshot import RowsUnreadable
from ticdc_assets.upstream.sql import quote


def _count_fitting(collation: str) -> int:
    return {"ascii": 7, "latin1": 7, "gbk": 8, "utf8": 9}.get(collation.partition("_")[0], 10)


# Columns of a key, and values that are hard to find.
KEYS: dict[str, tuple[str, list[Any]]] = {
    "bigint": ("bigint", [-(2**63), 2**63 - 1, 0, 9007199254740993]),
    "unsigned": ("bigint unsigned zerofill", [2**64 - 1, 9007199254740993]),
    "decimal": ("decimal(65,30)", ["-1.000000000000000000000000000001", "0", "12345"]),
    "float": ("float", ["0.1", "-3.4e38", "1e-45", "16777216"]),
    "double": ("double", ["0.1", "1.7976931348623157e308", "5e-324", "-0.0"]),
    "bit": ("bit(64)", [2**64 - 1, 0, 2**63]),
    "year": ("year", [0, 1901, 2000, 2155]),
    "date": ("date", ["0000-00-00", "2024-02-00", "9999-12-31"]),
    "datetime": ("datetime(6)", ["0000-00-00 00:00:00", "2024-02-29 12:00:00.000001"]),
    "seconds": ("datetime", ["2024-02-29 12:00:00"]),
    "timestamp": ("timestamp(3)", ["1970-01-01 00:00:01.100", "2024-10-27 01:30:00.999"]),
    "time": ("time(2)", ["-838:59:59.00", "00:00:00.50", "838:59:59.00"]),
    "char": ("char(20)", ["it's", "a\\b", 'quo"te', "%s %d 100%", "日本😀", "", "é"]),
    "ci": ("varchar(20) COLLATE utf8mb4_unicode_ci", ["Straße", "ÀÉ", "tab\t", "line\nbreak"]),
    "bin": ("varchar(20) COLLATE utf8mb4_bin", ["a", "A", "nul\0", "`); DROP TABLE x; --"]),
    "latin1": ("varchar(20) CHARACTER SET latin1", ["café", "ÿ"]),
    "gbk": ("varchar(20) CHARACTER SET gbk", ["中文", "縗\\"]),
    "binary": ("binary(4)", [b"\0\xff'\\", b"a", b"a\0\0b", b""]),
    "varbinary": ("varbinary(20)", [b"", b"\xff\xfe%s", b"a", b"a\0", b"'\"\\"]),
    **{
        name: (
            f"varchar(20) CHARACTER SET {name.partition('_')[0]} COLLATE {name}",
            ["it's", "a\\b", "100%", "B", "~[", "tab\t", "", "中文", "Straße", "😀"][
                : _count_fitting(name)
            ],
        )
        for name in COLLATIONS
        if name != "binary"
    },
    "enum": ("enum('a','2','é''x')", ["a", "2", "é'x"]),
    "set": ("set('x','y','1')", ["", "x,1", "1"]),
}


@pytest.fixture(scope="module")
def server(tidb: Tidb) -> Tidb:
    tidb.run("CREATE DATABASE large CHARACTER SET utf8mb4")
    return tidb


def ask(upstream: UpstreamSpy, changes: list[RowChange]) -> list[RowChange]:
    arrivals = [Arrival(1, seq, 0, change) for seq, change in enumerate(changes)]
    with ExitStack() as connections:
        large_rows = LargeRows(FEED, upstream.open, connections)
        completed = large_rows.complete(arrivals)
    for before, after in zip(arrivals, completed, strict=True):
        assert replace(after, event=before.event) == before
    return [arrival.event for arrival in completed if isinstance(arrival.event, RowChange)]


def key_only(table: str, image: Image, ts: int, op: Op = Op.INSERT, **fields: Any) -> RowChange:
    side = {"before" if op is Op.DELETE else "after": dump(image)}
    return RowChange(
        op=op,
        commit_ts=ts,
        database="large",
        table=table,
        position=TopicPosition("t", 0, 0),
        handle_key_only=True,
        **side,
        **fields,
    )


def enumerate_members(image: Image, schema: TableSchema) -> Image:
    """Write ENUM and SET as Kafka's protocols do: as numbers."""
    numbers = dict(image)
    for column in schema.columns:
        text, members = image.get(column.name), column.type.elements
        if text is not None and members is not None:
            chosen = [members.index(name) for name in text.split(",") if name]
            is_set = column.type.name == "set"
            numbers[column.name] = str(sum(1 << n if is_set else n + 1 for n in chosen))
    return numbers


def test_a_row_of_all_types_is_the_row_that_the_server_shows(server: Tidb) -> None:
    server.run("USE large", ALL_TYPES, f"INSERT INTO `all types` (id, {FILLED}) VALUES {ROWS}")
    schema = read_schema("large", ALL_TYPES)
    images, ts = read_images(server, schema), server.now()

    fetched = ask(
        UpstreamSpy(server), [key_only("all types", {"id": image["id"]}, ts) for image in images]
    )

    read = RowReader(schema)
    assert len(fetched) == 4
    for change, image in zip(fetched, images, strict=True):
        assert (change.upstream, change.handle_key_only) == (FETCHED, False)
        assert read(change.after or "") == read(dump(enumerate_members(image, schema)))


@pytest.mark.parametrize("kind", KEYS)
def test_rows_are_found_by_a_key_of_any_type(server: Tidb, kind: str) -> None:
    type, values = KEYS[kind]
    name = f"%k`{kind} %s"
    ddl = f"CREATE TABLE {quote(name)} ({quote(name)} {type} NOT NULL, n int, PRIMARY KEY"
    ddl += f" ({quote(name)}))"
    insert = f"INSERT INTO {quote(name).replace('%', '%%')} VALUES (%s, %s)"
    server.run(
        "USE large", ddl, *[(insert, pair) for pair in zip(values, range(len(values)), strict=True)]
    )
    schema = read_schema("large", ddl)
    images = [enumerate_members(image, schema) for image in read_images(server, schema)]
    assert sorted(int(image["n"] or "") for image in images) == list(range(len(values)))

    spy, ts = UpstreamSpy(server), server.now()
    fetched = ask(spy, [key_only(name, {name: image[name]}, ts) for image in images])

    assert [change.upstream for change in fetched] == [FETCHED] * len(images)
    read = RowReader(schema)
    for change, image in zip(fetched, images, strict=True):
        assert read(change.after or "") == read(dump(image))
    # One connection; the columns of the table, and one query for all keys.
    assert (spy.connections, spy.read, len(spy.sent)) == (1, [ts], 2)


def test_rows_are_grouped_by_table_and_commit_ts_and_others_stay_as_they_are(
    server: Tidb,
) -> None:
    server.run(
        *("USE large", "CREATE TABLE g (a int, b varchar(9), v int, PRIMARY KEY (a, b))"),
        "CREATE TABLE h (a int PRIMARY KEY, v int AS (a + 1) VIRTUAL, w int AS (a + 2) STORED)",
    )
    first = server.commit("INSERT INTO large.g VALUES (1, 'x', 10), (1, 'y', 20), (2, 'x', 30)")
    second = server.commit("UPDATE large.g SET v = v + 1", "INSERT INTO large.h (a) VALUES (1)")
    # What comes later is in no row.
    server.run("USE large", "UPDATE g SET v = -1", "ALTER TABLE g DROP COLUMN v", "DROP TABLE h")
    whole = RowChange(
        op=Op.INSERT,
        commit_ts=second,
        database="large",
        table="g",
        position=TopicPosition("t", 0, 0),
        after='{"a":"7"}',
    )
    removed = key_only("g", {"a": "1", "b": "x"}, second - 1, Op.DELETE)
    stated = {"observed": '{"a":"int not null"}', "key_columns": ("a",)}
    spy = UpstreamSpy(server)
    fetched = ask(
        spy,
        [
            key_only("g", {"a": "1", "b": "y"}, second),
            whole,
            key_only("h", {"A": "1"}, second, **stated),
            removed,
            key_only("g", {"b": "x", "a": "2"}, first),
            key_only("g", {"b": "x", "a": "1"}, second),
        ],
    )
    assert fetched[1] is whole
    assert fetched[3] is removed
    images = [load(fetched[place].after or "") for place in (0, 2, 4, 5)]
    assert [image.get("v") for image in images] == ["21", None, "30", "11"]
    # A virtual column is in no message.
    assert images[1] == {"a": "1", "w": "3"}
    assert json.loads(fetched[2].observed or "") == {"a": "int(11) not null", "w": "int(11)"}
    assert spy.read == [first, second, second]
    assert len(spy.sent) == 6


def test_what_upstream_cannot_show_keeps_its_key_with_the_reason(server: Tidb) -> None:
    server.run(
        *("USE large", "CREATE TABLE u (id int PRIMARY KEY, other int, at datetime)"),
        "INSERT INTO u VALUES (1, 5, NULL), (2, 5, NULL)",
        "CREATE TABLE indexed (id int PRIMARY KEY, other int, KEY (other))",
        "INSERT INTO indexed VALUES (1, 5), (2, 5)",
    )
    ts = server.now()
    both = "2024-01-01 00:00:00|2024-01-01 01:00:00"
    cases = [
        ("u", {"id": "3"}, NOT_FOUND),
        ("u", {"other": "5"}, "no index has the columns of its key: other"),
        ("u", {"no` such": "5"}, "the table has other columns at this commit ts"),
        ("u", {}, "the message states no key"),
        ("u", {"id": "1 OR 1=1"}, "'1 OR 1=1' is not a int"),
        ("u", {"id": None}, "lacks a value of the key"),
        ("u", {"id": "1", "at": both}, "not a"),
        ("indexed", {"other": "5"}, NOT_UNIQUE),
        ("u'; DROP TABLE u; --", {"id": "1"}, "doesn't exist"),
        ("u" * 65, {"id": "1"}, "not the name of a table"),
        ("u\0", {"id": "1"}, "not the name of a table"),
    ]
    for table, key, reason in cases:
        # A row that can be fetched is, beside one that cannot.
        change, good = key_only(table, key, ts), key_only("u", {"id": "1"}, ts)
        one, other = ask(UpstreamSpy(server), [change, good])
        assert reason in (one.upstream or ""), one
        assert (one.after, one.handle_key_only) == (change.after, True)
        assert other.upstream == FETCHED
    broken = replace(key_only("u", {"id": "1"}, ts), after="{")
    (one,) = ask(UpstreamSpy(server), [broken])
    assert one.handle_key_only
    assert one.upstream


def test_rows_of_which_tidb_keeps_no_more_or_not_yet_anything_keep_their_key(server: Tidb) -> None:
    server.run("USE large", "CREATE TABLE old (id int PRIMARY KEY, v int)")
    gone = server.commit("INSERT INTO large.old VALUES (1, 1)")
    kept = server.commit("UPDATE large.old SET v = 2")
    to_come = kept + (3_600_000 << 18)
    with server.collect_garbage(kept):
        found = ask(
            UpstreamSpy(server),
            [key_only("old", {"id": "1"}, ts) for ts in (gone, server.now(), to_come)],
        )
    old, fetched, future = found
    assert "no longer keeps what it held: raise tidb_gc_life_time" in (old.upstream or "")
    assert load(fetched.after or "") == {"id": "1", "v": "2"}
    assert "future" in (future.upstream or "")
    assert [each.handle_key_only for each in found] == [True, False, True]


def test_rows_that_upstream_has_otherwise_are_not_fetched() -> None:
    feed = dataclasses.replace(FEED, may_lack_columns=True)
    key = key_only("u", {"id": "1"}, 5)

    def open_upstream() -> NoReturn:
        raise AssertionError

    with ExitStack() as connections:
        large_rows = LargeRows(feed, open_upstream, connections)
        (completed,) = large_rows.complete([Arrival(1, 1, 0, key)])
    assert completed.event == replace(key, upstream=OTHER_COLUMNS)


def test_only_tidb_is_read(mariadb: MariaDb) -> None:
    spy = UpstreamSpy(mariadb)
    (one,) = ask(spy, [key_only("u", {"id": "1"}, 5)])
    assert (one.upstream, spy.read, spy.sent) == (NOT_TIDB, [], [])
    with UpstreamDatabase("f", mariadb.upstream).open_rows() as rows:
        assert not rows.is_tidb
        with pytest.raises(RowsUnreadable, match="syntax"):
            rows.query("SELECT * FROM large.a WHERE")
        with pytest.raises(ConfigError, match="denied"):
            rows.query("INSERT INTO mysql.user VALUES ()")
        assert rows.query("SELECT '100%'") == ((b"100%",),)
        assert rows.query("SELECT '100%%', %s", ["it's \\ %s"]) == ((b"100%", b"it's \\ %s"),)
