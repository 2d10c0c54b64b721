"""In-memory tables of a lake: a few valid rows, and whatever a test breaks."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.checks import models
from ticdc_assets.checks.invariants import CheckContext, SnapshotRange
from ticdc_assets.checks.invariants.queries import Rows, choose_rows, is_above
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.events.written import write_json
from ticdc_assets.log.applied_row import RowCounts
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.store.arrow import make_table
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.lake import Lake, LakeSession

SIMPLE = changefeed_from_uri("kafka://h:9092/t?protocol=simple", id="simple")
FOLDER = changefeed_from_uri(
    "file:///data?protocol=canal-json&enable-tidb-extension=true", id="folder"
)
Row = dict[str, Any]


def schema(table: str = "a", version: int = 7) -> TableSchema:
    columns = (
        Column("id", ColumnType("int"), nullable=False),
        Column("v", ColumnType("varchar", length=10)),
    )
    key = Index("PRIMARY", ("id",), unique=True, primary=True)
    return TableSchema("d", table, columns, (key,), version=version)


def table(name: str = "a", **more: Any) -> Incarnation:
    return Incarnation(id=f"{name}1", schema=schema(name), created_ts=50, **more)


def event(seq: int, kind: str, *, batch: int = 2, partition: int | None = 0, **more: Any) -> Row:
    place = {"source": "t", "partition": partition, "number": seq}
    return {"batch": batch, "seq": seq, "index": 0, "kind": kind, **place, **more}


def row(seq: int, op: str, ts: int, *, name: str = "a", **more: Any) -> Row:
    """Return a valid row event; `more` overrides its columns."""
    new, old = f'{{"id":"{seq}","v":"x"}}', f'{{"id":"{seq}","v":"w"}}'
    columns = {"op": op, "commit_ts": ts, "database": "d", "table": name, "ordering": "commit_ts"}
    columns |= {"name": make_table_name("d", name), "schema_version": 7, "handle_key_only": False}
    columns |= {"before": None if op == "insert" else old, "after": None if op == "delete" else new}
    return event(seq, "row", **{**columns, **more})


def ddl(seq: int, ts: int, partition: int, sql: str) -> Row:
    statement = f'{{"commit_ts":{ts},"database":"d","table":"a","sql":"{sql}"}}'
    named = {"database": "d", "table": "a", "name": make_table_name("d", "a")}
    more = {"commit_ts": ts, "statement": statement, **named}
    return event(seq, "ddl", partition=partition, **more)


def version(name: str, valid_from: int, number: int | None = 7, **more: Any) -> Row:
    line = {"incarnation": f"{name}1", "database": "d", "table": name, "valid_from": valid_from}
    line |= {"schema_version": number, "origin": "ddl", "sql": "CREATE TABLE", "key": ["id"]}
    return {**line, "schema": write_json(schema(name)), **more}


def line(snapshot_id: int, ts: int, batch: int, **more: Any) -> Row:
    columns = {"snapshot_id": snapshot_id, "committed_at": datetime.now(UTC), "resolved_ts": ts}
    columns |= {"batch": batch, "decoded_batch": batch, "state_snapshot_id": 1}
    return {**columns, "watermarks": {"t-0": ts, "t-1": ts}, **more}


def count(name: str, read: int, applied: int, superseded: int) -> Row:
    names = {"incarnation": f"{name}1", "name": make_table_name("d", name)}
    return {**names, **asdict(RowCounts(read, applied, superseded))}


class InMemoryContext(CheckContext):
    """A range from ts 100, batch 1 to ts 200, batch 2 over tables that a test makes up.

    With `few`, this process holds their rows; otherwise Spark does.
    """

    def __init__(
        self,
        spark: SparkSession,
        feed: Changefeed,
        tables: Mapping[str, Sequence[Row]],
        *,
        since: int = 1,
        incarnations: Sequence[Incarnation] = (),
        decoded: int = 2,
        few: bool = True,
    ) -> None:
        lake = LakeSession(spark, Lake("/nowhere", feed.id), feed)
        super().__init__(lake, SnapshotRange(since, 2))
        self._tables = dict(tables)
        self._few = few
        known = {one.id: one for one in incarnations or [table()]}
        before = State(ts=100, snapshot_id=1, incarnations=known)
        # Properties that are computed once can be set instead.
        self.before = Snapshot(before, batch=1, decoded_batch=1) if since else Snapshot()
        after = State(ts=200, snapshot_id=2, incarnations=known)
        self.after = Snapshot(after, batch=2, decoded_batch=decoded)

    def read(
        self, table: str, columns: Sequence[str], above: Mapping[str, int] | None = None
    ) -> Rows:
        contract = models.contract_schema(table, self.feed)
        stored = [
            tuple(one.get(name) for name in contract.names) for one in self._tables.get(table, ())
        ]
        rows: Rows = (
            make_table(models.choose_contract(table, self.feed), stored)
            if self._few
            else self.lake.spark.createDataFrame(stored, contract)
        )
        chosen = choose_rows(rows, lambda get: is_above(above, get)) if above else rows
        return chosen.select(list(columns))

    def read_rows(
        self, table: str, columns: Sequence[str], where: pc.Expression
    ) -> list[dict[str, Any]]:
        rows = [{name: one.get(name) for name in columns} for one in self._tables.get(table, ())]
        # Conditions are on scalars.
        scalars = [name for name in columns if name not in ("watermarks", "counts", "versions")]
        found = pa.table({name: [row[name] for row in rows] for name in scalars})
        numbered = found.append_column("⌗row", pa.array(range(len(rows)), pa.int64()))
        return [rows[at] for at in numbered.filter(where)["⌗row"].to_pylist()]
