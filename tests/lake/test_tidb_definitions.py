"""How a real TiDB defines tables older than their changefeed, and what lakes make of it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.lake.tidb_feed import TidbFeed, TidbLake, busy, read_truth
from tests.tidb_server import Tidb
from ticdc_assets.errors import TicdcError
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.log.definitions import read_definitions
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.upstream.definition import read_definition_at
from ticdc_assets.upstream.snapshot import RowsUnreadable

# Each with the key by which TiCDC sends its rows.
DEFINED: Mapping[str, tuple[str, Sequence[str]]] = {
    "defaults": (
        """(id bigint AUTO_RANDOM(3) PRIMARY KEY, a varchar(20) NOT NULL DEFAULT 'it''s \\\\ "x"',
        b decimal(10,2) unsigned DEFAULT 1.50, c timestamp(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON
        UPDATE CURRENT_TIMESTAMP(3), d bit(9) DEFAULT b'100000001', e enum('a','b''c') DEFAULT
        'b''c', f set('x','y') DEFAULT 'x,y', g varbinary(9) DEFAULT X'00FF', h json, i date DEFAULT
        '0000-00-00', j double DEFAULT -1.5e-7, k varchar(36) DEFAULT (UUID()), l year DEFAULT 2000,
        m int(5) zerofill DEFAULT 7, n tinyint(1) NOT NULL DEFAULT TRUE, o time(2) DEFAULT
        '-12:00:00.25', p datetime DEFAULT NULL, q char(9) COLLATE utf8mb4_unicode_ci DEFAULT '')
        COMMENT = 'it''s; -- a table' AUTO_INCREMENT = 500 TTL = p + INTERVAL 3 MONTH TTL_ENABLE =
        'OFF'""",
        ["id"],
    ),
    "generated": (
        """(a int, b varchar(9) AS (CONCAT('x', a, '`')) STORED NOT NULL, c int AS (a + 1) VIRTUAL,
        d json, e int AS (JSON_EXTRACT(d, '$.k')) VIRTUAL, f varchar(20) AS (JSON_UNQUOTE(d))
        STORED, UNIQUE KEY u (b), UNIQUE KEY v (c), KEY w (e))""",
        ["b"],
    ),
    "expressions": (
        """(a int NOT NULL, b varchar(20), c int NOT NULL, UNIQUE KEY e ((a + c)), KEY f
        ((LOWER(b)), a), UNIQUE KEY g (c, a), KEY h (b(3)), CHECK (a > 0))""",
        ["c", "a"],
    ),
    "unseen": (
        """(a int NOT NULL, b int NOT NULL, c int, KEY i (b) INVISIBLE, UNIQUE KEY j (c) INVISIBLE,
        UNIQUE KEY k (b))""",
        ["b"],
    ),
    "keyless": ("(a int, b varchar(20), UNIQUE KEY (a))", []),
    "unclustered": (
        "(b varchar(20) COLLATE utf8mb4_general_ci, a int, PRIMARY KEY (b, a) NONCLUSTERED)"
        " SHARD_ROW_ID_BITS = 4 PRE_SPLIT_REGIONS = 2 CHARSET = ascii",
        ["b", "a"],
    ),
    "Spelled`%": ('(`Id\\"` int PRIMARY KEY, `select` varchar(9) CHARACTER SET gbk)', ['Id\\"']),
    "child": (
        "(id int PRIMARY KEY, u int NOT NULL, FOREIGN KEY f (u) REFERENCES unseen (b))",
        ["id"],
    ),
    "ranged": (
        """(id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (TO_DAYS(day)) (PARTITION p0
        VALUES LESS THAN (TO_DAYS('2024-01-01')) COMMENT = 'old', PARTITION `p%1` VALUES LESS THAN
        (MAXVALUE))""",
        ["id", "day"],
    ),
    "listed": (
        """(id int, v varchar(9), PRIMARY KEY (id, v)) PARTITION BY LIST COLUMNS (id, v) (PARTITION
        a VALUES IN ((1, 'x'), (2, 'y''z')), PARTITION b VALUES IN ((3, '')), PARTITION c
        DEFAULT)""",
        ["id", "v"],
    ),
    "hashed": ("(id int PRIMARY KEY) PARTITION BY HASH (id MOD 7) PARTITIONS 5", ["id"]),
    "keyed": ("(v varchar(9), UNIQUE KEY (v)) PARTITION BY KEY (v) PARTITIONS 3", []),
    "monthly": (
        """(id datetime PRIMARY KEY) PARTITION BY RANGE COLUMNS (id) INTERVAL (1 MONTH) FIRST
        PARTITION LESS THAN ('2024-01-01') LAST PARTITION LESS THAN ('2024-04-01')""",
        ["id"],
    ),
}


@pytest.fixture
def server(tidb: Tidb) -> Tidb:
    tidb.run(
        *("DROP DATABASE IF EXISTS defined", "CREATE DATABASE defined COLLATE utf8mb4_bin"),
        "USE defined",
        *(f"CREATE TABLE `{name.replace('`', '``')}` {ddl}" for name, (ddl, _) in DEFINED.items()),
        "CREATE VIEW seen AS SELECT 1 AS id",
        "CREATE SEQUENCE numbers",
    )
    return tidb


def test_a_definition_is_what_the_server_lists_of_columns_keys_and_partitions(
    server: Tidb, tmp_path: Path
) -> None:
    ts = server.now()
    listed = {
        name: _list(server, ts, query)
        for name, query in {
            "columns": """SELECT table_name, column_name, data_type, column_type, is_nullable,
                character_maximum_length, numeric_precision, numeric_scale, datetime_precision,
                collation_name, extra FROM information_schema.columns WHERE table_schema = 'defined'
                ORDER BY ordinal_position""",
            "keys": """SELECT table_name, index_name, non_unique, column_name FROM
                information_schema.statistics WHERE table_schema = 'defined'
                ORDER BY index_name, seq_in_index""",
            "partitions": """SELECT table_name, partition_name, partition_method FROM
                information_schema.partitions WHERE table_schema = 'defined' AND partition_name IS
                NOT NULL ORDER BY partition_ordinal_position""",
        }.items()
    }
    # What comes later shows in none of them.
    server.run(
        "USE defined",
        *(
            f"ALTER TABLE `{name.replace('`', '``')}` ADD COLUMN later int, COMMENT = 'new'"
            for name in DEFINED
            if name not in ("keyed", "monthly")
        ),
        "DROP TABLE keyed",
        "RENAME TABLE monthly TO yearly",
    )
    lake = TidbLake.make(TidbFeed(server, "defined"), tmp_path, lambda: None)
    with lake.database.open_rows() as rows:
        for table, (_, key) in DEFINED.items():
            schema = read_definition_at(rows, "defined", table, ts)
            described = [_describe(column) for column in schema.columns]
            assert described == [_describe_listed(row) for row in listed["columns"][table]], table
            assert list(schema.own_key) == key, table
            assert _list_keys(schema) == _list_listed_keys(listed["keys"][table]), table
            partitions = schema.partitioning.partitions if schema.partitioning else ()
            expected = [name for name, _ in listed["partitions"][table]]
            assert [each.name for each in partitions] == expected, table
        for name in ("seen", "numbers", "no such"):
            with pytest.raises((RowsUnreadable, TicdcError)):
                read_definition_at(rows, "defined", name, ts)


def _list(server: Tidb, ts: int, query: str) -> dict[str, list[Sequence[Any]]]:
    found = defaultdict(list)
    for table, *row in server.read_at(ts, query):
        found[table].append(row)
    return found


def _describe(column: Column) -> tuple[Any, ...]:
    """Describe a column as information_schema does."""
    type, kind = column.type, describe(column.type).kind
    return (
        column.name,
        type.name,
        type.unsigned,
        column.nullable,
        type.length if type.name in ("char", "varchar", "binary", "varbinary", "decimal") else None,
        (type.decimals or 0) if type.name == "decimal" or kind in ("datetime", "time") else None,
        type.collation if kind in ("text", "enum", "set") else None,
        column.generated,
    )


def _describe_listed(row: Sequence[Any]) -> tuple[Any, ...]:
    name, type, whole, nullable, length, precision, scale, places, collation, extra = row
    digits = precision if type == "decimal" else None
    fits = type in ("char", "varchar", "binary", "varbinary")
    generated = {"STORED GENERATED": "stored", "VIRTUAL GENERATED": "virtual"}
    decimals = scale if type == "decimal" else places
    return (
        name,
        type,
        "unsigned" in whole,
        nullable == "YES",
        int(length) if fits else digits and int(digits),
        None if decimals is None else int(decimals),
        collation,
        next((kind for text, kind in generated.items() if text in (extra or "")), None),
    )


def _list_keys(schema: TableSchema) -> dict[str, tuple[bool, tuple[str, ...]]]:
    return {index.name.lower(): (index.unique, index.columns) for index in schema.indexes}


def _list_listed_keys(rows: Sequence[Sequence[Any]]) -> dict[str, tuple[bool, tuple[str, ...]]]:
    """List indexes; one of expressions finds no row by its columns."""
    found: dict[str, tuple[bool, tuple[str, ...]]] = {}
    for name, non_unique, column in rows:
        unique, columns = found.get(name.lower(), (not int(non_unique), ()))
        is_column = column != "NULL"
        found[name.lower()] = (unique and is_column, (*columns, column) if is_column else columns)
    return found


# What a lake makes of them

OLDER = {
    "kept": "(id int PRIMARY KEY, v varchar(20) NOT NULL DEFAULT 'x')",
    "split": "(id int PRIMARY KEY, v varchar(20)) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS"
    " THAN (300), PARTITION p1 VALUES LESS THAN (600), PARTITION p2 VALUES LESS THAN MAXVALUE)",
    "folded": "(id int NOT NULL, v varchar(20) COLLATE utf8mb4_general_ci, UNIQUE KEY (id))"
    " PARTITION BY HASH (id) PARTITIONS 3",
    "counted": "(id int NOT NULL, v varchar(20), UNIQUE KEY k (id), KEY e ((LOWER(v))))",
}
ALTERED = [
    ("kept", "ALTER TABLE kept ADD COLUMN w int NOT NULL DEFAULT 7, MODIFY v char(9) DEFAULT 'y'"),
    ("kept", "ALTER TABLE kept ALTER COLUMN v DROP DEFAULT"),
    ("split", "ALTER TABLE split TRUNCATE PARTITION p1"),
    (
        "split",
        "ALTER TABLE split REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN (600))",
    ),
    ("folded", "ALTER TABLE folded TRUNCATE PARTITION p2"),
    ("folded", "ALTER TABLE folded COALESCE PARTITION 1"),
    ("counted", "ALTER TABLE counted DROP INDEX e"),
    ("counted", "ALTER TABLE counted CHANGE v name varchar(30)"),
]


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path, tidb: Tidb) -> TidbLake:
    tidb.run(
        *("DROP DATABASE IF EXISTS older", "CREATE DATABASE older", "USE older"),
        *(f"CREATE TABLE {name} {ddl}" for name, ddl in OLDER.items()),
    )
    start_spark = partial(request.getfixturevalue, "spark")
    return TidbLake.make(TidbFeed(tidb, "older"), tmp_path / "lake", start_spark)


@pytest.mark.parametrize("collected", [False, True], ids=["kept", "collected"])
def test_tables_that_are_older_than_the_changefeed_are_altered_as_on_the_server(
    tidb: Tidb, lake: TidbLake, collected: bool
) -> None:
    with busy(lake.feed, *OLDER):
        pass
    first = tidb.now()
    if collected:
        # What precedes the first row is gone: then the definition of a later ts will do.
        with tidb.collect_garbage(first):
            assert lake.advance(first) == []
        assert read_definitions(LakeReader(lake.session.location)) == []
    for table, sql in ALTERED:
        lake.feed.alter(table, "ALTER", sql)
    until = tidb.now()
    # In a name of its own, a table says nothing of what it was.
    tidb.run("USE older", "DROP TABLE kept", "RENAME TABLE split TO united")
    with tidb.collect_garbage(first if collected else first - (3_600_000 << 18)):
        assert lake.advance(until) == []
    found = read_definitions(LakeReader(lake.session.location))
    assert {definition.schema.table for definition in found} == set(OLDER)
    assert all((definition.ts == first) == collected for definition in found)
    assert lake.show() == {table: read_truth(lake.feed, table, until) for table in OLDER}
