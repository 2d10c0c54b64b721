"""What the storage sink promises of its folder: file numbers, immutable files, schema files."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import Result, promise
from ticdc_assets.checks.invariants.queries import (
    GetColumn,
    KnownRows,
    choose_rows,
    is_null,
    map_rows,
)
from ticdc_assets.errors import DecodeError
from ticdc_assets.storage_sink.schema_file import read_schema_file
from ticdc_assets.store.arrow import arrow_schema

_DATA = ("data", "changed data")
_SCHEMA = ("schema", "changed schema")
_GAP = ("directory", "first_missing", "last_missing", "path")
_CHANGED = ("path", "size", "modified")
_WAITING = ("path", "database", "table", "version", "size")
_PROBLEM = "path string, version bigint, checksum bigint, reason string"
_PROBLEM_ARROW = arrow_schema(_PROBLEM)


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
        return KnownRows(_GAP)
    files = context.read("raw", ("path", "role", "dispatcher", "number", "batch"))
    named = (
        "SELECT regexp_extract(path, '^(.*)/[^/]*$', 1) AS directory, dispatcher, number, path,"
        f" batch FROM {{files}} f WHERE role IN {_DATA}"
    )
    before = context.before.batch
    # Counting shows whether any number is missing; only then is it worth sorting to find which.
    incomplete = context.query(
        f"SELECT directory FROM ({named}) n GROUP BY directory, dispatcher"
        " HAVING count(DISTINCT CASE WHEN number > 0 THEN number END) < max(number)"
        f" AND max(batch) > {before} LIMIT 1",
        files=files,
    )
    if not incomplete.collect():
        return KnownRows(_GAP)
    if not context.range.is_full:
        named = (
            f"SELECT * FROM ({named}) n WHERE directory IN"
            f" (SELECT directory FROM ({named}) o WHERE {context.in_new_batches})"
        )
    return context.query(
        "SELECT directory, number_before + 1 AS first_missing, number - 1 AS last_missing, path"
        " FROM (SELECT *, coalesce(lag(number) OVER"
        " (PARTITION BY directory, dispatcher ORDER BY number), 0) AS number_before"
        " FROM (SELECT directory, dispatcher, number, path, min(batch) AS batch"
        f" FROM ({named}) m GROUP BY ALL) first) ordered"
        f" WHERE number > number_before + 1 AND batch > {before}",
        files=files,
    )


@promise("raw", "WARN", applies_to=_is_folder)
def data_files_are_immutable(context: CheckContext) -> Result:
    """A data file is written once: it is never appended to, and its number is never reused.

    When a file changes, its new content replaces the old one and its table is replayed.
    """
    if not _has_new_files(context, "changed data"):
        return KnownRows(_CHANGED)
    columns = ("path", "role", "size", "modified", "batch", "seq")
    return context.query(
        "SELECT r.path, r.size, CAST(r.modified AS STRING) AS modified FROM {raw} r"
        f" WHERE r.role = 'changed data' AND {context.in_new_batches}"
        # A stray is read when the declaration fits: it has not changed.
        " AND EXISTS (SELECT 1 FROM {raw} b WHERE b.path = r.path AND b.seq < r.seq"
        f" AND b.role IN {_DATA})",
        raw=context.read("raw", columns),
    )


@promise("raw", "WARN", applies_to=_is_folder)
def data_files_are_readable(context: CheckContext) -> Result:
    """Every data file can be decoded: the schema file of its table version came before it.

    A CSV file without its schema file waits, and so does a file that the storage fails to return.
    """
    if context.after.decoded_batch == context.after.batch:
        return KnownRows(_WAITING)
    new = {"batch": context.after.decoded_batch}
    shown = ", ".join(f"f.{name}" for name in _WAITING)
    return context.query(
        f"SELECT {shown} FROM {{files}} f WHERE f.role IN {_DATA}"
        f" AND f.batch > {context.after.decoded_batch} AND f.batch <= {context.after.batch}"
        " AND NOT EXISTS (SELECT 1 FROM {decoded} d"
        " WHERE d.kind = 'file' AND d.source = f.path AND d.seq = f.seq)",
        files=context.read("raw", (*_WAITING, "role", "seq", "batch"), new),
        decoded=context.read("events", ("kind", "source", "seq"), new),
    )


@promise("raw", "WARN", applies_to=_is_folder)
def schema_file_checksums_match(context: CheckContext) -> Result:
    """The name of a schema file states the table version and the CRC-32 of its content.

    A mismatch only warns: a TiCDC server may have formatted an unusual default differently.
    """
    if not _has_new_files(context, *_SCHEMA):
        return KnownRows(tuple(_PROBLEM_ARROW.names))
    columns = ("path", "version", "checksum", "content", "role", "problem", "batch")
    raw = context.read("raw", columns, {"batch": context.before.batch})

    def is_checked(get: GetColumn) -> Any:
        is_new = (get("batch") > context.before.batch) & (get("batch") <= context.after.batch)
        return get("role").isin(list(_SCHEMA)) & is_null(get("problem")) & is_new

    problems = map_rows(choose_rows(raw, is_checked), _find_problems, _PROBLEM)
    return context.query("SELECT * FROM {problems} p", problems=problems)


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
