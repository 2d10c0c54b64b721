"""Write an update of a history: its new rows as a whole, or the versions that begin or end."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.errors import TableCannotContinue
from ticdc_assets.lake.apply.keyed import list_operations
from ticdc_assets.lake.apply.merged_steps import merge_steps
from ticdc_assets.lake.apply.multiset import list_changes
from ticdc_assets.lake.apply.typed_rows import spell_key
from ticdc_assets.lake.apply.versions import (
    VersionFrame,
    end_versions,
    keep_versions,
    list_versions,
    mark_start,
)
from ticdc_assets.lake.apply.window import PreparedWindow
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import are_equal, get_column, get_from, identify
from ticdc_assets.lake.columns.types import list_delta_columns
from ticdc_assets.lake.history.columns import HistoryColumn, fit_columns, make_history_name
from ticdc_assets.lake.history.rows import (
    LOAD,
    make_rows,
    read_versions,
    select_ended,
    select_open,
    take_over,
)
from ticdc_assets.lake.history.table_update import TableUpdate
from ticdc_assets.lake.store.contracts import COMMIT_TS, INEXACT
from ticdc_assets.plan.steps import ApplyRows, TableWork


def write_whole(update: TableUpdate) -> None:
    """Write a history again as a whole."""
    history = update.history
    if history.version is None or update.before is None:
        frames = _list_frames(update, _read_loaded(update))
        columns = _fit_all([], frames)
        rows = make_rows(frames, columns)
    else:
        stored = history.read()
        first = read_versions(select_open(stored, update.start), history.columns, update.schema)
        frames = _list_frames(update, first)
        columns = _fit_all(history.columns, frames)
        ended = take_over(select_ended(stored, update.start), columns)
        rows = ended.unionByName(make_rows(frames, columns))
    writes_few = not history.is_large and (update.window is None or update.window.has_few_rows)
    history.replace(rows, columns, update.goal, writes_few=writes_few)


def _read_loaded(update: TableUpdate) -> DataFrame | None:
    """Return the rows with which a load began the table, as versions; None if none did."""
    if update.window is None or not update.table.is_loaded:
        return None
    rows = update.window.frames.read_start(update.table.id)
    since = mark_start(F.col(COMMIT_TS), F.lit(LOAD))
    return None if rows is None else rows.withColumn(COMMIT_TS, since)


def merge_versions(update: TableUpdate) -> None:
    """Write only the versions that begin or end."""
    history, schema = update.history, update.schema
    first = None
    if update.window is not None and not update.appends:
        opened = read_versions(select_open(history.read(), update.start), history.columns, schema)
        # It is read for what goes and for what comes.
        first = _select_touched(update.window, update.work, opened).localCheckpoint()
    frames = _list_frames(update, first)
    columns = _fit_all(history.columns, frames)
    gone = None
    if first is not None:
        gone = make_rows([VersionFrame(schema, schema, keep_versions(first))], columns)
    keys = [column for column in list_delta_columns(schema) if column.column in spell_key(schema)]
    names = [make_history_name(column) for column in keys] or [column.name for column in columns]
    history.merge(make_rows(frames, columns), gone, columns, names, update.goal)


def _select_touched(window: PreparedWindow, work: TableWork, opened: DataFrame) -> DataFrame:
    """Select the versions that were open before a window and may end in it."""
    frames = window.frames
    segments = [
        frames.read_segment(step)
        for step in merge_steps(work.before, work.steps)
        if isinstance(step, ApplyRows)
    ]
    if not work.before.key:
        # There is one.
        changes = list_changes(segments[0], opened, frames.find_passes(segments[0]))
        names = segments[0].value_names
        every = [list(map(get_from(rows), names)) for rows in (opened, changes)]
        return opened.join(changes, are_equal(*every), "left_semi")
    key = segments[0].key
    names = [*(column.name for column in key), INEXACT]
    touched = combine_pairwise(
        DataFrame.unionByName,
        (list_operations(segment).select(*map(get_column, names)) for segment in segments),
    )
    keys = [identify(key, get_from(rows)) for rows in (opened, touched)]
    return opened.join(touched, are_equal(*keys), "left_semi")


def _list_frames(update: TableUpdate, first: DataFrame | None) -> list[VersionFrame]:
    """Take a history's table through the window; `first` are its open versions."""
    work, window = update.work, update.window
    if window is not None:
        planned = window.plan.state.incarnations.get(update.table.id)
        if planned is None or planned.is_stopped:
            reason = "the events do not make this table" if planned is None else planned.reason
            raise TableCannotContinue(f"its history cannot be computed: {reason}")
    if first is not None and not work.steps:
        frames = [VersionFrame(work.before, work.before, keep_versions(first))]
    elif window is not None:
        frames = list_versions(window.frames, work, first)
    else:
        raise TableCannotContinue("nothing is known of the rows of this table")
    if update.goal.dropped_ts is not None:
        last = frames[-1]
        frames[-1] = replace(last, rows=end_versions(last.rows, update.goal.dropped_ts))
    return frames


def _fit_all(columns: list[HistoryColumn], frames: Sequence[VersionFrame]) -> list[HistoryColumn]:
    """Return the columns that a history needs for all frames."""
    return reduce(fit_columns, (frame.schema for frame in frames), columns)
