"""Lakes that hold what a real server holds, made without the canonical texts of `verify`."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.mariadb_server import MariaDb
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import dump
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.log.applied import write_snapshot
from ticdc_assets.log.schema_history import write_tables
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.log.verifications import TableVerification
from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.rows.columns import list_delta_columns, list_stored_columns
from ticdc_assets.rows.images import ImageReader, Images
from ticdc_assets.rows.stored import Stored
from ticdc_assets.rows.table_rows import Rows, write_table
from ticdc_assets.schema.catalog import key_of
from ticdc_assets.schema.ddl.columns import resolve_column
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.ddl.statement import CreateTable
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.tables import create_tables
from ticdc_assets.upstream.sql import quote
from ticdc_assets.verify.verify import Environment, verify

FEED = changefeed_from_uri("file:///nowhere?protocol=canal-json", id="f")
Image = dict[str, str | None]


def read_schema(database: str, ddl: str) -> TableSchema:
    (statement,) = read_ddl(ddl)
    assert isinstance(statement, CreateTable)
    columns = tuple(resolve_column(c, statement.charset) for c in statement.columns)
    return TableSchema(database, statement.name.table, columns, statement.indexes)


@dataclass
class UpstreamCopy:
    """A lake with tables of a database, and what `verify` finds in it."""

    spark: Any
    lake: LakeSession
    server: MariaDb
    snapshot: Snapshot = field(default_factory=Snapshot)

    @classmethod
    def make(cls, spark: Any, root: Any, server: MariaDb) -> "UpstreamCopy":
        lake = LakeSession(spark, Lake(str(root), FEED.id), FEED)
        create_tables(lake)
        return cls(spark, lake, server)

    def copy(self, schema: TableSchema) -> None:
        """Copy the rows of a table, each value as TiCDC would send it."""
        self.put_images(schema, read_images(self.server, schema))

    def put_images(self, schema: TableSchema, images: Iterable[Image]) -> None:
        images = list(images)
        rows = Rows(type_images(images, schema), pa.array([5] * len(images), pa.int64()))
        path = self.lake.current_path(f"{schema.table}-1")
        write_deltalake(path, write_table(rows, schema), mode="overwrite")
        self._register(schema, DeltaTable(path).version(), {})

    def copy_without_spark(self, schema: TableSchema) -> None:
        """Copy the rows of a table that has only INTs, texts and binary values."""
        images = read_images(self.server, schema)
        columns = {}
        for column, delta in zip(schema.columns, list_delta_columns(schema), strict=True):
            texts = [image[column.name] for image in images]
            match delta.type:
                case "int":
                    values = pa.array([text and int(text) for text in texts], pa.int32())
                case "binary":
                    values = pa.array([text and base64.b64decode(text) for text in texts])
                case _:
                    values = pa.array(texts, pa.string())
            columns[delta.name] = values
        self.put_arrow(schema, pa.table(columns))

    def put_arrow(self, schema: TableSchema, rows: pa.Table, **changes: Any) -> None:
        """Write a table without Spark."""
        rows = rows.append_column("_commit_ts", pa.array([5] * len(rows), pa.int64()))
        path = self.lake.current_path(f"{schema.table}-1")
        write_deltalake(path, rows, mode="overwrite")
        self._register(schema, DeltaTable(path).version(), changes)

    def put(self, schema: TableSchema, rows: DataFrame, **changes: Any) -> None:
        """Write a table, and the next snapshot with it; `changes` are to its state."""
        table = CurrentTable(self.lake, f"{schema.table}-1")
        table.write_whole(rows.withColumn("_commit_ts", F.lit(5)), schema, "")
        self._register(schema, table.version, changes)

    def _register(self, schema: TableSchema, version: int, changes: dict[str, Any]) -> None:
        id = f"{schema.table}-1"
        state = self.snapshot.state
        incarnation = Incarnation(id=id, schema=schema, created_ts=1)
        state = replace(
            state,
            ts=state.ts + 10,
            incarnations={**state.incarnations, id: replace(incarnation, **changes)},
            names=[*(n for n in state.names if n[1] != id), (key_of(schema), id)],
        )
        self.apply(state, {id: version})

    def apply(self, state: State, versions: dict[str, int]) -> None:
        write_tables(self.lake, self.snapshot, state, versions)
        self.snapshot = write_snapshot(
            self.lake,
            self.snapshot,
            state,
            batch=1,
            decoded_batch=1,
            versions=versions,
            watermarks={},
            counts=(),
        )

    def environment(self, **settings: Any) -> Environment:
        database = UpstreamDatabase("f", self.server.upstream)
        defaults: dict[str, Any] = {
            "open_spark": lambda: self.lake,
            "open_upstream": database.open_snapshot,
            "wait_seconds": 0.0,
        }
        reader = LakeReader(self.lake.location)
        return Environment(reader, self.lake.feed, **defaults | settings)

    def verify(self, *tables: str, **settings: Any) -> list[TableVerification]:
        return list(verify(self.environment(**settings), tables, lambda *_: None))


def type_images(images: Iterable[Image], schema: TableSchema) -> dict[str, Stored]:
    """Type images as a window does."""
    texts = pa.array([dump(image) for image in images], pa.string())
    reader = ImageReader(schema, None, member_names=True)
    _, typed = reader.read(Images(pa.nulls(len(texts), pa.string()), texts))
    assert not pc.any(typed.invalid).as_py()
    return typed.columns


def read_images(server: MariaDb, schema: TableSchema) -> list[Image]:
    """Read rows as images, by the server's own texts."""
    columns = list_stored_columns(schema)
    selected = []
    for column in columns:
        name = quote(column.name)
        match describe(column.type).kind:
            case "float":
                # A FLOAT prints six digits; as a DOUBLE it prints all.
                name = f"CAST({name} AS DOUBLE)"
            case "bit" | "year":
                name = f"{name} + 0"
        selected.append(name)
    listed = ", ".join(selected)
    rows = server.run(f"SELECT {listed} FROM {quote(schema.database)}.{quote(schema.table)}")
    return [
        {
            column.name: _as_text(value, column.type)
            for column, value in zip(columns, row, strict=True)
        }
        for row in rows
    ]


def _as_text(value: Any, type: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes) and describe(type).kind == "binary":
        return base64.b64encode(value).decode()
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
