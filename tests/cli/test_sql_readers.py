"""Readers that find tables by statement, or by address, read what TiDB had, after any DDL."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from tests.lake.addresses import open_lake
from tests.lake.life_of_names import Contents, Life, Name, Row
from tests.lake.readers import DAFT, READERS, open_query
from ticdc_assets.cli.engines import ENGINES
from ticdc_assets.cli.statements import ListedTable, write_statements
from ticdc_assets.lake.advance import advance
from ticdc_assets.store.lake import Lake

Query = Callable[[str], pa.Table]


def test_each_reads_a_life_of_twenty_tables(tmp_path: Path) -> None:
    lake, life = open_lake(tmp_path), Life(1)
    readers: Mapping[str, Callable[[Lake, Iterable[Name]], Contents]] = {
        **{e: partial(read_by_statements, e, open_query(e)) for e in ("duckdb", "clickhouse")},
        **{name: partial(read_addresses, name) for name in ("Polars 2.1", *DAFT)},
    }
    for _ in range(4):
        contents = life.live()
        advance(lake, life.send())
        for name, read in readers.items():
            assert read(lake.location, contents) == contents, name
    assert {"RENAME TABLE", "TRUNCATE", "ERASE", "RENAME COLUMN"} <= life.kinds
    assert not all(table.isalnum() for _, table in contents)


def read_by_statements(
    engine: str, query: Query, location: Lake, names: Iterable[Name]
) -> Contents:
    """Run the statements of `sql`, and read what they name."""
    tables = [ListedTable(*name, ()) for name in names]
    for line in write_statements(engine, location, tables):
        if line and not line.startswith("-- "):
            query(line)
    quote = ENGINES[engine].quote
    return {n: list_rows(query(f"SELECT * FROM {'.'.join(map(quote, n))}")) for n in names}


def read_addresses(reader: str, location: Lake, names: Iterable[Name]) -> Contents:
    read = {**READERS, **DAFT}[reader]
    addresses = {name: location.address(*name) for name in names}
    return {n: list_rows(read(path, DeltaTable(path).version())) for n, path in addresses.items()}


def list_rows(rows: pa.Table) -> list[Row]:
    own = ("_commit_ts", "_inexact")
    found = [{c: v for c, v in row.items() if c not in own} for row in rows.to_pylist()]
    return sorted(found, key=lambda row: row["id"])
