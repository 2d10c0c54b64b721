"""What the lake promises of every current table: it goes on, its shape, its keys, its rows."""

import re
import shlex

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.checks.invariants.invariant import NotTold, promised_of_tables
from ticdc_assets.checks.invariants.scene import Scene
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.current import CurrentTable
from ticdc_assets.lake.overview import stopped_at
from ticdc_assets.lake.row_types import delta_columns, delta_names
from ticdc_assets.lake.tables import COMMIT_TS, quoted
from ticdc_assets.plan.state import Incarnation

_STOPPED = "state string, since_ts bigint, reason string, ddl string, go_on string, without string"
_SHAPE = "place bigint, should_be string, is string"
_COUNT = "rows_before bigint, inserts bigint, deletes bigint, should_be bigint, rows bigint"
_BIRTH = re.compile(r"\s*(?:CREATE\s|TRUNCATE\s)", re.IGNORECASE)
_PARTITIONS = re.compile(r"\s*ALTER\s.*\bPARTITION", re.IGNORECASE | re.DOTALL)
_NO_ROWS = "the table has no rows yet"


@promised_of_tables("ERROR")
def table_goes_on(scene: Scene, table: Incarnation) -> DataFrame:
    """No table is paused, or waits for its schema: each is kept right up to the resolved ts.

    A paused table needs a person; a waiting one goes on by itself.  Either is right as far as it
    goes, and holds up nothing else.
    """
    if not table.stopped:
        return scene.frame([], _STOPPED)
    name = f"{table.schema.database}.{table.schema.table}"
    words = ["ticdc-assets", "resume", "--lake", scene.lake.root, "--changefeed", scene.feed.id]
    ddl = go_on = without = None
    if table.status == "paused":
        found = stopped_at(scene.spark, scene.lake, scene.after.state, table)
        go_on = shlex.join([*words, name])
        if found is not None and found[1][0] in (table.reason or ""):
            ddl, without = found[1][0], shlex.join([*words, name, "--skip-ddl"])
    since = table.stopped_ts
    return scene.frame([(table.status, since, table.reason, ddl, go_on, without)], _STOPPED)


@promised_of_tables("ERROR", blocking=True)
def columns_are_those_of_the_schema_history(
    scene: Scene, table: Incarnation
) -> DataFrame | NotTold:
    """The Delta table has just the columns, in order and type, of its newest schema."""
    rows = _rows(scene, table)
    if rows is None or table.stopped:
        return NotTold(_NO_ROWS if rows is None else "the table is stopped")
    if table.id not in scene.schemas:
        return NotTold("the schema history has nothing of the table")
    schema = msgspec.json.decode(scene.schemas[table.id], type=TableSchema)
    wanted = [f"{c.name} {c.type}" for c in delta_columns(schema)] + [f"{COMMIT_TS} bigint"]
    there = [f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields]
    width = max(len(wanted), len(there))
    pairs = zip(_padded(wanted, width), _padded(there, width), strict=True)
    wrong: list[tuple[object, ...]] = [
        (place, one, other) for place, (one, other) in enumerate(pairs, 1) if one != other
    ]
    return scene.frame(wrong, _SHAPE)


def _padded(texts: list[str], width: int) -> list[str | None]:
    return [*texts, *[None] * (width - len(texts))]


@promised_of_tables("ERROR", blocking=True)
def keys_are_unique(scene: Scene, table: Incarnation) -> DataFrame | NotTold:
    """No two rows have the same handle key.

    Looked for among the keys of rows that changed in the window.
    """
    names = delta_names(table.schema)
    columns = [table.schema.column(name) for name in table.schema.key]
    key = [names[column.name] for column in columns if column is not None and column.name in names]
    if not key:
        return NotTold("the table has no key: its rows have no identity")
    rows = _rows(scene, table)
    if rows is None:
        return NotTold(_NO_ROWS)
    if missing := set(key) - set(rows.columns):
        return NotTold(f"the key's columns are not there: {', '.join(sorted(missing))}")
    # A date that Delta has no value for is NULL, and several of them are.
    told = rows.select(
        *(F.col(quoted(name)).alias(f"k{at}") for at, name in enumerate(key)),
        F.col(COMMIT_TS).alias("ts"),
    ).dropna(subset=[f"k{at}" for at in range(len(key))])
    short = [f"k{at}" for at in range(len(key))]
    if not scene.window.is_whole and table.id not in scene.replayed:
        changed = told.where(F.col("ts") > scene.before.ts).select(*short).distinct()
        told = told.join(changed, short, "left_semi")
    counted = told.groupBy(*short).agg(
        F.count(F.lit(1)).alias("times"), F.max("ts").alias("last_commit_ts")
    )
    twice = counted.where("times > 1")
    shown = [F.col(k).cast("string").alias(name) for k, name in zip(short, key, strict=True)]
    return twice.select(F.array_join(F.array(*shown), ", ").alias("key"), "times", "last_commit_ts")


@promised_of_tables("ERROR", blocking=True)
def row_count_is_inserts_less_deletes(scene: Scene, table: Incarnation) -> DataFrame | NotTold:
    """A window changes the number of rows by its inserts less its deletes.

    Counted from the events and from Delta's log, so neither knows of what was made of them.  It
    cannot be told where the events are not all that changes rows: see the reason given.
    """
    reason = _why_not_told(scene, table)
    if reason is not None:
        return NotTold(reason)
    counts = scene.row_changes.get(table.id, (0, 0))
    before = scene.before.versions.get(table.id)
    delta = CurrentTable(scene.spark, scene.lake, table.id)
    had = 0 if before is None else delta.count(before)
    after = scene.after.versions.get(table.id)
    has = 0 if after is None else delta.count(after)
    wanted = had + counts[0] - counts[1]
    wrong: list[tuple[object, ...]] = [] if has == wanted else [(had, *counts, wanted, has)]
    return scene.frame(wrong, _COUNT)


def _why_not_told(scene: Scene, table: Incarnation) -> str | None:
    """Why the events of a window do not tell the number of rows."""
    if table.stopped:
        return "the table is stopped"
    if not table.schema.key:
        return "the table has no key: rows that are sent again cannot be told from equal ones"
    if table.id in scene.replayed:
        return "the table was replayed in the window"
    if scene.after.state.skipped:
        return "a DDL was skipped"
    if scene.has_refused_of(table):
        return "rows are in the quarantine"
    history = [line for line in scene.history if line["incarnation"] == table.id]
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


def _rows(scene: Scene, table: Incarnation) -> DataFrame | None:
    version = scene.after.versions.get(table.id)
    if version is None:
        return None
    return CurrentTable(scene.spark, scene.lake, table.id).rows(version)
