"""Update a history: write its rows as a whole, or only the versions that begin or end."""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from ticdc_assets.lake.apply.typed_rows import spell_key
from ticdc_assets.lake.apply.versions import VersionFrame, end_versions, keep_versions
from ticdc_assets.lake.history.columns import (
    HistoryColumn,
    fit_all,
    make_history_name,
    only_adds,
)
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.history.rows import (
    Moment,
    make_rows,
    read_versions,
    select_ended,
    select_open,
    take_over,
)
from ticdc_assets.lake.history.table_update import TableUpdate
from ticdc_assets.rows.columns import list_delta_columns


class HistoryUpdate(TableUpdate[HistoryTable]):
    """One history to update."""

    @property
    def start(self) -> Moment:
        return Moment(self.base.ts, None if self.before is None else self.before.dropped_ts)

    @property
    def is_live(self) -> bool:
        """Whether no DROP ends versions, and none came back."""
        known = self.stored.mark
        return known is not None and known.dropped_ts is None and self.goal.dropped_ts is None

    def write(self) -> None:
        if self.goes_on and self.is_live and not self.work.steps:
            self.stored.advance(self.goal)
        elif not self._write_versions():
            self._write_whole()

    def _write_whole(self) -> None:
        """Write a history again as a whole."""
        history = self.stored
        if self.begins:
            frames = self._list_ended(self.read_loaded())
            columns = _fit([], frames)
            rows = make_rows(frames, columns)
        else:
            stored = history.read()
            first = read_versions(select_open(stored, self.start), history.columns, self.schema)
            frames = self._list_ended(first)
            columns = _fit(history.columns, frames)
            ended = take_over(select_ended(stored, self.start), columns)
            rows = ended.unionByName(make_rows(frames, columns))
        history.replace(rows, columns, self.goal, writes_few=self.has_few_rows)

    def _write_versions(self) -> bool:
        """Write only the versions that begin or end; return False if that does not suffice."""
        history, schema, window = self.stored, self.schema, self.window
        if window is None or not self.is_live or not self.goes_on:
            return False
        if not history.is_large or not self.is_by_row:
            return False
        columns = fit_all(history.columns, [schema, *(step.schema for step in self.work.steps)])
        if not only_adds(history.columns, columns):
            return False
        if self.appends:
            history.append(make_rows(self.list_frames(None), columns), columns, self.goal)
            return True
        opened = read_versions(select_open(history.read(), self.start), history.columns, schema)
        # It is read for what goes and for what comes.
        first = self.select_touched(window, opened).localCheckpoint()
        gone = make_rows([VersionFrame(schema, schema, keep_versions(first))], columns)
        keys = [c for c in list_delta_columns(schema) if c.column in spell_key(schema)]
        names = [*map(make_history_name, keys)] or [column.name for column in columns]
        rows = make_rows(self.list_frames(first), columns)
        history.merge(rows, gone, columns, names, self.goal)
        return True

    def _list_ended(self, first: DataFrame | None) -> list[VersionFrame]:
        """Take the table through the window; a DROP ends its versions."""
        frames = self.list_frames(first)
        if self.goal.dropped_ts is not None:
            last = frames[-1]
            frames[-1] = replace(last, rows=end_versions(last.rows, self.goal.dropped_ts))
        return frames


def _fit(columns: list[HistoryColumn], frames: Sequence[VersionFrame]) -> list[HistoryColumn]:
    """Return the columns that a history needs for all frames."""
    return fit_all(columns, (frame.schema for frame in frames))
