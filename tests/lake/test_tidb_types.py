"""Every type and collation of a real TiDB: loads, `verify` and partition DDL have the same rows."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.lake.test_load import read_rows
from tests.lake.test_verify_types import ALL_TYPES, FILLED, ROWS
from tests.lake.tidb_feed import TidbFeed, TidbLake, read_truth
from tests.lake.upstream_copy import UpstreamCopy, read_schema
from tests.schema.partition.test_tidb_collations import COLLATIONS
from tests.tidb_server import Tidb
from ticdc_assets.load import upstream_pages
from ticdc_assets.log.loads import read_loads
from ticdc_assets.store.reader import LakeReader

MORE_TYPES = """CREATE TABLE `more types` (
    id varchar(40) NOT NULL PRIMARY KEY NONCLUSTERED, a boolean, b decimal(65,0) unsigned,
    c decimal(30,30), d double unsigned, e float(7,3), f bit(63), g char(0), h char(255),
    i varchar(255) CHARACTER SET ascii, j tinytext, k mediumtext CHARACTER SET latin1, l tinyblob,
    m mediumblob, n binary(255), o varbinary(255), p year(4), q time(3), r datetime(1),
    s timestamp(6) NULL, t enum('','a,b','0','中') CHARACTER SET gbk,
    u set('a','B','中 文','1'), v json, w bigint(20) unsigned zerofill, x mediumint unsigned,
    y text COLLATE utf8mb4_0900_ai_ci, z smallint(3) zerofill,
    `stored` varchar(60) AS (CONCAT(id, '%')) STORED, `hidden` int AS (a + 1)
) CHARACTER SET utf8mb4"""
ODD_JSON = (
    """'{"z": [1, -0.0, 1e300, 18446744073709551615, -9223372036854775808], "a": "é\\\\u0000",
        "": null, "nested": {"k": [[], {}, true, "\\\\"quoted\\\\\\\\"]}}'""",
    "CAST(CAST('2024-02-29 12:00:00.5' AS datetime(6)) AS json)",
    "JSON_OBJECT('bytes', CAST(X'00FF' AS binary), 'time', CAST('-12:00:00' AS time))",
    "CAST(12345678901234567890.1234567890 AS json)",
)
MORE_ROWS = f"""
    ('low', 0, 0, -0.{"9" * 30}, 0, -9999.999, 0, '', '', '', '', '', '', '', '', '', 0,
     '-838:59:59', '0000-00-00', NULL, '', '', {ODD_JSON[0]}, 0, 0, '', 0),
    ('high', 1, {"9" * 65}, 0.{"9" * 30}, 1.7976931348623157e308, 9999.999, {2**63 - 1}, '',
     REPEAT('😀', 255), REPEAT('~', 255), REPEAT('é', 127), REPEAT('ÿ', 70000), REPEAT(X'FF', 255),
     REPEAT(X'00', 70000), REPEAT(X'FF', 255), REPEAT(X'27', 255), 2155, '838:59:59',
     '9999-12-31 23:59:59.9', '2038-01-19 03:14:07.999999', '中', 'a,B,中 文,1', {ODD_JSON[1]},
     18446744073709551615, 16777215, 'ǕBER ', 32767),
    ('ta\\tb', 1, 1, 1e-30, 5e-324, 0.001, 1, NULL, 'x ', 'x ', ' ', 'line\\nbreak', X'0A0D', X'5C',
     X'20', X'20', 1901, '00:00:00.001', '0001-01-01 00:00:00.1', '1970-01-01 00:00:01', '0', 'B',
     {ODD_JSON[2]}, 1, 1, NULL, 7),
    ('Ta\\tB', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, {ODD_JSON[3]}, NULL, NULL, NULL, NULL)"""
MORE_FILLED = ", ".join("abcdefghijklmnopqrstuvwxyz")
# What no two collations put into the same order, or take for the same.
WORDS = ["", "a", "A", "a ", "á", "B", "b", "ss", "ß", "é", "É", "z", "Z", "[", "\\", "]"]
WORDS += ["~", "y", "_", "^", "0", "9", "%", "'", "t\t", "h", "H", "中", "国"]
# Of which the lake does not know what a partition by KEY hashes.
UNHASHED = ("utf8_unicode_ci", "utf8mb4_unicode_ci", "utf8mb4_0900_ai_ci", "gbk_chinese_ci")
PARTITIONS = {
    "ranged": "RANGE COLUMNS (w) (PARTITION p0 VALUES LESS THAN ('B'), PARTITION p1 VALUES LESS"
    " THAN ('h'), PARTITION p2 VALUES LESS THAN (MAXVALUE))",
    "listed": "LIST COLUMNS (w) (PARTITION p0 VALUES IN ('y', 'b'), PARTITION p1 VALUES IN ('A',"
    " '[', 'H'))",
    "hashed": "KEY (w) PARTITIONS 3",
}


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path, tidb: Tidb) -> TidbLake:
    tidb.run("DROP DATABASE IF EXISTS types", "CREATE DATABASE types CHARACTER SET utf8mb4")
    feed = TidbFeed(tidb, "types")
    return TidbLake.make(feed, tmp_path / "lake", partial(request.getfixturevalue, "spark"))


def test_all_types_of_a_tidb_come_as_they_are_upstream(
    tidb: Tidb, lake: TidbLake, tmp_path: Path
) -> None:
    """Compared with rows that come another way, as images of events; and by `verify`."""
    tidb.run(
        "USE types",
        *(ALL_TYPES, f"INSERT INTO `all types` (id, {FILLED}) VALUES {ROWS}"),
        *(MORE_TYPES, f"INSERT INTO `more types` (id, {MORE_FILLED}) VALUES {MORE_ROWS}"),
    )
    results = lake.load()
    assert {name: (r.outcome, r.rows, r.quarantined) for name, r in results.items()} == {
        "types.all types": ("loaded", 4, 0),
        "types.more types": ("loaded", 4, 0),
    }
    copy = UpstreamCopy.make(None, tmp_path / "copy", tidb)
    for load in read_loads(LakeReader(lake.session.location)):
        ddl = ALL_TYPES if load.schema.table == "all types" else MORE_TYPES
        copy.copy(read_schema("types", ddl))
        copied = replace(load, incarnation=f"{load.schema.table}-1", version=0)
        loaded, expected = read_rows(lake.session, load), read_rows(copy.lake, copied)
        assert Counter(map(repr, loaded)) == Counter(map(repr, expected))

    assert lake.advance(tidb.now()) == []
    for found in lake.verify().values():
        assert (found.verdict, found.upstream_rows, found.left_out) == ("equal", 4, ())


@pytest.mark.parametrize("kinds", [1, pytest.param(3, marks=pytest.mark.all_cases)])
def test_keys_and_partitions_of_each_collation_are_as_on_the_server(
    tidb: Tidb, lake: TidbLake, monkeypatch: pytest.MonkeyPatch, kinds: int
) -> None:
    monkeypatch.setattr(upstream_pages, "_ROWS_PER_PAGE", 3)
    tables = {
        f"{kind}_{collation}": _declare(collation, PARTITIONS[kind])
        for number, collation in enumerate(COLLATIONS)
        for kind in [*PARTITIONS, *PARTITIONS][number % 3 :][:kinds]
    }
    tidb.run("USE types", *(f"CREATE TABLE {name} {ddl}" for name, ddl in tables.items()))
    for name in tables:
        fitting = WORDS[:-2] if "latin1" in name else WORDS
        if "ascii" in name or "gbk_chinese" in name:
            # The order of Chinese characters is a limit of the lake.
            fitting = [word for word in WORDS if word.isascii()]
        # Of words that are one key, the first one stays; a list has no partition for some.
        rows = ", ".join(["(%s, 1)"] * len(fitting))
        tidb.run((f"INSERT IGNORE INTO types.{name} VALUES {rows}", fitting))

    results, start = lake.load(), tidb.now()
    assert {result.outcome for result in results.values()} == {"loaded"}
    loaded = lake.read_loaded()
    for name in tables:
        ts, rows = loaded[name]
        assert rows == read_truth(lake.feed, name, ts), name
    assert lake.advance(start) == []
    assert {found.verdict for found in lake.verify().values()} == {"equal"}

    for name in tables:
        sql = f"ALTER TABLE {name} TRUNCATE PARTITION p1"
        lake.feed.alter(name, "ALTER", sql)
    until = tidb.now()
    stopped = lake.advance(until)
    hidden = {name for name in tables if name.startswith("hashed") and name[7:] in UNHASHED}
    assert {problem.partition(",")[0] for problem in stopped} == {
        f"paused: types.{name}" for name in hidden
    }
    shown = lake.show()
    for name in set(tables) - hidden:
        assert shown[name] == read_truth(lake.feed, name, until), name
        assert len(shown[name]) < len(loaded[name][1]), name


def _declare(collation: str, clause: str) -> str:
    charset = collation.partition("_")[0]
    type = f"varchar(20) CHARACTER SET {charset} COLLATE {collation}"
    column = "varbinary(20)" if charset == "binary" else type
    return f"(w {column} NOT NULL, n int, PRIMARY KEY (w)) PARTITION BY {clause}"
