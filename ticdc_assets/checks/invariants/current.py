"""What the lake promises of every current table: its status, its columns, its keys, its rows."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import and_
from random import Random

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from resources.catalog import count_files
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import (
    NotEvaluated,
    Result,
    Violations,
    promise_per_table,
)
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import read_json
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import get_column, has_value, identify, read_entries
from ticdc_assets.lake.columns.types import DeltaColumn, choose_delta_names, list_delta_columns
from ticdc_assets.lake.store.contracts import COMMIT_TS, INEXACT
from ticdc_assets.lake.store.delta_log import count_rows
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.small_tables import read_schema
from ticdc_assets.lake.verify.sampled_rows import SampleVerifier
from ticdc_assets.lake.views.overview import find_blocking_ddl
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.safe_text import join_for_shell
from ticdc_assets.stream.rules import make_rules

_STATUS = ("status", "stopped_ts", "reason", "ddl", "resume_command", "skip_ddl_command")
_COLUMNS = ("position", "expected", "actual")
_DUPLICATES = ("key", "times", "last_commit_ts")
_ALTERED = ("commit_ts", "position", "file", "delta_version", "stated", "computed")
# How many rows of a table have their checksums verified, at most about.
_SAMPLED_ROWS, _SAMPLED_ROWS_IN_FULL = 100, 10_000
_ROW_COUNT = ("rows_before", "inserts", "deletes", "expected", "actual")
# One Spark job checks the keys of this many tables, if each has at most this many bytes.
_TABLES_PER_JOB = 20
_SMALL_TABLE_BYTES = 32 << 20
_CREATES_TABLE = re.compile(r"\s*(?:CREATE\s|TRUNCATE\s)", re.IGNORECASE)
_CHANGES_PARTITIONS = re.compile(r"\s*ALTER\s.*\bPARTITION", re.IGNORECASE | re.DOTALL)
_NO_ROWS = "the table has no rows yet"
_STOPPED = "the table is paused or waiting"


@promise_per_table("ERROR")
def table_is_live(context: CheckContext, tables: Sequence[Incarnation]) -> Mapping[str, Result]:
    """The table has all its rows and is kept up to date: it is not paused, waiting or partial.

    A paused table needs a person to decide; a waiting one continues by itself.  Either is correct
    up to the ts shown here, and holds up no other table.  A partial table lacks rows that the
    changefeed does not send; whatever it sends is applied.
    """
    return {
        t.id: Violations(
            _STATUS, [] if t.shown_status == "live" else [_describe_status(context, t)]
        )
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
    stopped_ts = table.stopped_ts if table.is_stopped else None
    return table.shown_status, stopped_ts, table.shown_reason, ddl, resume, skip


@promise_per_table("ERROR", blocking=True)
def columns_match_schema_history(
    context: CheckContext, tables: Sequence[Incarnation]
) -> Mapping[str, Result | NotEvaluated]:
    """The Delta table has exactly the columns of its newest schema, in order and type.

    Behind them are `_commit_ts` and, in some tables, `_inexact`.
    """
    return {table.id: _compare_columns(context, table) for table in tables}


def _compare_columns(context: CheckContext, table: Incarnation) -> Violations | NotEvaluated:
    version = context.after.versions.get(table.id)
    if version is None or table.is_stopped:
        return NotEvaluated(_NO_ROWS if version is None else _STOPPED)
    if table.id not in context.newest_schemas:
        return NotEvaluated("the schema history has no version of the table")
    schema = read_json(context.newest_schemas[table.id], TableSchema)
    expected = [f"{c.name} {c.type}" for c in list_delta_columns(schema)] + [f"{COMMIT_TS} bigint"]
    types = read_schema(LakeReader(context.lake.location).open(f"current/{table.id}", version))
    if INEXACT in types.names:
        expected.append(f"{INEXACT} map<string,string>")
    actual = [f"{field.name} {field.dataType.simpleString()}" for field in types]
    width = max(len(expected), len(actual))
    pairs = zip(_pad(expected, width), _pad(actual, width), strict=True)
    return Violations(
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
    results = {table.id: _read_keys(context, table) for table in tables}
    keys = {id: frame for id, frame in results.items() if isinstance(frame, DataFrame)}
    unique: dict[str, Result | NotEvaluated] = dict.fromkeys(keys, Violations(_DUPLICATES))
    suspects = _find_tables_with_equal_hashes(context, keys)
    duplicates = {id: _find_duplicates(keys[id], _changed_since(context, id)) for id in suspects}
    return results | unique | duplicates


def _changed_since(context: CheckContext, incarnation: str) -> int:
    """Return the ts after which a table's rows have to have changed to be checked."""
    is_full = context.range.is_full or incarnation in context.replayed_tables
    return -1 if is_full else context.before.ts


def _find_tables_with_equal_hashes(
    context: CheckContext, keys: Mapping[str, DataFrame]
) -> set[str]:
    """Return tables in which two keys have the same hash; small tables share a Spark job."""
    after = context.after.versions
    sizes = {id: count_files(context.lake.location, id, after[id])[1] for id in keys}
    small = [id for id in keys if sizes[id] < _SMALL_TABLE_BYTES]
    jobs = [small[i : i + _TABLES_PER_JOB] for i in range(0, len(small), _TABLES_PER_JOB)]
    jobs += [[id] for id in keys if sizes[id] >= _SMALL_TABLE_BYTES]
    suspects: set[str] = set()
    for ids in jobs:
        since = [_changed_since(context, id) for id in ids]
        hashes = [
            keys[id].select(
                F.lit(number).alias("table"),
                F.xxhash64("key").alias("hash"),
                (F.col("ts") > since[number]).alias("is_new"),
            )
            for number, id in enumerate(ids)
        ]
        hashed = combine_pairwise(DataFrame.union, hashes)
        if sizes[ids[0]] >= _SMALL_TABLE_BYTES and since[0] >= 0:
            # Reading a large table twice is cheaper than sorting all of it.
            new = hashed.where("is_new").select("table", "hash")
            hashed = hashed.join(new, ["table", "hash"], "left_semi")
        counted = hashed.groupBy("table", "hash").agg(
            F.count(F.lit(1)).alias("count"), F.max("is_new").alias("is_new")
        )
        equal = counted.where("count > 1 AND is_new").select("table").distinct()
        suspects |= {ids[row[0]] for row in equal.collect()}
    return suspects


def _read_keys(context: CheckContext, table: Incarnation) -> DataFrame | NotEvaluated:
    """Return the handle keys of a table's rows, and the commit ts at which each last changed."""
    names = choose_delta_names(table.schema)
    columns = [table.schema.column(name) for name in table.schema.key]
    key = [names[column.name] for column in columns if column is not None and column.name in names]
    if not key:
        return NotEvaluated("the table has no handle key: its rows have no identity")
    rows = _read_rows(context, table)
    if rows is None:
        return NotEvaluated(_NO_ROWS)
    types = dict(rows.dtypes)
    if missing := set(key) - set(types):
        return NotEvaluated(f"the table lacks handle key columns: {', '.join(sorted(missing))}")
    key_columns = [DeltaColumn(name, types[name], comment="", column=name) for name in key]
    complete = combine_pairwise(and_, (has_value(column, get_column) for column in key_columns))
    values = identify(key_columns, get_column)
    fields = (value.alias(f"k{number}") for number, value in enumerate(values))
    return (
        read_entries(rows)
        .where(complete)
        .select(F.struct(*fields).alias("key"), F.col(COMMIT_TS).alias("ts"))
    )


def _find_duplicates(keys: DataFrame, since: int) -> DataFrame:
    """Return keys that several rows have, one of which changed after a ts."""
    counted = keys.groupBy("key").agg(
        F.count(F.lit(1)).alias("times"), F.max("ts").alias("last_commit_ts")
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
        start = count(table.id, context.before.versions)
        actual = count(table.id, context.after.versions)
        expected = start + inserts - deletes
        rows = [(start, inserts, deletes, expected, actual)]
        return Violations(_ROW_COUNT, [] if actual == expected else rows)

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
        return Violations(_ALTERED, altered)

    with ThreadPoolExecutor() as pool:
        return dict(zip([t.id for t in tables], pool.map(verify, tables), strict=True))


def _why_not_countable(context: CheckContext, table: Incarnation) -> str | None:
    """Return why the events of the range do not determine the number of rows."""
    if table.is_stopped:
        return _STOPPED
    if table.partial_reason is not None:
        return "the table is partial: deletes may concern rows never sent"
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


def _read_rows(context: CheckContext, table: Incarnation) -> DataFrame | None:
    version = context.after.versions.get(table.id)
    if version is None:
        return None
    return CurrentTable(context.lake, table.id).rows(version)
