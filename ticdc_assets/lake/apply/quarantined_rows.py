"""Rows that were decoded and cannot be applied: quarantine them, or fail their table's job."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.lake.apply.segment import Segment
from ticdc_assets.lake.apply.table_outcome import TableOutcome
from ticdc_assets.lake.apply.typed_rows import (
    FAULT,
    INVALID,
    KEY_ONLY,
    MISMATCH,
    UPSTREAM,
)
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.store.arrow import arrow_schema
from ticdc_assets.lake.store.contracts import QUARANTINE
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.small_tables import can_hold
from ticdc_assets.lake.store.sql import quote_literal
from ticdc_assets.lake.store.writer import LakeWriter
from ticdc_assets.rows.left_out import ORIGIN, explain, explain_key_only
from ticdc_assets.schema.types.row import RowReader

# Marks the failure of a job by a row that its table cannot continue without.
_STOPPED = "the table cannot continue: "
# Spark appends it to the message of an error that a query raises.
_SQLSTATE = " SQLSTATE: P0001"
_NAMES = arrow_schema(QUARANTINE).names
# What tells whether a row of the quarantine is known, or replaced.
_PLACE = ["stage", "seq", "index", "commit_ts", "database", "table"]


def stop_job(reason: Column) -> Column:
    """Return an expression that fails the job; `find_stop_reason` gets the reason back."""
    return F.raise_error(F.concat(F.lit(_STOPPED), reason))


def find_stop_reason(failure: str) -> str | None:
    """Return the reason given to `stop_job`, if a job failed for one."""
    _, found, reason = failure.partition(_STOPPED)
    return reason.splitlines()[0].removesuffix(_SQLSTATE) if found else None


def write_quarantined_rows(
    lake: LakeSession,
    outcomes: Sequence[TableOutcome],
    replayed: "Replayed | None",
    *,
    are_few: bool,
) -> None:
    """Write the quarantined rows of a window, each once; if they are few, from this process.

    A replay from a ts on also removes those of its tables that are not quarantined any more.

    The commit has no transaction id: a killed run may have written rows for the same snapshot,
    and fewer than now.
    """
    quarantined = [
        _select_quarantined(segment)
        for outcome in outcomes
        for segment in outcome.segments
        if segment.count_read()["invalid"] or segment.count_read()["key_only"]
    ]
    here = [_complete(rows) for outcome in outcomes for rows in outcome.quarantined]
    if here:
        quarantined.append(lake.make_frame(pa.concat_tables(here)))
    if not quarantined and replayed is None:
        return
    reader = LakeReader(lake.location)
    stored = reader.open("quarantine")
    replaced = replayed and _find_replaced(reader, stored, replayed)
    if not quarantined and replaced is None:
        return
    if len(here) == len(quarantined) and can_hold(reader, stored):
        rows_here = pa.concat_tables(here) if here else arrow_schema(QUARANTINE).empty_table()
        _write_here(reader, stored, rows_here, replaced)
        return
    rows = combine_pairwise(DataFrame.unionByName, quarantined) if quarantined else None
    if are_few and can_hold(reader, stored):
        _write_few(reader, stored, rows, replaced)
    else:
        _write_many(lake, rows, replaced)


class Replayed(NamedTuple):
    """The rows that a replay of tables from a ts on replaces: those with these names."""

    tables: frozenset[tuple[str, str]]
    after_ts: int

    def has(self, row: Mapping[str, Any]) -> bool:
        is_later = row["stage"] == "apply" and (row["commit_ts"] or 0) > self.after_ts
        return is_later and (row["database"], row["table"]) in self.tables

    @property
    def sql(self) -> str:
        of_tables = " OR ".join(
            f"database = {quote_literal(database)} AND `table` = {quote_literal(table)}"
            for database, table in sorted(self.tables)
        )
        return f"stage = 'apply' AND commit_ts > {self.after_ts} AND ({of_tables})"


def _complete(rows: pa.Table) -> pa.Table:
    """Return the events that the engine left out as rows of the quarantine."""
    stage = pa.repeat(pa.scalar("apply", pa.string()), rows.num_rows)
    return rows.append_column("stage", stage).select(_NAMES)


def _write_few(
    reader: LakeReader, stored: DeltaTable, rows: DataFrame | None, replaced: Replayed | None
) -> None:
    columns = arrow_schema(QUARANTINE)
    new = columns.empty_table() if rows is None else rows.select(_NAMES).toArrow()
    _write_here(reader, stored, new, replaced)


def _write_here(
    reader: LakeReader, stored: DeltaTable, new: pa.Table, replaced: Replayed | None
) -> None:
    present = reader.read(stored, _NAMES)
    places = present.select(_PLACE).to_pylist()
    goes = [replaced is not None and replaced.has(row) for row in places]
    # A replay quarantines the same rows again.
    known = {
        (row["seq"], row["index"])
        for row, is_gone in zip(places, goes, strict=True)
        if row["stage"] == "apply" and not is_gone
    }
    new = new.cast(arrow_schema(QUARANTINE))
    numbers = zip(new["seq"].to_pylist(), new["index"].to_pylist(), strict=True)
    new = new.filter(pa.array([number not in known for number in numbers], pa.bool_()))
    writer = LakeWriter(reader.location)
    if any(goes):
        kept = present.filter(pa.array([not is_gone for is_gone in goes]))
        writer.rewrite(stored, pa.concat_tables([kept, new]))
    elif new.num_rows:
        writer.append(stored, new)


def _write_many(lake: LakeSession, rows: DataFrame | None, replaced: Replayed | None) -> None:
    stored = lake.read("quarantine")
    known = stored.where("stage = 'apply'" + (f" AND NOT ({replaced.sql})" if replaced else ""))
    found = stored.limit(0) if rows is None else rows
    new = found.join(known.select("seq", "index"), ["seq", "index"], "left_anti").select(*_NAMES)
    writer = new.coalesce(1).write.format("delta")
    if replaced is None:
        writer.mode("append").save(lake.path("quarantine"))
    else:
        writer = writer.mode("overwrite").option("replaceWhere", replaced.sql)
        writer.save(lake.path("quarantine"))


def _find_replaced(reader: LakeReader, stored: DeltaTable, replayed: Replayed) -> Replayed | None:
    """Find the quarantined rows that a replay replaces, if there are any."""
    where = (pc.field("stage") == "apply") & (pc.field("commit_ts") > replayed.after_ts)
    rows = reader.read(stored, ["database", "table"], where)
    tables = replayed.tables & {(row["database"], row["table"]) for row in rows.to_pylist()}
    return Replayed(tables, replayed.after_ts) if tables else None


def _select_quarantined(segment: Segment) -> DataFrame:
    reading = segment.step.row_groups[0]
    schemas_json = [write_json(schema) for schema in (reading.schema, segment.step.schema)]
    names = reading.group.member_names
    origin = [F.col(f"⌗{name}").alias(name) for name in ORIGIN]
    rows = segment.typed.where(F.col(INVALID) | F.col(KEY_ONLY)).select(
        *origin, KEY_ONLY, UPSTREAM, FAULT, MISMATCH, "⌗before_text", "⌗after_text"
    )

    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        schema, table = (read_json(text, TableSchema) for text in schemas_json)
        for batch in batches:
            yield quarantine_batch(batch, schema, names, table)

    return rows.mapInArrow(work, QUARANTINE)


def quarantine_batch(
    batch: pa.RecordBatch, schema: TableSchema, member_names: bool, table: TableSchema
) -> pa.RecordBatch:
    """Return quarantine rows: where each row is, and why it is invalid.

    The rows were written under `schema`, and `table` is the schema of their table.
    """
    read = RowReader(schema, member_names=member_names)
    rows = batch.to_pylist()
    errors = [
        explain_key_only(row[UPSTREAM])
        if row[KEY_ONLY]
        else explain(
            read,
            table,
            (row["⌗before_text"], row["⌗after_text"]),
            fault=row[FAULT],
            mismatch=row[MISMATCH],
        )
        for row in rows
    ]
    count = len(rows)
    columns = {name: batch.column(name) for name in ORIGIN}
    columns["stage"] = pa.array(["apply"] * count, pa.string())
    columns["error"] = pa.array([error for error, _ in errors], pa.string())
    columns["reason"] = pa.array([reason for _, reason in errors], pa.string())
    texts = [row["⌗after_text"] or row["⌗before_text"] or "" for row in rows]
    columns["raw"] = pa.array([text.encode() for text in texts], pa.binary())
    return pa.RecordBatch.from_arrays([columns[name] for name in _NAMES], names=_NAMES)
