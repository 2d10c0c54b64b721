"""What the protocols promise of every row event: its images, its key, its schema, its checksum."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import functions as F

from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import Found, Violations, promise
from ticdc_assets.checks.invariants.row_conditions import Fault, faults
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.lake.events.event_rows import row_change, statements, table_name
from ticdc_assets.protocols.registry import get_traits
from ticdc_assets.schema.types.checksum import verify_checksum

SHOWN = ("database", "table", "commit_ts", "op", "place")
_UNKNOWN = ("name", "schema_version", "rows", "first_commit_ts", "place")
_VERDICT = """
    database string, table string, commit_ts bigint, op string, place string,
    side string, stated bigint, computed bigint, reason string
"""
_VERDICT_ARROW = pa.schema(
    [
        ("database", pa.string()),
        ("table", pa.string()),
        ("commit_ts", pa.int64()),
        ("op", pa.string()),
        ("place", pa.string()),
        ("side", pa.string()),
        ("stated", pa.int64()),
        ("computed", pa.int64()),
        ("reason", pa.string()),
    ]
)


@promise("events", "ERROR", blocking=True)
def inserts_have_no_old_value(scene: CheckContext) -> Found:
    """An insert has the new row and no old one."""
    return _faulty(scene, "insert", "has_old", "has_new")


@promise("events", "ERROR", blocking=True)
def deletes_have_no_new_value(scene: CheckContext) -> Found:
    """A delete has the old row, or at least its key, and no new one."""
    return _faulty(scene, "delete", "has_old", "has_new")


@promise("events", "ERROR", blocking=True)
def updates_have_both_values(scene: CheckContext) -> Found:
    """An update has the new row, and the old one as the changefeed's settings promise it.

    CSV has the old row with `output-old-value` only, and other protocols leave columns that did not
    change out of it with `only-output-updated-columns` (or `content-compatible`) only; an update
    without an old row in Open Protocol is an upsert.
    """
    return _faulty(scene, "update", "has_old", "has_new", "uneven")


@promise("events", "ERROR")
def handle_keys_are_present(scene: CheckContext) -> Found:
    """Every row has a value in every column of its table's handle key.

    The handle key is the primary key, or else the shortest unique key over NOT NULL columns, so no
    setting and no large message leaves it out.  A row without it is refused, not applied.
    """
    return _faulty(scene, "key", "lacking")


def _faulty(scene: CheckContext, fault: Fault, *told: str) -> Found:
    """The due rows that have a fault; nothing is looked for where none was counted."""
    columns = (*SHOWN, *told)
    if not any(row[fault] for row in scene.counted_due):
        return Violations(columns)
    wrong = scene.due.where(faults(scene.feed)[fault])
    return wrong.withColumn("lacking", F.array_join("lacking", ", ")).select(*columns)


@promise("events", "ERROR", blocking=True)
def row_events_are_stored_once(scene: CheckContext) -> Found:
    """What a record or a line of a file says is in `events` once, whatever runs were killed."""
    rows = scene.events.where("kind = 'row'").groupBy("batch", "seq", "index", "source")
    counted = rows.agg(F.count(F.lit(1)).alias("times"), F.first("place").alias("place"))
    return counted.where("times > 1").select("batch", "place", "times")


@promise("events", "WARN")
def row_schemas_are_known(scene: CheckContext) -> Found:
    """The schema that a row was written under has been stated when the row is resolved.

    Simple sends it in a bootstrap or DDL before the first row that needs it, the storage sink in
    the schema file of the table version; Canal-JSON and Open Protocol in every row.  Rows without
    it wait, and with them their table.
    """
    known = {
        (table_name(line["database"], line["table"]), line["schema_version"])
        for line in scene.history
        if line["schema_version"] is not None
    }
    found = scene.counted_due
    doubted = [row for row in found if (row["name"], row["schema_version"]) not in known]
    # What was stated and is in no table's history was of a table that came to nothing.
    stated = _stated(scene, {row["schema_version"] for row in doubted} - {None})
    unknown = [
        (row["name"], row["schema_version"], row["count"], row["first_commit_ts"], row["place"])
        for row in doubted
        if (row["name"], row["schema_version"]) not in stated
        and (row["schema_version"] is not None or not row["has_observed"])
    ]
    return Violations(_UNKNOWN, unknown)


def _stated(scene: CheckContext, versions: set[int]) -> dict[tuple[str | None, int], TableSchema]:
    """The schemas of these versions, of whatever table, as the sender stated them."""
    if not versions:
        return {}
    known: dict[tuple[str | None, int], TableSchema] = {}
    told = scene.read("events").where(
        F.col("kind").isin("ddl", "bootstrap") & F.col("schema_version").isin(sorted(versions))
    )
    for change in statements(row.asDict() for row in told.select("kind", "statement").collect()):
        schema = change.schema
        if schema is not None and schema.version is not None:
            known[table_name(schema.database, schema.table), schema.version] = schema
    return known


@promise("events", "ERROR", blocking=True, of=lambda feed: get_traits(feed).has_checksums)
def row_checksums_match(scene: CheckContext) -> Found:
    """The CRC-32 that TiDB computed over a row's values is that of the values that came.

    Rows that TiCDC itself marked as corrupted prove nothing, nor do rows of which only the handle
    key was sent.
    """
    counted = [row for row in scene.counted_due if row["has_checksum"]]
    versions = {row["schema_version"] for row in counted} - {None}
    if not versions:
        return Violations(tuple(_VERDICT_ARROW.names))
    stated = _stated(scene, versions)
    schemas = {version: write_json(schema) for version, schema in stated.items()}
    here = scene.due.where("has_checksum").select("batch", "seq", "index")
    rows = scene.read("events").where("kind = 'row' AND checksum IS NOT NULL")
    return rows.join(here, ["batch", "seq", "index"], "left_semi").mapInArrow(
        _verifier(schemas), _VERDICT
    )


def _verifier(schemas: dict[tuple[str | None, int], str]) -> Any:
    """For `mapInArrow` over events: the rows whose checksums are not those of their values."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read: dict[tuple[str | None, int], TableSchema] = {}
        for batch in batches:
            wrong = []
            for row in batch.to_pylist():
                version = row["name"], row["schema_version"]
                if version not in schemas:
                    continue
                if version not in read:
                    read[version] = read_json(schemas[version], TableSchema)
                change = row_change(row)
                verdict = verify_checksum(change, read[version])
                if verdict.status == "mismatch":
                    said = msgspec.structs.asdict(verdict)
                    wrong.append(
                        {
                            **{
                                name: row[name] for name in ("database", "table", "commit_ts", "op")
                            },
                            "place": str(change.position),
                            "side": said["side"],
                            "stated": said["expected"],
                            "computed": said["computed"],
                            "reason": said["reason"],
                        }
                    )
            yield pa.RecordBatch.from_pylist(wrong, _VERDICT_ARROW)

    return work
