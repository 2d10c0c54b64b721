"""Update changes: append those of the window; a replay first removes what it computes again."""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.versions import IS_NEW, VersionFrame, mark_start
from ticdc_assets.lake.history.change_rows import format_image_type, make_changes
from ticdc_assets.lake.history.changes_table import ChangesTable, store_image, take_over_images
from ticdc_assets.lake.history.columns import HistoryColumn, fit_all, only_adds
from ticdc_assets.lake.history.table_update import TableUpdate
from ticdc_assets.rows.columns import COMMIT_TS


class ChangesUpdate(TableUpdate[ChangesTable]):
    """The changes of one table to update."""

    def write(self) -> None:
        if self.goes_on and not self.work.steps:
            self.stored.advance(self.goal)
            return
        stored, frames = self.stored, self._list_frames()
        known = [] if self.begins else stored.columns
        columns = fit_all(known, (frame.schema for frame in frames))
        rows = _make_rows(frames, columns)
        if self.begins:
            stored.replace(rows, columns, self.goal, writes_few=self.has_few_rows)
        elif only_adds(known, columns):
            self._append(rows, columns)
        else:
            kept = take_over_images(stored.read().where(f"NOT ({self._void})"), columns)
            rows = kept.unionByName(rows)
            stored.replace(rows, columns, self.goal, writes_few=self.has_few_rows)

    def _append(self, rows: DataFrame, columns: list[HistoryColumn]) -> None:
        # Delta adds new columns behind the others.
        places = {column.name: place for place, column in enumerate(self.stored.columns)}
        columns = sorted(columns, key=lambda column: places.get(column.name, len(places)))
        has_few_events = self.window is not None and self.window.has_few_rows
        self.stored.append(
            rows,
            columns,
            self.goal,
            writes_few=self.has_few_rows or (has_few_events and self.is_by_row),
            replaced=None if self.goes_on else self._void,
        )

    @property
    def _void(self) -> str:
        """The condition of the changes that a replay computes again.

        Of the snapshots of one ts it starts from the last, which has all DDLs of that ts.
        """
        return f"commit_ts > {self.base.ts}"

    def _list_frames(self) -> list[VersionFrame]:
        if self.begins:
            loaded = self.read_loaded()
            frames = self.list_frames(loaded)
            # A table begins with the rows of its load.
            frames[0] = replace(frames[0], rows=frames[0].rows.withColumn(IS_NEW, F.lit(True)))
            return frames
        if self.window is None or (self.is_by_row and self.appends):
            return self.list_frames(None)
        first = self.window.frames.read_start(self.table.id)
        if first is None:
            return self.list_frames(None)
        first = first.withColumn(COMMIT_TS, mark_start(F.col(COMMIT_TS), F.lit(None)))
        if self.is_by_row and self.stored.is_large:
            first = self.select_touched(self.window, first)
        return self.list_frames(first)


def _make_rows(frames: list[VersionFrame], columns: list[HistoryColumn]) -> DataFrame:
    type = format_image_type((column.name, column.type) for column in columns)
    images = (
        (frame, store_image(columns, frame.before), store_image(columns, frame.schema))
        for frame in frames
    )
    return make_changes(images, type)
