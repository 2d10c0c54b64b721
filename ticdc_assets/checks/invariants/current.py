"""What the lake promises of every current table: it goes on, its shape, its keys, its rows."""

import re
import shlex
from collections.abc import Mapping, Sequence
from operator import and_

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from resources.catalog import table_files
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import (
    Found,
    NotEvaluated,
    Violations,
    promise_of_tables,
)
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.current_table import CurrentTable, row_count_growth, row_counts
from ticdc_assets.lake.columns.expressions import combine_balanced
from ticdc_assets.lake.columns.types import choose_delta_names, list_delta_columns
from ticdc_assets.lake.store.contracts import COMMIT_TS
from ticdc_assets.lake.store.sql import quote_identifier
from ticdc_assets.lake.views.overview import find_blocking_ddl
from ticdc_assets.plan.state import Incarnation

_STOPPED = ("state", "since_ts", "reason", "ddl", "go_on", "without")
_SHAPE = ("place", "should_be", "is")
_TWICE = ("key", "times", "last_commit_ts")
_COUNT = ("rows_before", "inserts", "deletes", "should_be", "rows")
# So many tables are looked into by one job, if they have so few bytes.
_AT_ONCE = 20
_SMALL = 32 << 20
_BIRTH = re.compile(r"\s*(?:CREATE\s|TRUNCATE\s)", re.IGNORECASE)
_PARTITIONS = re.compile(r"\s*ALTER\s.*\bPARTITION", re.IGNORECASE | re.DOTALL)
_NO_ROWS = "the table has no rows yet"


@promise_of_tables("ERROR")
def table_is_live(scene: CheckContext, tables: Sequence[Incarnation]) -> Mapping[str, Found]:
    """No table is paused, or waits for its schema: each is kept right up to the resolved ts.

    A paused table needs a person; a waiting one goes on by itself.  Either is right as far as it
    goes, and holds up nothing else.
    """
    return {t.id: Violations(_STOPPED, [_stop(scene, t)] if t.is_stopped else []) for t in tables}


def _stop(scene: CheckContext, table: Incarnation) -> tuple[object, ...]:
    """Why a table is stopped, at which DDL, and the commands to go on."""
    name = f"{table.schema.database}.{table.schema.table}"
    words = [
        "ticdc-assets",
        "resume",
        "--lake",
        scene.lake.location.root,
        "--changefeed",
        scene.feed.id,
    ]
    ddl = go_on = without = None
    if table.status == "paused":
        found = find_blocking_ddl(scene.lake, scene.after.state, table)
        go_on = shlex.join([*words, name])
        if found is not None and found[1][0] in (table.reason or ""):
            ddl, without = found[1][0], shlex.join([*words, name, "--skip-ddl"])
    return table.status, table.stopped_ts, table.reason, ddl, go_on, without


@promise_of_tables("ERROR", blocking=True)
def columns_match_schema_history(
    scene: CheckContext, tables: Sequence[Incarnation]
) -> Mapping[str, Found | NotEvaluated]:
    """The Delta table has just the columns, in order and type, of its newest schema."""
    return {table.id: _shape(scene, table) for table in tables}


def _shape(scene: CheckContext, table: Incarnation) -> Violations | NotEvaluated:
    rows = _rows(scene, table)
    if rows is None or table.is_stopped:
        return NotEvaluated(_NO_ROWS if rows is None else "the table is stopped")
    if table.id not in scene.schemas:
        return NotEvaluated("the schema history has nothing of the table")
    schema = msgspec.json.decode(scene.schemas[table.id], type=TableSchema)
    wanted = [f"{c.name} {c.type}" for c in list_delta_columns(schema)] + [f"{COMMIT_TS} bigint"]
    there = [f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields]
    width = max(len(wanted), len(there))
    pairs = zip(_padded(wanted, width), _padded(there, width), strict=True)
    wrong = [(place, one, other) for place, (one, other) in enumerate(pairs, 1) if one != other]
    return Violations(_SHAPE, wrong)


def _padded(texts: list[str], width: int) -> list[str | None]:
    return [*texts, *[None] * (width - len(texts))]


@promise_of_tables("ERROR", blocking=True)
def keys_are_unique(
    scene: CheckContext, tables: Sequence[Incarnation]
) -> Mapping[str, Found | NotEvaluated]:
    """No two rows have the same handle key.

    Looked for among the keys of rows that changed in the window.
    """
    found = {table.id: _keys(scene, table) for table in tables}
    keys = {id: frame for id, frame in found.items() if isinstance(frame, DataFrame)}
    doubted = _doubted(scene, keys)
    unique: dict[str, Found | NotEvaluated] = dict.fromkeys(keys, Violations(_TWICE))
    return found | unique | {id: _twice(keys[id], _since(scene, id)) for id in doubted}


def _since(scene: CheckContext, incarnation: str) -> int:
    """Rows of a table are looked at if they changed after this ts."""
    is_whole = scene.window.is_whole or incarnation in scene.replayed
    return -1 if is_whole else scene.before.ts


def _doubted(scene: CheckContext, keys: Mapping[str, DataFrame]) -> set[str]:
    """Tables that may have a key twice, by a hash of it: small tables are one job."""
    after = scene.after.versions
    sizes = {id: table_files(scene.lake.current_path(id), after[id])[1] for id in keys}
    small = [id for id in keys if sizes[id] < _SMALL]
    parts = [small[start : start + _AT_ONCE] for start in range(0, len(small), _AT_ONCE)]
    doubted: set[str] = set()
    for some in [*parts, *([id] for id in keys if sizes[id] >= _SMALL)]:
        hashed = [
            keys[id].select(
                F.lit(at).alias("table"),
                F.xxhash64("key").alias("hash"),
                (F.col("ts") > _since(scene, id)).alias("is_new"),
            )
            for at, id in enumerate(some)
        ]
        told = combine_balanced(DataFrame.union, hashed)
        if sizes[some[0]] >= _SMALL and _since(scene, some[0]) >= 0:
            # Read twice, so that only what has changed is sorted.
            new = told.where("is_new").select("table", "hash")
            told = told.join(new, ["table", "hash"], "left_semi")
        counted = told.groupBy("table", "hash").agg(
            F.count(F.lit(1)).alias("count"), F.max("is_new").alias("is_new")
        )
        twice = counted.where("count > 1 AND is_new").select("table").distinct()
        doubted |= {some[row[0]] for row in twice.collect()}
    return doubted


def _keys(scene: CheckContext, table: Incarnation) -> DataFrame | NotEvaluated:
    """The keys of a table's rows, and when those last changed."""
    names = choose_delta_names(table.schema)
    columns = [table.schema.column(name) for name in table.schema.key]
    key = [names[column.name] for column in columns if column is not None and column.name in names]
    if not key:
        return NotEvaluated("the table has no key: its rows have no identity")
    rows = _rows(scene, table)
    if rows is None:
        return NotEvaluated(_NO_ROWS)
    if missing := set(key) - set(rows.columns):
        return NotEvaluated(f"the key's columns are not there: {', '.join(sorted(missing))}")
    # A date that Delta has no value for is NULL, and several of them are.
    columns_of_key = [F.col(quote_identifier(name)) for name in key]
    told = rows.where(combine_balanced(and_, (column.isNotNull() for column in columns_of_key)))
    named = (column.alias(f"k{at}") for at, column in enumerate(columns_of_key))
    return told.select(F.struct(*named).alias("key"), F.col(COMMIT_TS).alias("ts"))


def _twice(keys: DataFrame, since: int) -> DataFrame:
    """Keys that several rows have, one of which changed after a ts."""
    counted = keys.groupBy("key").agg(
        F.count(F.lit(1)).alias("times"), F.max("ts").alias("last_commit_ts")
    )
    twice = counted.where(f"times > 1 AND last_commit_ts > {since}")
    parts = [f"key.{name}" for name in keys.select("key.*").columns]
    shown = F.array_join(F.array(*(F.col(part).cast("string") for part in parts)), ", ")
    return twice.withColumn("key", shown).select(*_TWICE)


@promise_of_tables("ERROR", blocking=True)
def row_count_matches_events(
    scene: CheckContext, tables: Sequence[Incarnation]
) -> Mapping[str, Found | NotEvaluated]:
    """A window changes the number of rows by its inserts less its deletes.

    Counted from the events and from Delta's log, so neither knows of what was made of them.  It
    cannot be told where the events are not all that changes rows: see the reason given.
    """
    reasons = {table.id: _why_not_told(scene, table) for table in tables}
    before, after = scene.before.versions, scene.after.versions
    told = {id for id, reason in reasons.items() if reason is None}
    spans = {id: (before[id], after[id]) for id in told & before.keys() & after.keys()}
    grew = row_count_growth(scene.lake, spans)
    # To be counted: what the log does not tell of, and what is not as it should be.
    counted = {
        id
        for id in told
        for inserts, deletes in [scene.row_changes.get(id, (0, 0))]
        if grew.get(id) != inserts - deletes
    }
    had, has = (
        row_counts(scene.lake, {id: versions[id] for id in counted & versions.keys()})
        for versions in (before, after)
    )

    def of(id: str) -> Found | NotEvaluated:
        if (reason := reasons[id]) is not None:
            return NotEvaluated(reason)
        if id not in counted:
            return Violations(_COUNT)
        inserts, deletes = scene.row_changes.get(id, (0, 0))
        rows_before, rows = had.get(id, 0), has.get(id, 0)
        wanted = rows_before + inserts - deletes
        wrong = [(rows_before, inserts, deletes, wanted, rows)]
        return Violations(_COUNT, [] if rows == wanted else wrong)

    return {id: of(id) for id in reasons}


def _why_not_told(scene: CheckContext, table: Incarnation) -> str | None:
    """Why the events of a window do not tell the number of rows."""
    if table.is_stopped:
        return "the table is stopped"
    if not table.schema.key:
        return "the table has no key: rows that are sent again cannot be told from equal ones"
    if table.id in scene.replayed:
        return "the table was replayed in the window"
    if scene.after.state.skipped_ddls:
        return "a DDL was skipped"
    if scene.has_refused_of(table):
        return "rows are in the quarantine"
    history = scene.versions_of.get(table.id, [])
    first = min(history, key=lambda line: line["valid_from"], default=None)
    if first is None or not _BIRTH.match(first["sql"] or ""):
        return "the table was there before the changefeed: rows may be deleted that never came"
    altered = [line for line in history if _PARTITIONS.match(line["sql"] or "")]
    if any("EXCHANGE" in line["sql"].upper() for line in altered):
        return "rows were exchanged with another table"
    if any(line["valid_from"] > scene.before.ts for line in altered):
        return "a DDL of the window concerns partitions, and may have removed rows"
    if table.id in scene.undated:
        return "its events have no commit ts, or do not tell an insert from an update"
    return None


def _rows(scene: CheckContext, table: Incarnation) -> DataFrame | None:
    version = scene.after.versions.get(table.id)
    if version is None:
        return None
    return CurrentTable(scene.lake, table.id).rows(version)
