"""Iceberg tables of a lake, read by `pyiceberg` from nothing but a path."""

import dataclasses
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import duckdb
import pyarrow as pa
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from tests.lake.addresses import GONE, Shown, need_none
from tests.lake.canal import FEED, placed, watermark
from tests.lake.readers import list_lines
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import Lake, LakeSession


def open_lake(folder: Path | str, *patterns: str, spark: SparkSession | None = None) -> LakeSession:
    """Open a lake whose changefeed declares tables as Iceberg tables."""
    feed = dataclasses.replace(FEED, iceberg=patterns)
    return LakeSession(spark or need_none, Lake(f"{folder}/lake", FEED.id), feed)


class Stream:
    """A topic that grows; each window ends with a watermark, the n-th with that of n * 10 + 9."""

    def __init__(self, lake: LakeSession) -> None:
        self.lake = lake
        self._sent: list[Message] = []
        self._windows = 0

    def send(self, *messages: Message) -> list[str]:
        """Apply a window; return its problems."""
        self._sent += [*messages, watermark(self._windows * 10 + 9)]
        self._windows += 1
        sent = placed(self._sent)
        done = advance(self.lake, RecordSource(lambda _: sent)).applied
        return [problem.describe() for problem in done.problems]


def list_iceberg(lake: LakeSession) -> list[str]:
    folders = Path(lake.path("iceberg")).glob("*/metadata/version-hint.text")
    return sorted(hint.parents[1].name for hint in folders)


def open_iceberg(lake: LakeSession, address: str) -> StaticTable:
    return StaticTable.from_metadata(lake.path(f"iceberg/{address}"))


def read_iceberg(lake: LakeSession, without: str = "") -> Shown:
    """Read what every name has."""
    shown: Shown = {}
    for address in set(list_iceberg(lake)) - {without}:
        table = open_iceberg(lake, address)
        ids = sorted(table.scan().to_arrow()["id"].to_pylist())
        is_gone = table.properties["ticdc.status"] == "dropped"
        assert not (is_gone and ids)
        shown[table.properties["ticdc.table"].removeprefix("d.")] = GONE if is_gone else ids
    return shown


def read_snapshots(table: StaticTable) -> Iterator[tuple[int, pa.Table]]:
    """Read every snapshot, with the resolved ts that it states; DuckDB reads the same."""
    for snapshot in table.snapshots():
        assert snapshot.summary is not None
        rows = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        others = read_with_duckdb(table.metadata_location, snapshot.snapshot_id)
        assert others.column_names == rows.column_names
        assert list_lines(others, rows.schema) == list_lines(rows, rows.schema)
        yield int(snapshot.summary["ticdc.resolved_ts"]), rows


def read_with_duckdb(path: str, snapshot_id: int | None = None) -> pa.Table:
    """Read the table in a folder, or of a metadata file, by default its newest snapshot."""
    chosen = "" if snapshot_id is None else f", snapshot_from_id := {snapshot_id}"
    with _open_duckdb().cursor() as cursor:
        cursor.execute("SET TimeZone = 'UTC'")
        scan = f"SELECT * FROM iceberg_scan(?{chosen})"
        return cursor.execute(scan, [path]).to_arrow_table()


@cache
def _open_duckdb() -> duckdb.DuckDBPyConnection:
    """Open a database that reads Iceberg, once: loading extensions takes longer than a table."""
    connection = duckdb.connect()
    for name in ("avro", "iceberg"):
        (extension,) = Path(str(files(f"duckdb_extension_{name}"))).glob(f"extensions/*/{name}.*")
        connection.execute(f"LOAD '{extension}'")
    return connection
