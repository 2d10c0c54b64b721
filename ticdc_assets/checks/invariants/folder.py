"""What the storage sink promises of its folder: file numbers, files that stay, schema files."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import Found, Violations, promise
from ticdc_assets.errors import DecodeError
from ticdc_assets.storage_sink.schema_file import read_schema_file

_DATA = ("data", "changed data")
_SCHEMA = ("schema", "changed schema")
_GAP = ("directory", "first_missing", "last_missing", "path")
_CHANGED = ("path", "size", "modified")
_WAITING = ("path", "database", "table", "version", "size")
_PROBLEM = "path string, version bigint, checksum bigint, reason string"
_PROBLEM_ARROW = pa.schema(
    [
        ("path", pa.string()),
        ("version", pa.int64()),
        ("checksum", pa.int64()),
        ("reason", pa.string()),
    ]
)


def _is_folder(feed: Changefeed) -> bool:
    return feed.transport == "storage"


def _has_come(scene: CheckContext, *roles: str) -> bool:
    """Whether files of these roles came in with the window."""
    return any(row["role"] in roles for row in scene.taken)


@promise("raw", "WARN", of=_is_folder)
def data_file_numbers_have_no_gaps(scene: CheckContext) -> Found:
    """Data files of one directory, and of one dispatcher, are numbered from 1 on without a gap.

    A gap means that a file is lost, was deleted before it was read, or has not been listed yet.
    """
    if not _has_come(scene, *_DATA):
        return Violations(_GAP)
    directory = F.regexp_extract("path", "^(.*)/[^/]*$", 1).alias("directory")
    columns = (directory, "dispatcher", "number", "path", "batch")
    files = scene.read("raw").where(F.col("role").isin(*_DATA)).select(*columns)
    # All numbers of a directory that has new files; which are missing is looked up where some are.
    numbers = F.collect_set(F.when(F.col("number") > 0, F.col("number")))
    counted = files.groupBy("directory", "dispatcher").agg(
        F.size(numbers).alias("there"), F.max("number").alias("last"), F.max("batch").alias("batch")
    )
    if counted.where(f"there < last AND batch > {scene.before.batch}").isEmpty():
        return Violations(_GAP)
    if not scene.window.is_whole:
        new = files.where(scene.new_batches).select("directory").distinct()
        files = files.join(F.broadcast(new), "directory", "left_semi")
    first = files.groupBy("directory", "dispatcher", "number", "path").agg(
        F.min("batch").alias("batch")
    )
    in_order = Over.partitionBy("directory", "dispatcher").orderBy("number")
    told = first.withColumn("number_before", F.coalesce(F.lag("number").over(in_order), F.lit(0)))
    gaps = told.where(f"number > number_before + 1 AND batch > {scene.before.batch}")
    missing = ("number_before + 1 AS first_missing", "number - 1 AS last_missing")
    return gaps.selectExpr("directory", *missing, "path")


@promise("raw", "WARN", of=_is_folder)
def data_files_are_immutable(scene: CheckContext) -> Found:
    """A data file is written once: it is never appended to, and its number is not used again.

    What was read of it is replaced by what it holds now, and its table is replayed.
    """
    if not _has_come(scene, "changed data"):
        return Violations(_CHANGED)
    changed = scene.read("raw").where("role = 'changed data'").where(scene.new_batches)
    return changed.withColumn("modified", F.col("modified").cast("string")).select(*_CHANGED)


@promise("raw", "WARN", of=_is_folder)
def data_files_are_readable(scene: CheckContext) -> Found:
    """The schema file of a table version is written before its first data file.

    Without it a CSV file waits; so does a file that the storage does not hand out just now.
    """
    if scene.after.decoded == scene.after.batch:
        return Violations(_WAITING)
    batches = f"batch > {scene.after.decoded} AND batch <= {scene.after.batch}"
    files = scene.read("raw").where(F.col("role").isin(*_DATA)).where(batches)
    done = scene.read("events").where(f"kind = 'file' AND batch > {scene.after.decoded}")
    same = F.expr("file.path = done.source AND file.seq = done.seq")
    waiting = files.alias("file").join(done.alias("done"), same, "left_anti")
    return waiting.select(*_WAITING)


@promise("raw", "WARN", of=_is_folder)
def schema_file_checksums_match(scene: CheckContext) -> Found:
    """The name of a schema file ends with the CRC-32 of its content, and tells its table version.

    Reason to look, not to stop: a server may have written an odd default in another way.
    """
    if not _has_come(scene, *_SCHEMA):
        return Violations(tuple(_PROBLEM_ARROW.names))
    rows = scene.read("raw").where(F.col("role").isin(*_SCHEMA) & F.col("problem").isNull())
    new = rows.where(scene.new_batches).select("path", "version", "checksum", "content")
    return new.mapInArrow(_problems, _PROBLEM)


def _problems(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        wrong = []
        for row in batch.to_pylist():
            reason = _problem(row["content"], row["version"], row["checksum"])
            if reason is not None:
                named = {name: row[name] for name in ("path", "version", "checksum")}
                wrong.append({**named, "reason": reason})
        yield pa.RecordBatch.from_pylist(wrong, _PROBLEM_ARROW)


def _problem(content: bytes, version: int, checksum: int) -> str | None:
    try:
        file = read_schema_file(content)
    except DecodeError as error:
        return error.reason
    if file.checksum != checksum:
        return f"its content gives {file.checksum:010}"
    if file.version != version:
        return f"its content is of table version {file.version}"
    return None
