"""Copies of tables that other writers have made, and what a comparison with the lake finds."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from msgspec.json import decode
from pyiceberg.catalog.memory import InMemoryCatalog

from tests.lake.upstream_copy import UpstreamCopy, read_schema
from ticdc_assets.log.verifications import TableVerification
from ticdc_assets.resources.copies import open_copy
from ticdc_assets.verify.against import AgainstEnvironment, OpenSnapshot, verify_copy

ITEMS = "CREATE TABLE items (id int NOT NULL PRIMARY KEY, title varchar(20), price decimal(8,2))"
# What differs: the kind, the key, and the columns.
Found = set[tuple[str, Any, tuple[str, ...]]]
Write = Callable[[Path, str, str, pa.Table], str]


def write_parquet(folder: Path, schema: str, table: str, rows: pa.Table) -> str:
    """Write a folder with Parquet files, and return its URI; the rows are in two files."""
    path = folder / "parquet" / schema / table
    path.mkdir(parents=True, exist_ok=True)
    half = len(rows) // 2
    pq.write_table(rows.slice(0, half), path / "a.parquet")
    pq.write_table(rows.slice(half), path / "b.parquet")
    (path / "_SUCCESS").touch()
    return f"parquet:{folder}/parquet"


def write_delta(folder: Path, schema: str, table: str, rows: pa.Table) -> str:
    at = rows.column_names.index("n") if "n" in rows.column_names else None
    if at is not None and pa.types.is_time(rows["n"].type):
        rows = rows.set_column(at, "n", rows["n"].cast(pa.string()))
    write_deltalake(f"{folder}/delta/{schema}.{table}", rows, mode="overwrite")
    return f"delta:{folder}/delta"


def write_iceberg(folder: Path, schema: str, table: str, rows: pa.Table) -> str:
    catalog = InMemoryCatalog("copies", warehouse=f"file://{folder}/iceberg")
    catalog.create_namespace_if_not_exists((schema,))
    # Iceberg has no integers of 16 bits.
    small = {
        n: pa.int32()
        for n, t in zip(rows.column_names, rows.schema.types, strict=True)
        if t == pa.int16()
    }
    wide = pa.schema([(f.name, small.get(f.name, f.type)) for f in rows.schema])
    rows = rows.cast(wide)
    catalog.create_table((schema, table), wide).append(rows)
    return f"iceberg:file://{folder}/iceberg"


def write_duckdb(folder: Path, schema: str, table: str, rows: pa.Table) -> str:
    folder.mkdir(exist_ok=True)
    file = folder / "copy.duckdb"
    with duckdb.connect(str(file)) as connection:
        quoted = ['"' + name.replace('"', '""') + '"' for name in (schema, table)]
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted[0]}")
        connection.register("made", rows)
        connection.execute(f"CREATE OR REPLACE TABLE {'.'.join(quoted)} AS FROM made")
    return f"duckdb:{file}"


WRITERS: dict[str, Write] = {
    "parquet": write_parquet,
    "delta": write_delta,
    "iceberg": write_iceberg,
    "duckdb": write_duckdb,
}


# Parameters: what is compared, and how much of it.
def compare(
    lake: UpstreamCopy,
    uri: str,
    *tables: str,
    ts: int | None = None,
    share: float = 1.0,
    open_upstream: OpenSnapshot | None = None,
    **options: Any,
) -> list[TableVerification]:
    """Compare a lake, or a database, with a copy."""
    copy = open_copy(uri, **options)
    environment = AgainstEnvironment(lake.lake, copy, ts, share, open_upstream=open_upstream)
    return list(verify_copy(environment, tables, lambda rows: None))


def list_found(verified: TableVerification, *key: str) -> Found:
    """List what differs, by the values of the columns of the key."""
    found: Found = set()
    for each in verified.differences:
        values = tuple(decode(each.key or "{}")[name] for name in key)
        found.add((each.what, values[0] if len(values) == 1 else values, each.columns))
    assert len(found) == len(verified.differences) == verified.different_rows
    return found


def put_items(lake: UpstreamCopy, rows: Sequence[tuple[int, str | None, str]], **put: Any) -> None:
    schema = read_schema(put.pop("database", "shop"), put.pop("ddl", ITEMS))
    names = [column.name for column in schema.columns]
    images = [
        {n: None if v is None else str(v) for n, v in zip(names, row, strict=True)} for row in rows
    ]
    lake.put_images(schema, images)


def make_items(count: int, titles: Mapping[int, str] = {}) -> list[tuple[int, str | None, str]]:
    return [(n, titles.get(n, f"item {n}"), f"{n}.50") for n in range(count)]


def make_table(rows: Sequence[tuple[Any, ...]], **names: pa.DataType) -> pa.Table:
    names = names or {"id": pa.int64(), "title": pa.string(), "price": pa.string()}
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(c), t) for c, t in zip(columns, names.values(), strict=True)]
    return pa.table(dict(zip(names, arrays, strict=True)))


def make_file(lake: UpstreamCopy, text: str) -> str:
    file = Path(lake.lake.location.root).parent / "password-file"
    file.write_text(text + "\n")
    return str(file)
