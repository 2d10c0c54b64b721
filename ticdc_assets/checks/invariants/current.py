"""What the lake promises of every current table: its status, its columns, its keys, its rows."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import NotEvaluated, Result, promise_per_table
from ticdc_assets.checks.invariants.queries import KnownRows
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import read_json
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.rows.columns import (
    COMMIT_TS,
    INEXACT,
    DeltaColumn,
    choose_delta_names,
    list_delta_columns,
    list_own_columns,
)
from ticdc_assets.safe_text import join_for_shell
from ticdc_assets.store.delta_log import VersionGone, count_rows
from ticdc_assets.store.reader import MANY_ROWS, LakeReader
from ticdc_assets.store.small_tables import open_frame, read_schema
from ticdc_assets.store.sql import quote_identifier
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.stream.privacy import is_protected
from ticdc_assets.stream.rules import make_rules
from ticdc_assets.verify.sampled_rows import SampleVerifier
from ticdc_assets.views.overview import find_blocking_ddl

_STATUS = ("status", "stopped_ts", "reason", "ddl", "resume_command", "skip_ddl_command")
_COLUMNS = ("position", "expected", "actual")
_DUPLICATES = ("key", "times", "last_commit_ts")
_ALTERED = ("commit_ts", "position", "file", "delta_version", "stated", "computed")
# How many rows of a table have their checksums verified, at most about.
_SAMPLED_ROWS, _SAMPLED_ROWS_IN_FULL = 100, 10_000
_ROW_COUNT = ("rows_before", "inserts", "deletes", "expected", "actual")
_CREATES_TABLE = re.compile(r"\s*(?:CREATE\s|TRUNCATE\s)", re.IGNORECASE)
_CHANGES_PARTITIONS = re.compile(r"\s*ALTER\s.*\bPARTITION", re.IGNORECASE | re.DOTALL)
_NO_ROWS = "the table has no rows yet"
_NOT_AS_SENT = (
    "not checked: [changefeed.privacy] changes columns of it, so its events are without checksums"
)
_STOPPED = "the table is paused or waiting"


@promise_per_table("ERROR")
def table_is_live(context: CheckContext, tables: Sequence[Incarnation]) -> Mapping[str, Result]:
    """The table has all its rows and is kept up to date: it is not paused, waiting or partial.

    A paused table needs a person to decide; a waiting one continues by itself.  Either is correct
    up to the ts shown here, and holds up no other table.  A partial table lacks rows that the
    changefeed does not send; whatever it sends is applied.
    """
    return {
        t.id: KnownRows(_STATUS, [] if t.shown_status == "live" else [_describe_status(context, t)])
        for t in tables
    }


def _describe_status(context: CheckContext, table: Incarnation) -> tuple[object, ...]:
    """Return why a table is not live, at which DDL it stopped, and the commands that resume it."""
    lake = context.lake
    ddl = resume = skip = None
    if table.status == "paused":
        name = f"{table.schema.database}.{table.schema.table}"
        where = ("--lake", lake.location.root, "--changefeed", context.feed.id)
        command = ["ticdc-assets", "resume", *where]
        resume = join_for_shell(command, [], name)
        blocking = find_blocking_ddl(LakeReader(lake.location), context.after.state, table)
        if blocking is not None and blocking[1][0] in (table.reason or ""):
            ddl, skip = blocking[1][0], join_for_shell(command, ["--skip-ddl"], name)
    stopped_ts = table.complete_ts if table.is_stopped else None
    return table.shown_status, stopped_ts, table.shown_reason, ddl, resume, skip


@promise_per_table("ERROR", blocking=True)
def columns_match_schema_history(
    context: CheckContext, tables: Sequence[Incarnation]
) -> Mapping[str, Result | NotEvaluated]:
    """The Delta table has exactly the columns of its newest schema, in order and type.

    Behind them are `_commit_ts` and, in some tables, `_deleted_at`, `_deleted_ts` and `_inexact`.
    """
    return {table.id: _compare_columns(context, table) for table in tables}


def _compare_columns(context: CheckContext, table: Incarnation) -> KnownRows | NotEvaluated:
    version = context.after.versions.get(table.id)
    if version is None or table.is_stopped:
        return NotEvaluated(_NO_ROWS if version is None else _STOPPED)
    if table.id not in context.newest_schemas:
        return NotEvaluated("the schema history has no version of the table")
    schema = read_json(context.newest_schemas[table.id], TableSchema)
    columns = (*list_delta_columns(schema, table.layout), *list_own_columns(table.layout))
    expected = [f"{c.name} {c.type}" for c in columns]
    types = read_schema(LakeReader(context.lake.location).open(f"current/{table.id}", version))
    if INEXACT in types.names:
        expected.append(f"{INEXACT} map<string,string>")
    actual = [f"{field.name} {field.dataType.simpleString()}" for field in types]
    width = max(len(expected), len(actual))
    pairs = zip(_pad(expected, width), _pad(actual, width), strict=True)
    return KnownRows(
        _COLUMNS, [(at, one, other) for at, (one, other) in enumerate(pairs, 1) if one != other]
    )


def _pad(texts: list[str], width: int) -> list[str | None]:
    return [*texts, *[None] * (width - len(texts))]


@promise_per_table("ERROR", blocking=True)
def keys_are_unique(
    context: CheckContext, tables: Sequence[Incarnation]
) -> Mapping[str, Result | NotEvaluated]:
    """No two rows have the same handle key.

    Only keys of rows that changed are compared with all others, except in a full check.
    """
    results: dict[str, Result | NotEvaluated] = {}
    for table in tables:
        key = _find_key(context, table)
        if isinstance(key, NotEvaluated):
            results[table.id] = key
            continue
        version, since = context.after.versions[table.id], _changed_since(context, table.id)
        stored = StoredRows(LakeReader(context.lake.location), f"current/{table.id}", version)
        if not stored.unknown_features and stored.count() <= MANY_ROWS:
            results[table.id] = _find_few_duplicates(stored, key, since)
        else:
            results[table.id] = _find_duplicates(_read_keys(context, table, key), since)
    return results


def _changed_since(context: CheckContext, incarnation: str) -> int:
    """Return the ts after which a table's rows have to have changed to be checked."""
    is_full = context.range.is_full or incarnation in context.replayed_tables
    return -1 if is_full else context.before.ts


def _find_key(context: CheckContext, table: Incarnation) -> list[DeltaColumn] | NotEvaluated:
    """Return the columns of a table's handle key."""
    names = choose_delta_names(table.schema)
    columns = [table.schema.column(name) for name in table.schema.key]
    key = [names[column.name] for column in columns if column is not None and column.name in names]
    if not key:
        return NotEvaluated("the table has no handle key: its rows have no identity")
    version = context.after.versions.get(table.id)
    if version is None:
        return NotEvaluated(_NO_ROWS)
    fields = read_schema(LakeReader(context.lake.location).open(f"current/{table.id}", version))
    types = {field.name: field.dataType.simpleString() for field in fields}
    if missing := set(key) - set(types):
        return NotEvaluated(f"the table lacks handle key columns: {', '.join(sorted(missing))}")
    return [DeltaColumn(name, types[name], comment="", column=name) for name in key]


def _find_few_duplicates(stored: StoredRows, key: Sequence[DeltaColumn], since: int) -> KnownRows:
    """Return what `_find_duplicates` does, of a table that this process reads."""
    times: Counter[tuple[tuple[Any, Any], ...]] = Counter()
    last: dict[tuple[tuple[Any, Any], ...], int] = defaultdict(int)
    names = [column.name for column in key]
    for block in stored.read([*names, INEXACT, COMMIT_TS]):
        texts = [dict(entries or ()) for entries in _read_column(block, INEXACT)]
        parts = (
            [(value, text.get(name)) for value, text in zip(values, texts, strict=True)]
            for name in names
            for values in [_read_column(block, name)]
        )
        keys = zip(*parts, strict=True)
        for row, ts in zip(keys, _read_column(block, COMMIT_TS), strict=True):
            if all(part != (None, None) for part in row):
                times[row] += 1
                last[row] = max(last[row], ts)
    duplicates = [
        (", ".join(str(value if text is None else text) for value, text in row), count, last[row])
        for row, count in times.items()
        if count > 1 and last[row] > since
    ]
    return KnownRows(_DUPLICATES, duplicates)


def _read_column(block: Mapping[str, pa.Array], name: str) -> list[Any]:
    """Return the values of a column; a DATE that has become a DATETIME is one."""
    column = block.get(name)
    if column is None:
        return [None] * len(block[COMMIT_TS])
    is_date = pa.types.is_date(column.type)
    values: list[Any] = (column.cast(pa.timestamp("us")) if is_date else column).to_pylist()
    return values


def _read_keys(context: CheckContext, table: Incarnation, key: Sequence[DeltaColumn]) -> DataFrame:
    """Return the handle keys of a table's rows, and the commit ts at which each last changed."""
    version = context.after.versions[table.id]
    rows = open_frame(context.lake, f"current/{table.id}", version)
    has_map = INEXACT in rows.columns
    parts, complete = [], F.lit(True)
    for number, column in enumerate(key):
        value = F.col(quote_identifier(column.name))
        text = F.col(INEXACT).getItem(column.name) if has_map else F.lit(None).cast("string")
        parts += [value.alias(f"k{number}"), text.alias(f"exact{number}")]
        complete &= value.isNotNull() | text.isNotNull()
    keys = F.struct(*parts).alias("key")
    return rows.where(complete).select(keys, F.col(COMMIT_TS).alias("ts"))


def _find_duplicates(keys: DataFrame, since: int) -> DataFrame:
    """Return keys that several rows have, one of which changed after a ts."""
    hashed = suspects = keys.withColumn("hash", F.xxhash64("key"))
    if since >= 0:
        # Reading a large table twice is cheaper than sorting all of it.
        new = hashed.where(F.col("ts") > since).select("hash")
        suspects = hashed.join(new, "hash", "left_semi")
    equal = suspects.groupBy("hash").count().where("count > 1").select("hash")
    counted = (
        hashed.join(equal, "hash", "left_semi")
        .groupBy("key")
        .agg(F.count(F.lit(1)).alias("times"), F.max("ts").alias("last_commit_ts"))
    )
    duplicates = counted.where(f"times > 1 AND last_commit_ts > {since}")
    parts = [f"key.{name}" for name in keys.select("key.*").columns]
    text = F.array_join(F.array(*(F.col(part).cast("string") for part in parts)), ", ")
    return duplicates.withColumn("key", text).select(*_DUPLICATES)


@promise_per_table("ERROR", blocking=True)
def row_count_matches_events(
    context: CheckContext, tables: Sequence[Incarnation]
) -> Mapping[str, Result | NotEvaluated]:
    """The number of rows grows by the inserts and shrinks by the deletes among the events.

    Events are counted in `events`, rows in Delta's log: the two counts are independent.  Where the
    events are not all that changes rows, the check is not evaluated and says why.
    """
    reader = LakeReader(context.lake.location)

    def count(id: str, versions: Mapping[str, int]) -> int:
        return count_rows(reader, f"current/{id}", versions[id]) if id in versions else 0

    def compare(table: Incarnation) -> Result | NotEvaluated:
        if (reason := _why_not_countable(context, table)) is not None:
            return NotEvaluated(reason)
        inserts, deletes = context.inserts_and_deletes.get(table.id, (0, 0))
        try:
            start = count(table.id, context.before.versions)
        except VersionGone as error:
            return NotEvaluated(f"maintenance has removed what it compares with: {error.reason}")
        actual = count(table.id, context.after.versions)
        expected = start + inserts - deletes
        rows = [(start, inserts, deletes, expected, actual)]
        return KnownRows(_ROW_COUNT, [] if actual == expected else rows)

    return {table.id: compare(table) for table in tables}


@promise_per_table("ERROR", blocking=True, applies_to=lambda feed: make_rules(feed).has_checksums)
def row_checksums_match(
    context: CheckContext, tables: Sequence[Incarnation]
) -> Mapping[str, Result | NotEvaluated]:
    """Rows of the table still have the checksums that TiCDC sent with them.

    Checks a random sample of the table's rows as they are stored.  When rows are applied, all of
    them are verified: one that differs goes to the quarantine.
    """
    verifier = SampleVerifier(LakeReader(context.lake.location))

    def verify(table: Incarnation) -> Result | NotEvaluated:
        version = context.after.versions.get(table.id)
        if version is None:
            return NotEvaluated(_NO_ROWS)
        if is_protected(table.schema):
            return NotEvaluated(_NOT_AS_SENT)
        is_full = context.range.is_full or table.id in context.replayed_tables
        rows = _SAMPLED_ROWS_IN_FULL if is_full else _SAMPLED_ROWS
        random = Random(f"{table.id} {context.range.through}")
        sample = verifier.verify(table.id, version, rows, random)
        if not sample.right and not sample.altered:
            return NotEvaluated("no sampled row has an event with a checksum that can be verified")
        altered = [
            (row.commit_ts, row.position, row.file, version, row.stated, row.computed)
            for row in sample.altered
        ]
        return KnownRows(_ALTERED, altered)

    with ThreadPoolExecutor() as pool:
        return dict(zip([t.id for t in tables], pool.map(verify, tables), strict=True))


def _why_not_countable(context: CheckContext, table: Incarnation) -> str | None:
    """Return why the events of the range do not determine the number of rows."""
    if table.is_stopped:
        return _STOPPED
    if table.partial_reason is not None:
        return "the table is partial: deletes may concern rows never sent"
    if table.layout.archived:
        return "the table keeps deleted rows"
    if table.id in context.tables_with_erasures:
        return "a row of the table was erased, and later events may concern it"
    if not table.schema.key:
        return "the table has no handle key: a repeated row looks like a second equal row"
    if table.id in context.replayed_tables:
        return "the table was replayed"
    if context.lake.feed.may_lack_deletes:
        return "the changefeed leaves changes out, so a row may be inserted twice"
    if context.after.state.skipped_ddls:
        return "a DDL was skipped"
    if context.has_quarantined_rows(table):
        return "rows are in the quarantine"
    versions = context.schema_versions_by_table.get(table.id, [])
    first = min(versions, key=lambda row: row["valid_from"], default=None)
    if table.is_loaded:
        if table.id not in context.before.versions:
            return "the table was loaded"
    elif first is None or not _CREATES_TABLE.match(first["sql"] or ""):
        return "the table is older than the changefeed: deletes may concern rows never sent"
    altered = [row for row in versions if _CHANGES_PARTITIONS.match(row["sql"] or "")]
    if any("EXCHANGE" in row["sql"].upper() for row in altered):
        return "rows were exchanged with another table"
    if any(row["valid_from"] > context.before.ts for row in altered):
        return "a DDL changed partitions and may have removed rows"
    if table.id in context.uncountable_tables:
        return "events have no commit ts, or do not distinguish inserts from updates"
    return None
