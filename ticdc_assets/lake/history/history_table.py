"""The Delta table of a history: a merge ends the versions of rows that changed."""

from collections.abc import Mapping, Sequence
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.table_features import DELETION_VECTORS
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import get_column
from ticdc_assets.lake.history.columns import HistoryColumn
from ticdc_assets.lake.history.versions_table import UpdateMark, VersionsTable
from ticdc_assets.lake.store.contracts import HISTORY, VALID_FROM, VALID_TO
from ticdc_assets.lake.store.sql import quote_identifier
from ticdc_assets.rows.columns import INEXACT


class HistoryTable(VersionsTable):
    """The history of one incarnation."""

    folder = "history"

    def list_types(self, columns: Sequence[HistoryColumn]) -> Mapping[str, str]:
        return {column.name: column.type for column in columns} | HISTORY

    def merge(
        self,
        rows: DataFrame,
        gone: DataFrame,
        columns: Sequence[HistoryColumn],
        key: Sequence[str],
        mark: UpdateMark,
    ) -> None:
        """Remove the open versions `gone`, and add others; the columns `key` identify a row."""
        self.add_columns(columns)
        self._switch_on([DELETION_VECTORS])
        self._merge(rows, gone, list(self.list_types(columns)), key)
        self.advance(mark)

    def _merge(
        self, rows: DataFrame, gone: DataFrame, names: Sequence[str], key: Sequence[str]
    ) -> None:
        places = {name: f"c{at}" for at, name in enumerate(names)}
        # In one struct column, so that no name is both a source and a target column.
        packed = F.struct(*(get_column(name).alias(at) for name, at in places.items()))
        source = [
            frame.select(F.lit(is_gone).alias("⌗gone"), packed.alias("⌗values"))
            for frame, is_gone in ((gone, True), (rows, False))
        ]
        values = {name: F.col("⌗values")[at] for name, at in places.items()}
        same = _is_same(values, key)
        # MERGE reads its source twice.
        merge = (
            source[0].union(source[1]).localCheckpoint().mergeInto(self.lake.sql(self.name), same)
        )
        inserted = {quote_identifier(name): value for name, value in values.items()}
        merge.whenMatched().delete().whenNotMatched(~F.col("⌗gone")).insert(inserted).merge()
        self._newest += 1


def _is_same(values: Mapping[str, Column], key: Sequence[str]) -> Column:
    """Return whether a version of the table is a version to remove."""
    ours, theirs = (
        F.sort_array(F.map_entries(each)) for each in (get_column(INEXACT), values[INEXACT])
    )
    parts = [get_column(name).eqNullSafe(values[name]) for name in (*key, VALID_FROM)]
    is_open = get_column(VALID_TO).isNull()
    return combine_pairwise(and_, [F.col("⌗gone"), is_open, *parts, ours.eqNullSafe(theirs)])
