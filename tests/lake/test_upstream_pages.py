"""Every row of a table upstream is read once, page by page, whatever its key is."""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

import pytest

from tests.lake.upstream_copy import read_schema
from tests.mariadb_server import MariaDb
from tests.sql_server import SqlServer
from tests.tidb_server import Tidb
from ticdc_assets.load import upstream_pages
from ticdc_assets.load.upstream_pages import PageReader
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.upstream.snapshot import Reader, Row

PAGE = 7
# Equal but for case or accents where the collation says so; quotes, and bytes that look like SQL.
WORDS = ["", "a", "B", "c'", "D\\", "é", "f\0", "Ü", "z%", "日", "😀", "a a", "a b", "ß", "x" * 30]
INTS = [-(1 << 63), -1, 0, 1, 2, 3, 5, 8, 13, 21, (1 << 63) - 1]


@dataclass(frozen=True)
class Keyed:
    """A table, its rows in SQL, and the number of its pages."""

    ddl: str
    rows: Sequence[str]
    pages: int


def quote(word: str) -> str:
    return f"CONVERT(X'{word.encode().hex()}' USING utf8mb4)"


LATIN = [word for word in WORDS if all(ord(letter) < 256 for letter in word)]
# Between these, a nullable column with texts.
TABLES = {
    "ints": Keyed("id bigint PRIMARY KEY, v int", [f"{n}, 1" for n in INTS], 2),
    "positive": Keyed(
        "id int unsigned zerofill, v int, PRIMARY KEY (id)", [f"{n}, 2" for n in range(21)], 4
    ),
    "decimals": Keyed(
        "id decimal(30,3) PRIMARY KEY", [f"{n}.{n % 10:03}" for n in range(-10, 11)], 4
    ),
    "words": Keyed(
        "w varchar(40) COLLATE utf8mb4_bin PRIMARY KEY, v int",
        [f"{quote(word)}, {n}" for n, word in enumerate(WORDS)],
        3,
    ),
    "folded": Keyed(
        "w char(40) COLLATE utf8mb4_general_ci, n int, PRIMARY KEY (w, n)",
        [f"{quote(w)}, {n}" for w in (*WORDS[:6], "x") for n in range(6)],
        7,
    ),
    "latin": Keyed(
        "v int, w varchar(40) CHARACTER SET latin1 COLLATE latin1_swedish_ci PRIMARY KEY",
        [f"{n}, {quote(word)}" for n, word in enumerate(LATIN)],
        2,
    ),
    "bytes": Keyed(
        "b varbinary(40), c binary(4), PRIMARY KEY (b, c)",
        [f"X'{word.encode().hex()}', X'0{n}'" for word in WORDS for n in (0, 5)],
        5,
    ),
    "by_unique": Keyed(
        "v int, b int NOT NULL, a int NOT NULL, UNIQUE (a, b), UNIQUE (v)",
        [f"NULL, {n % 4}, {n // 4}" for n in range(20)],
        3,
    ),
    "beginnings": Keyed(
        "w varchar(40), PRIMARY KEY (w(3))", [quote(f"{n:03}x") for n in range(20)], 1
    ),
    "days": Keyed(
        "d date PRIMARY KEY", [f"'2024-0{m}-0{d}'" for m in range(4) for d in range(4)], 1
    ),
    "keyless": Keyed("v int, w varchar(40)", [f"{n % 3}, 'x'" for n in range(20)], 1),
    "parts": Keyed(
        "id int PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION `p``1` VALUES LESS THAN (9),"
        " PARTITION p2 VALUES LESS THAN (10), PARTITION p3 VALUES LESS THAN MAXVALUE",
        [f"{n}" for n in range(30) if n != 9],
        2 + 3,
    ),
    "empty": Keyed("id int PRIMARY KEY", [], 0),
}


@pytest.fixture(scope="module")
def server(mariadb: MariaDb) -> MariaDb:
    mariadb.run("CREATE OR REPLACE DATABASE pages CHARACTER SET utf8mb4", "USE pages")
    for name, table in TABLES.items():
        mariadb.run("USE pages", f"CREATE TABLE {name} ({table.ddl})")
        if table.rows:
            values = ", ".join(f"({row})" for row in table.rows)
            mariadb.run("USE pages", f"INSERT INTO {name} VALUES {values}")
    return mariadb


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_pages, "_ROWS_PER_PAGE", PAGE)


@dataclass
class Spy:
    """A connection that keeps its queries."""

    reader: Reader
    queries: list[str] = field(default_factory=list)

    def query(self, sql: str) -> Sequence[Row]:
        return self.reader.query(sql)

    def stream(self, sql: str) -> Generator[Sequence[Row]]:
        self.queries.append(sql)
        return self.reader.stream(sql)

    def renew(self) -> None: ...


@contextmanager
def open_spy(server: SqlServer, ts: int | None = 1) -> Iterator[Spy]:
    with (
        UpstreamDatabase("f", server.upstream).open_snapshot(ts) as snapshot,
        snapshot.borrow() as reader,
    ):
        yield Spy(reader)


def read_texts(spy: Spy, name: str, *, is_tidb: bool = False) -> Counter[tuple[str | None, ...]]:
    schema = read_schema("pages", f"CREATE TABLE {name} ({TABLES[name].ddl})")
    pages = PageReader(spy, schema, is_tidb=is_tidb).read()
    columns = len(schema.columns)
    return Counter(
        chain.from_iterable(
            zip(*(batch.column(f"c{n}").to_pylist() for n in range(columns)), strict=True)
            for _, batch in pages
        )
    )


def read_truth(server: SqlServer, name: str) -> Counter[tuple[str | None, ...]]:
    """Read what the server prints, in one query."""
    hidden = {"b": "TO_BASE64(b)", "c": "TO_BASE64(c)"} if name == "bytes" else {}
    (ddl,) = server.run(f"SHOW CREATE TABLE pages.{name}")
    names = [column.name for column in read_schema("pages", ddl[1]).columns]
    listed = ", ".join(hidden.get(column, f"`{column}`") for column in names)
    rows = server.run(f"SELECT {listed} FROM pages.{name}")
    return Counter(tuple(None if v is None else str(v) for v in row) for row in rows)


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_read_once(server: MariaDb, name: str) -> None:
    with open_spy(server) as spy:
        found = read_texts(spy, name)
    assert found == read_truth(server, name)
    assert found.total() == len(TABLES[name].rows)
    # A page that is full may be the last one.
    assert len(spy.queries) in (TABLES[name].pages, TABLES[name].pages + 1)


@pytest.fixture(scope="module")
def real_tidb(tidb: Tidb) -> Tidb:
    tidb.run("CREATE DATABASE pages CHARACTER SET utf8mb4")
    for name, table in TABLES.items():
        ddl = table.ddl.replace("latin1_swedish_ci", "latin1_bin")
        values = ", ".join(f"({row})" for row in table.rows)
        tidb.run(
            *("USE pages", f"CREATE TABLE {name} ({ddl})"),
            *([f"INSERT INTO {name} VALUES {values}"] if values else []),
        )
    return tidb


# Its rows are stored by a key that SQL does not compare exactly with a literal.
UNORDERED = ("beginnings", "days")


@pytest.mark.parametrize("name", TABLES)
def test_tidb_reads_every_row_once_by_what_its_rows_are_stored_by(
    real_tidb: Tidb, name: str
) -> None:
    with open_spy(real_tidb, None) as spy:
        found = read_texts(spy, name, is_tidb=True)
    assert found == read_truth(real_tidb, name)
    assert found.total() == len(TABLES[name].rows)
    assert (len(spy.queries) == 1) == (found.total() < PAGE or name in UNORDERED)
    by_number = name in ("by_unique", "keyless")
    for number, query in enumerate(spy.queries):
        assert ("_tidb_rowid" in query) == by_number
        plan = real_tidb.run(f"EXPLAIN {query}")
        # No page sorts rows, and none reads those of the pages before it.
        assert not [step for step, *_ in plan if "Sort" in step or "TopN" in step], plan
        if number and f"WHERE `pages`.`{name}`" in query:
            assert any("RangeScan" in step for step, *_ in plan), plan


def test_a_page_is_found_by_the_index(server: MariaDb) -> None:
    with open_spy(server) as spy:
        read_texts(spy, "folded")
    for query in spy.queries[1:]:
        (plan,) = server.run(f"EXPLAIN {query}")
        assert plan[3] == "range", plan
        assert "filesort" not in plan[-1], plan


def test_bytes_that_are_not_utf_8_are_escaped() -> None:
    schema = read_schema("d", "CREATE TABLE t (id int, t text, b blob)")

    class Fake:
        """A server that keeps what it gets."""

        def query(self, sql: str) -> Sequence[Row]:
            return []

        def stream(self, sql: str) -> Generator[Sequence[Row]]:
            yield [(b"1", b"caf\xe9\\", b"\xff"), (b"2", None, None)]

        def renew(self) -> None: ...

    ((page, batch),) = PageReader(Fake(), schema, is_tidb=False).read()
    assert str(page) == "all rows"
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (0, None, None, True, "1", "caf\\xe9\\x5c", "/w=="),
        (1, None, None, False, "2", None, None),
    ]
