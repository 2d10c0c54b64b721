"""What the storage sink promises of its folder: file numbers, immutable files, schema files."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import Result, Violations, promise
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


def _has_new_files(context: CheckContext, *roles: str) -> bool:
    """Return whether the range ingested files of these roles."""
    return any(row["role"] in roles for row in context.ingested_counts)


@promise("raw", "WARN", applies_to=_is_folder)
def data_file_numbers_have_no_gaps(context: CheckContext) -> Result:
    """Data files of one directory and dispatcher are numbered from 1 without a gap.

    A gap means that a file is lost, was deleted before it was read, or has not been listed yet.
    """
    if not _has_new_files(context, *_DATA):
        return Violations(_GAP)
    directory = F.regexp_extract("path", "^(.*)/[^/]*$", 1).alias("directory")
    columns = (directory, "dispatcher", "number", "path", "batch")
    files = context.read("raw").where(F.col("role").isin(*_DATA)).select(*columns)
    # Counting shows whether any number is missing; only then is it worth sorting to find which.
    numbers = F.collect_set(F.when(F.col("number") > 0, F.col("number")))
    counted = files.groupBy("directory", "dispatcher").agg(
        F.size(numbers).alias("present"),
        F.max("number").alias("last"),
        F.max("batch").alias("batch"),
    )
    if counted.where(f"present < last AND batch > {context.before.batch}").isEmpty():
        return Violations(_GAP)
    if not context.range.is_full:
        new = files.where(context.in_new_batches).select("directory").distinct()
        files = files.join(F.broadcast(new), "directory", "left_semi")
    first = files.groupBy("directory", "dispatcher", "number", "path").agg(
        F.min("batch").alias("batch")
    )
    in_order = SparkWindow.partitionBy("directory", "dispatcher").orderBy("number")
    numbered = first.withColumn(
        "number_before", F.coalesce(F.lag("number").over(in_order), F.lit(0))
    )
    gaps = numbered.where(f"number > number_before + 1 AND batch > {context.before.batch}")
    missing = ("number_before + 1 AS first_missing", "number - 1 AS last_missing")
    return gaps.selectExpr("directory", *missing, "path")


@promise("raw", "WARN", applies_to=_is_folder)
def data_files_are_immutable(context: CheckContext) -> Result:
    """A data file is written once: it is never appended to, and its number is never reused.

    When a file changes, its new content replaces the old one and its table is replayed.
    """
    if not _has_new_files(context, "changed data"):
        return Violations(_CHANGED)
    changed = context.read("raw").where("role = 'changed data'").where(context.in_new_batches)
    return changed.withColumn("modified", F.col("modified").cast("string")).select(*_CHANGED)


@promise("raw", "WARN", applies_to=_is_folder)
def data_files_are_readable(context: CheckContext) -> Result:
    """Every data file can be decoded: the schema file of its table version came before it.

    A CSV file without its schema file waits, and so does a file that the storage fails to return.
    """
    if context.after.decoded_batch == context.after.batch:
        return Violations(_WAITING)
    batches = f"batch > {context.after.decoded_batch} AND batch <= {context.after.batch}"
    files = context.read("raw").where(F.col("role").isin(*_DATA)).where(batches)
    decoded = context.read("events").where(
        f"kind = 'file' AND batch > {context.after.decoded_batch}"
    )
    same = F.expr("file.path = decoded.source AND file.seq = decoded.seq")
    waiting = files.alias("file").join(decoded.alias("decoded"), same, "left_anti")
    return waiting.select(*_WAITING)


@promise("raw", "WARN", applies_to=_is_folder)
def schema_file_checksums_match(context: CheckContext) -> Result:
    """The name of a schema file states the table version and the CRC-32 of its content.

    A mismatch only warns: a TiCDC server may have formatted an unusual default differently.
    """
    if not _has_new_files(context, *_SCHEMA):
        return Violations(tuple(_PROBLEM_ARROW.names))
    files = context.read("raw").where(F.col("role").isin(*_SCHEMA) & F.col("problem").isNull())
    new = files.where(context.in_new_batches).select("path", "version", "checksum", "content")
    return new.mapInArrow(_find_problems, _PROBLEM)


def _find_problems(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        problems = []
        for row in batch.to_pylist():
            reason = _find_problem(row["content"], row["version"], row["checksum"])
            if reason is not None:
                named = {name: row[name] for name in ("path", "version", "checksum")}
                problems.append({**named, "reason": reason})
        yield pa.RecordBatch.from_pylist(problems, _PROBLEM_ARROW)


def _find_problem(content: bytes, version: int, checksum: int | None) -> str | None:
    try:
        file = read_schema_file(content)
    except DecodeError as error:
        return error.reason
    if checksum is not None and file.checksum != checksum:
        return f"the checksum of the content is {file.checksum:010}"
    if file.version != version:
        return f"the content states table version {file.version}"
    return None
