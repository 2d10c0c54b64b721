"""What the protocols promise of every row event: its images, its key, its schema, its checksum."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.checks.invariants.invariant import promised
from ticdc_assets.checks.invariants.scene import Scene
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import from_json, to_json
from ticdc_assets.lake.event_rows import row_change, statements, table_name
from ticdc_assets.schema.types.checksum import verify

SHOWN = ("database", "table", "commit_ts", "op", "place")
_STATED = "name string, schema_version bigint"
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


@promised("events", "ERROR", blocking=True)
def insert_has_no_old(scene: Scene) -> DataFrame:
    """An insert has the new row and no old one."""
    return scene.faulty("insert").select(*SHOWN, "has_old", "has_new")


@promised("events", "ERROR", blocking=True)
def delete_has_no_new(scene: Scene) -> DataFrame:
    """A delete has the old row, or at least its key, and no new one."""
    return scene.faulty("delete").select(*SHOWN, "has_old", "has_new")


@promised("events", "ERROR", blocking=True)
def update_has_old_and_new(scene: Scene) -> DataFrame:
    """An update has the new row, and the old one as the changefeed's settings promise it.

    CSV has the old row with `output-old-value` only, and other protocols leave columns that did not
    change out of it with `only-output-updated-columns` (or `content-compatible`) only; an update
    without an old row in Open Protocol is an upsert.
    """
    return scene.faulty("update").select(*SHOWN, "has_old", "has_new", "uneven")


@promised("events", "ERROR")
def handle_key_is_there_and_not_null(scene: Scene) -> DataFrame:
    """Every row has a value in every column of its table's handle key.

    The handle key is the primary key, or else the shortest unique key over NOT NULL columns, so no
    setting and no large message leaves it out.  A row without it is refused, not applied.
    """
    return scene.faulty("key").select(*SHOWN, F.array_join("lacking", ", ").alias("lacking"))


@promised("events", "ERROR", blocking=True)
def row_event_is_in_the_lake_once(scene: Scene) -> DataFrame:
    """What a record or a line of a file says is in `events` once, whatever runs were killed."""
    rows = scene.events.where("kind = 'row'").groupBy("batch", "seq", "index", "source")
    counted = rows.agg(F.count(F.lit(1)).alias("times"), F.first("place").alias("place"))
    return counted.where("times > 1").select("batch", "place", "times")


@promised("events", "WARN")
def row_schema_is_known(scene: Scene) -> DataFrame:
    """The schema that a row was written under has been stated when the row is resolved.

    Simple sends it in a bootstrap or DDL before the first row that needs it, the storage sink in
    the schema file of the table version; Canal-JSON and Open Protocol in every row.  Rows without
    it wait, and with them their table.
    """
    found = scene.counted_due
    known = _stated(scene, {row["schema_version"] for row in found} - {None})
    unknown = [
        (row["name"], row["schema_version"], row["count"], row["first_commit_ts"], row["place"])
        for row in found
        if (row["schema_version"] is None and not row["has_observed"])
        or (row["schema_version"] is not None and (row["name"], row["schema_version"]) not in known)
    ]
    columns = f"{_STATED}, rows bigint, first_commit_ts bigint, place string"
    return scene.frame(unknown, columns)


def _stated(scene: Scene, versions: set[int]) -> dict[tuple[str | None, int], TableSchema | None]:
    """The versions of tables that were stated; with the schema where it is as the sender put it."""
    if not versions:
        return {}
    history = scene.read("schema_history").where(F.col("schema_version").isin(sorted(versions)))
    known: dict[tuple[str | None, int], TableSchema | None] = {
        (table_name(row["database"], row["table"]), row["schema_version"]): None
        for row in history.select("database", "table", "schema_version").distinct().collect()
    }
    told = scene.read("events").where(
        F.col("kind").isin("ddl", "bootstrap") & F.col("schema_version").isin(sorted(versions))
    )
    for change in statements(row.asDict() for row in told.select("kind", "statement").collect()):
        schema = change.schema
        if schema is not None and schema.version is not None:
            known[table_name(schema.database, schema.table), schema.version] = schema
    return known


@promised("events", "ERROR", blocking=True, of=lambda feed: feed.protocol == "simple")
def row_checksum_is_right(scene: Scene) -> DataFrame:
    """The CRC-32 that TiDB computed over a row's values is that of the values that came.

    Rows that TiCDC itself marked as corrupted prove nothing, nor do rows of which only the handle
    key was sent.
    """
    counted = [row for row in scene.counted_due if row["has_checksum"]]
    versions = {row["schema_version"] for row in counted} - {None}
    if not versions:
        return scene.frame([], _VERDICT)
    stated = _stated(scene, versions)
    schemas = {(name, v): to_json(schema) for (name, v), schema in stated.items() if schema}
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
                    read[version] = from_json(schemas[version], TableSchema)
                change = row_change(row)
                verdict = verify(change, read[version])
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
