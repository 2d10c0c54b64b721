"""The Delta table of a history: a merge ends the versions of rows that changed."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.table_features import DELETION_VECTORS
from ticdc_assets.lake.history.columns import HistoryColumn
from ticdc_assets.lake.history.marks import UpdateMark
from ticdc_assets.lake.history.rows import list_history_fields
from ticdc_assets.lake.history.version_tasks import VersionsDone
from ticdc_assets.lake.history.versions_table import VersionsTable
from ticdc_assets.rows.columns import INEXACT
from ticdc_assets.store.contracts import HISTORY, VALID_FROM, VALID_TO
from ticdc_assets.store.sql import quote_identifier


class HistoryTable(VersionsTable):
    """The history of one incarnation."""

    folder = "history"

    def list_types(self, columns: Sequence[HistoryColumn]) -> Mapping[str, str]:
        return {column.name: column.type for column in columns} | HISTORY

    def list_fields(self, columns: Sequence[HistoryColumn]) -> pa.Schema:
        return list_history_fields(columns)

    def merge(
        self,
        done: VersionsDone,
        columns: Sequence[HistoryColumn],
        key: Sequence[str],
        mark: UpdateMark,
    ) -> None:
        """Remove open versions, and add others; the columns `key` identify a row."""
        if not done.gone:
            self.append(done.files, columns, mark)
            return
        self.add_columns(columns)
        self._switch_on([DELETION_VECTORS])
        gone, rows = (self.read_files(files, columns) for files in (done.gone, done.files))
        self._merge(rows, gone, list(self.list_types(columns)), key)
        self.remove_files([*done.gone, *done.files])
        self.advance(mark)

    def _merge(
        self, rows: DataFrame, gone: DataFrame, names: Sequence[str], key: Sequence[str]
    ) -> None:
        places = {name: f"c{at}" for at, name in enumerate(names)}
        # In one struct column, so that no name is both a source and a target column.
        packed = F.struct(*(_get(name).alias(at) for name, at in places.items()))
        source = [
            frame.select(F.lit(is_gone).alias("⌗gone"), packed.alias("⌗values"))
            for frame, is_gone in ((gone, True), (rows, False))
        ]
        values = {name: F.col("⌗values")[at] for name, at in places.items()}
        merge = (
            source[0].union(source[1]).mergeInto(self.lake.sql(self.name), _is_same(values, key))
        )
        inserted = {quote_identifier(name): value for name, value in values.items()}
        merge.whenMatched().delete().whenNotMatched(~F.col("⌗gone")).insert(inserted).merge()
        self._newest += 1


def _is_same(values: Mapping[str, Column], key: Sequence[str]) -> Column:
    """Return whether a version of the table is a version to remove."""
    names = (*key, VALID_FROM)
    ours = _make_comparable([_get(name) for name in names], _get(INEXACT))
    theirs = _make_comparable([values[name] for name in names], values[INEXACT])
    return F.col("⌗gone") & _get(VALID_TO).isNull() & ours.eqNullSafe(theirs)


def _make_comparable(values: Sequence[Column], exact: Column) -> Column:
    """Return what identifies a version, in one column: Spark limits how deep a condition may be."""
    parts = [*values, F.sort_array(F.map_entries(exact))]
    return F.struct(*(part.alias(f"c{at}") for at, part in enumerate(parts)))


def _get(name: str) -> Column:
    return F.col(quote_identifier(name))
