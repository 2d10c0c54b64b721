"""Rows read from a real MariaDB by their keys are those that its own texts show."""

import dataclasses
import json
from contextlib import ExitStack
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from tests.lake.fake_tidb import FakeTidb
from tests.lake.test_verify_types import ALL_TYPES, FILLED, ROWS
from tests.lake.upstream_copy import FEED, Image, read_images, read_schema
from tests.mariadb_server import MariaDb
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import FETCHED, Op, RowChange, TableSchema, TopicPosition
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.lake.events.event_rows import Arrival
from ticdc_assets.lake.events.large_rows import (
    NOT_FOUND,
    NOT_TIDB,
    NOT_UNIQUE,
    OTHER_COLUMNS,
    LargeRows,
)
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.upstream.snapshot import RowsUnreadable
from ticdc_assets.upstream.sql import quote

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
    "enum": ("enum('a','2','é''x')", ["a", "2", "é'x"]),
    "set": ("set('x','y','1')", ["", "x,1", "1"]),
}


def make_database(mariadb: MariaDb) -> None:
    mariadb.run("CREATE DATABASE IF NOT EXISTS large CHARACTER SET utf8mb4")


def ask(fake: FakeTidb, changes: list[RowChange]) -> list[RowChange]:
    arrivals = [Arrival(1, seq, 0, change) for seq, change in enumerate(changes)]
    with ExitStack() as connections:
        large_rows = LargeRows(FEED, fake.open, connections)
        completed = large_rows.complete(arrivals)
    for before, after in zip(arrivals, completed, strict=True):
        assert replace(after, event=before.event) == before
    return [arrival.event for arrival in completed if isinstance(arrival.event, RowChange)]


def key_only(table: str, image: Image, ts: int = 5, op: Op = Op.INSERT, **fields: Any) -> RowChange:
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


def test_a_row_of_all_types_is_the_row_that_the_server_shows(mariadb: MariaDb) -> None:
    make_database(mariadb)
    mariadb.run("USE large", ALL_TYPES, f"INSERT INTO `all types` (id, {FILLED}) VALUES {ROWS}")
    schema = read_schema("large", ALL_TYPES)
    images = read_images(mariadb, schema)

    fetched = ask(
        FakeTidb(mariadb), [key_only("all types", {"id": image["id"]}) for image in images]
    )

    read = RowReader(schema)
    assert len(fetched) == 4
    for change, image in zip(fetched, images, strict=True):
        assert (change.upstream, change.handle_key_only) == (FETCHED, False)
        assert read(change.after or "") == read(dump(enumerate_members(image, schema)))


@pytest.mark.parametrize("kind", KEYS)
def test_rows_are_found_by_a_key_of_any_type(mariadb: MariaDb, kind: str) -> None:
    make_database(mariadb)
    type, values = KEYS[kind]
    name = f"%k`{kind} %s"
    ddl = f"CREATE TABLE {quote(name)} ({quote(name)} {type} NOT NULL, n int, PRIMARY KEY"
    ddl += f" ({quote(name)}))"
    insert = f"INSERT INTO {quote(name).replace('%', '%%')} VALUES (%s, %s)"
    mariadb.run(
        "USE large", ddl, *[(insert, pair) for pair in zip(values, range(len(values)), strict=True)]
    )
    schema = read_schema("large", ddl)
    images = [enumerate_members(image, schema) for image in read_images(mariadb, schema)]
    assert sorted(int(image["n"] or "") for image in images) == list(range(len(values)))

    fake = FakeTidb(mariadb)
    fetched = ask(fake, [key_only(name, {name: image[name]}) for image in images])

    assert [change.upstream for change in fetched] == [FETCHED] * len(images)
    read = RowReader(schema)
    for change, image in zip(fetched, images, strict=True):
        assert read(change.after or "") == read(dump(image))
    # One connection; the columns of the table, and one query for all keys.
    assert (fake.connections, fake.read, len(fake.sent)) == (1, [5], 2)


def test_rows_are_grouped_by_table_and_commit_ts_and_others_stay_as_they_are(
    mariadb: MariaDb,
) -> None:
    make_database(mariadb)
    mariadb.run(
        *("USE large", "CREATE TABLE g (a int, b varchar(9), v int, PRIMARY KEY (a, b))"),
        "CREATE TABLE h (a int PRIMARY KEY, v int AS (a + 1) VIRTUAL, w int AS (a + 2) STORED)",
        "INSERT INTO g VALUES (1, 'x', 10), (1, 'y', 20), (2, 'x', 30)",
        "INSERT INTO h (a) VALUES (1)",
    )
    whole = RowChange(
        op=Op.INSERT,
        commit_ts=9,
        database="large",
        table="g",
        position=TopicPosition("t", 0, 0),
        after='{"a":"7"}',
    )
    removed = key_only("g", {"a": "1", "b": "x"}, 8, Op.DELETE)
    fake = FakeTidb(mariadb)
    fetched = ask(
        fake,
        [
            key_only("g", {"a": "1", "b": "y"}, 9),
            whole,
            key_only("h", {"A": "1"}, 9, observed='{"a":"int not null"}', key_columns=("a",)),
            removed,
            key_only("g", {"b": "x", "a": "2"}, 7),
            key_only("g", {"b": "x", "a": "1"}, 9),
        ],
    )
    assert fetched[1] is whole
    assert fetched[3] is removed
    images = [load(fetched[place].after or "") for place in (0, 2, 4, 5)]
    assert [image.get("v") for image in images] == ["20", None, "30", "10"]
    # A virtual column is in no message.
    assert images[1] == {"a": "1", "w": "3"}
    assert json.loads(fetched[2].observed or "") == {"a": "int(11) not null", "w": "int(11)"}
    assert fake.read == [7, 9, 9]
    assert len(fake.sent) == 6


def test_what_upstream_cannot_show_keeps_its_key_with_the_reason(mariadb: MariaDb) -> None:
    make_database(mariadb)
    mariadb.run(
        *("USE large", "CREATE TABLE u (id int PRIMARY KEY, other int, at datetime)"),
        "INSERT INTO u VALUES (1, 5, NULL), (2, 5, NULL)",
        "CREATE TABLE indexed (id int PRIMARY KEY, other int, KEY (other))",
        "INSERT INTO indexed VALUES (1, 5), (2, 5)",
    )
    cases = [
        (key_only("u", {"id": "3"}), NOT_FOUND),
        (key_only("u", {"other": "5"}), "no index has the columns of its key: other"),
        (key_only("u", {"no` such": "5"}), "the table has other columns at this commit ts"),
        (key_only("u", {}), "the message states no key"),
        (key_only("u", {"id": "1 OR 1=1"}), "'1 OR 1=1' is not a int"),
        (key_only("u", {"id": None}), "lacks a value of the key"),
        (key_only("u", {"id": "1", "at": "2024-01-01 00:00:00|2024-01-01 01:00:00"}), "not a"),
        (key_only("indexed", {"other": "5"}), NOT_UNIQUE),
        (key_only("u'; DROP TABLE u; --", {"id": "1"}), "doesn't exist"),
        (key_only("u" * 65, {"id": "1"}), "not the name of a table"),
        (key_only("u\0", {"id": "1"}), "not the name of a table"),
    ]
    for change, reason in cases:
        # A row that can be fetched is, beside one that cannot.
        good = key_only("u", {"id": "1"})
        one, other = ask(FakeTidb(mariadb), [change, good])
        assert reason in (one.upstream or ""), one
        assert (one.after, one.handle_key_only) == (change.after, True)
        assert other.upstream == FETCHED
    broken = replace(key_only("u", {"id": "1"}), after="{")
    (one,) = ask(FakeTidb(mariadb), [broken])
    assert one.handle_key_only
    assert one.upstream


def test_rows_that_upstream_has_otherwise_are_not_fetched() -> None:
    feed = dataclasses.replace(FEED, may_lack_columns=True)
    arrival = Arrival(1, 1, 0, key_only("u", {"id": "1"}))

    def open_upstream() -> NoReturn:
        raise AssertionError

    with ExitStack() as connections:
        large_rows = LargeRows(feed, open_upstream, connections)
        (completed,) = large_rows.complete([arrival])
    assert isinstance(completed.event, RowChange)
    assert completed.event == replace(key_only("u", {"id": "1"}), upstream=OTHER_COLUMNS)


def test_only_tidb_is_read(mariadb: MariaDb) -> None:
    fake = FakeTidb(mariadb, is_tidb=False)
    (one,) = ask(fake, [key_only("u", {"id": "1"})])
    assert (one.upstream, fake.read, fake.sent) == (NOT_TIDB, [], [])
    with UpstreamDatabase("f", mariadb.upstream).open_rows() as rows:
        assert not rows.is_tidb
        with pytest.raises(RowsUnreadable, match="syntax"):
            rows.query("SELECT * FROM large.a WHERE")
        with pytest.raises(ConfigError, match="denied"):
            rows.query("INSERT INTO mysql.user VALUES ()")
        assert rows.query("SELECT '100%'") == ((b"100%",),)
        assert rows.query("SELECT '100%%', %s", ["it's \\ %s"]) == ((b"100%", b"it's \\ %s"),)
