"""Statements for other engines: no name breaks out of its quotes, and every URI is the engine's."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
import sqlglot
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile_names import NAMES
from tests.lake.readers import open_query
from ticdc_assets.cli.engines import ENGINES, READERS
from ticdc_assets.cli.statements import ListedTable, write_statements
from ticdc_assets.errors import ConfigError
from ticdc_assets.plan.state import name_address
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.texts import replace_surrogates

STORES = {"athena": "s3a://b/lake", "redshift": "s3a://b/lake", "bigquery": "gs://b/lake"}
# What no name may hold in a comment, for clients that split statements themselves.
HARMFUL = re.compile(r"[\n\r;'\"`]")
DIALECTS = {"fabric": "tsql"}


def lake_for(engine: str) -> Lake:
    return Lake(STORES.get(engine, "s3a://b/lake"), "f")


def write(engine: str, *tables: ListedTable, lake: Lake | None = None) -> list[str]:
    return list(write_statements(engine, lake or lake_for(engine), tables))


def read_tokens(engine: str, lines: list[str]) -> list[tuple[str, str]]:
    # It takes what follows CALL for one text.
    text = re.sub("(?m)^CALL ", "SELECT ", "\n".join(lines))
    tokens = sqlglot.tokenize(text, dialect=DIALECTS.get(engine, engine))
    return [(token.token_type.name, token.text) for token in tokens]


hostile_texts = st.text(
    st.sampled_from("'\"`;\\\n\r-/*][${}.% aé表\u2028\u202e\x1b\ud800"), min_size=1, max_size=64
) | st.sampled_from(NAMES)


@cache
def read_plain_tokens(engine: str) -> list[tuple[str, str]]:
    return read_tokens(engine, write(engine, ListedTable("shop", "orders", ())))


@settings(max_examples=25, deadline=None)
@given(database=hostile_texts, table=hostile_texts, reason=hostile_texts)
def test_no_name_breaks_out(database: str, table: str, reason: str) -> None:
    hostile = ListedTable(
        database, table, frozenset({"columnMapping", reason}), f"paused: {reason}"
    )
    address = name_address(database, table)
    schema, *rest = address.split(".")
    for name, engine in ENGINES.items():
        lines = write(name, hostile)
        "\n".join(lines).encode()
        names = (schema, "_".join(rest))
        if engine.any_name:
            names = (replace_surrogates(database), replace_surrogates(table))
        # The same as of a plain name, but for the name and the address.
        known = {"shop": names[0], "orders": names[1], "shop.orders": address}
        expected = [
            (kind, known.get(text, text.replace("/shop.orders", f"/{address}")))
            for kind, text in read_plain_tokens(name)
        ]
        assert read_tokens(name, lines) == expected, name
        comments = [line for line in lines if line.startswith("-- ")]
        assert all(line.isprintable() for line in comments)
        if engine.comment is None:
            assert not any(map(HARMFUL.search, comments))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_table_has_its_statement(engine: str) -> None:
    tables = [ListedTable("shop", name, frozenset()) for name in ("a", "b")]
    lines = write(engine, *tables)
    made = [line for line in lines if line.endswith(";") and "current/shop." in line]
    if ENGINES[engine].table is None:
        assert not [line for line in lines if line and not line.startswith("-- ")]
    elif engine != "snowflake":
        assert len(made) == 2
    schemas = [line for line in lines if re.match("CREATE (SCHEMA|DATABASE) IF NOT EXISTS", line)]
    assert len(schemas) == (ENGINES[engine].schema is not None)
    assert ENGINES[engine].reader in READERS


@pytest.mark.parametrize(
    ("engine", "root", "uri"),
    [
        ("spark", "s3a://b/l", "s3a://b/l/f/current/d.t"),
        ("trino", "s3a://b/l", "s3://b/l/f/current/d.t"),
        ("duckdb", "gs://b/l", "gs://b/l/f/current/d.t"),
        ("databricks", "abfss://c@a.dfs.core.windows.net/l", "abfss://c@a.dfs.core.windows.net/l"),
        ("snowflake", "abfss://c@a.dfs.core.windows.net/l", "azure://a.blob.core.windows.net/c/l"),
        ("snowflake", "gs://b/l", "gcs://b/l/f/current"),
        ("duckdb", "/data/it's", "'/data/it''s/f/current/d.t'"),
        ("spark", "/data/it's", r"'/data/it\'s/f/current/d.t'"),
        ("clickhouse", "/data/l", "deltaLakeLocal('/data/l/f/current/d.t')"),
    ],
)
def test_a_uri_is_written_as_the_engine_does(engine: str, root: str, uri: str) -> None:
    assert uri in "\n".join(write(engine, ListedTable("d", "t", ()), lake=Lake(root, "f")))


@pytest.mark.parametrize(
    ("engine", "root", "said"),
    [
        ("trino", "/data/l", "trino reads object stores (s3://, gs://, abfss://), and the lake is"),
        ("athena", "gs://b/l", "athena reads s3://, and the lake is at 'gs://b/l/f/current'"),
        ("bigquery", "s3a://b/l", "bigquery reads gs://, and the lake is at"),
        ("clickhouse", "abfss://c@a.dfs.core.windows.net/l", "clickhouse reads s3://, gs://"),
    ],
)
def test_an_engine_that_does_not_reach_the_lake_is_an_error(
    engine: str, root: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=r"^--for: ") as error:
        write(engine, ListedTable("d", "t", ()), lake=Lake(root, "f"))
    assert said in str(error.value)


def test_what_an_engine_does_not_read_is_a_warning() -> None:
    tables = [
        ListedTable("d", "t", frozenset({"timestampNtz", "deletionVectors", "typeWidening"})),
        ListedTable("d", "u", frozenset({"variantType"}), "waiting: a DDL; has not come"),
        ListedTable("d", "v", None),
    ]
    lines = write("bigquery", *tables)
    assert [line for line in lines if line.startswith("-- ")][1:] == [
        "-- d.t",
        "-- has deletion vectors, which BigQuery reads (by its documents: 2026)",
        "-- WARNING: BigQuery does not read this table: it has timestampNtz"
        " (by its documents: 2026)",
        "-- WARNING: it has type widening, and whether BigQuery reads that is unknown",
        "-- d.u",
        "-- waiting: a DDL\\u003b has not come",
        "-- WARNING: it has variantType, and whether BigQuery reads that is unknown",
        "-- d.v",
        "-- has no rows at its address yet: the next advance that applies it publishes it",
    ]


def test_two_tables_never_get_one_name() -> None:
    taken = name_address("d", "a b").split(".")
    other = ListedTable("d", "_".join(taken[1:]), ())
    write("duckdb", ListedTable("d", "a b", ()), other)
    with pytest.raises(ConfigError, match=r"'d\.a b' and 'd\.a_b_\w+' would both be d\.a_b_"):
        write("spark", ListedTable("d", "a b", ()), other)


def test_names_that_tidb_tells_apart_are_two() -> None:
    both = [ListedTable("d", name, ()) for name in ("STRASSE", "Straße")]
    views = [
        [line for line in write("duckdb", *each) if "VIEW" in line] for each in (both, both[1:])
    ]
    assert [len(each) for each in views] == [2, 1]
    assert views[0][1:] == views[1]


def list_hostile() -> Iterator[ListedTable]:
    for name in NAMES:
        yield ListedTable(name, f"{name}t", ())


# What a path may have and an engine does not take for something else.
PATH = " \"<>`'é订 👍&+=;~$(@:!,"


@pytest.mark.parametrize(
    ("engine", "path"), [("duckdb", f"{PATH}{{*}}"), ("clickhouse", f"{PATH}%z")]
)
def test_an_engine_reads_tables_of_any_name_at_any_path(
    tmp_path: Path, engine: str, path: str
) -> None:
    lake = Lake(str(tmp_path / path), "f")
    tables = list(list_hostile())
    for number, table in enumerate(tables):
        address = lake.address(table.database, table.table)
        Path(address).mkdir(parents=True)
        write_deltalake(address, pa.table({"id": pa.array([number], pa.int64())}))
    query = open_query(engine)

    for _ in range(2):
        for line in write(engine, *tables, lake=lake):
            if line and not line.startswith("-- "):
                query(line)
    for number, table in enumerate(tables):
        names = map(replace_surrogates, (table.database, table.table))
        quoted = ".".join(map(ENGINES[engine].quote, names))
        assert query(f"SELECT id FROM {quoted}").to_pylist() == [{"id": number}]


@pytest.mark.parametrize(("engine", "sign"), [("duckdb", "%"), *product(["clickhouse"], "*{}")])
def test_a_path_that_an_engine_misreads_is_an_error(engine: str, sign: str) -> None:
    lake = Lake(f"/data/a{sign}b", "f")
    with pytest.raises(ConfigError, match=r"^--for: ") as error:
        write(engine, ListedTable("d", "t", ()), lake=lake)
    assert f"{engine} reads no table below a path with {sign}, as '/data/a{sign}b/" in str(
        error.value
    )
