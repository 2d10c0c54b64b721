"""One Delta table of current rows: create it, change its columns, write rows, restore versions."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import and_

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.column_moves import can_widen, map_columns
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import (
    MAP,
    can_be_inexact,
    format_moved_map,
    get_column,
)
from ticdc_assets.lake.columns.types import (
    DeltaColumn,
    choose_delta_names,
    fold_case,
    list_delta_columns,
)
from ticdc_assets.lake.store.commits import read_newest_commits
from ticdc_assets.lake.store.contracts import COMMIT_TS, INEXACT, INEXACT_COMMENT
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.observed import read_metrics
from ticdc_assets.lake.store.sql import delta_table, quote_identifier, quote_literal
from ticdc_assets.lake.store.tables import create_table
from ticdc_assets.schema.effect import ColumnChange

_PROPERTIES = {
    # Snapshots name Delta versions, so only `maintain` decides which versions may go.
    "delta.logRetentionDuration": "interval 3650 days",
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableTypeWidening": "true",
    # Without it a table created without a DATETIME column could not add one later.
    "delta.feature.timestampNtz": "supported",
}
_COMMIT_TS_COMMENT = "commit ts of the last change of this row"
# Delta clusters by columns with statistics: not by these types, and only the first columns.
_UNCLUSTERED = ("binary", "array", "boolean", "timestamp_ntz")
_WITH_STATISTICS = 32
_MOST_CLUSTERED = 4


class InexactRows(Exception):
    """There were rows with inexact values, which a table without the map does not take."""


class CurrentTable:
    """The Delta table of one incarnation.

    Rows to write have their entries (`columns.inexact`).  A table without the map writes the rows
    that need none, and then raises `InexactRows` if there were others.
    """

    def __init__(self, lake: LakeSession, incarnation: str) -> None:
        self._spark = lake.spark
        self.path = lake.current_path(incarnation)
        self.sql = delta_table(self.path)
        self._has_map: bool | None = None

    @property
    def version(self) -> int:
        """The newest Delta version."""
        return read_newest_commits(self._spark, self.path, 1)[0].version

    def rows(self, version: int) -> DataFrame:
        """Read the rows at a Delta version."""
        return self._spark.read.format("delta").option("versionAsOf", version).load(self.path)

    @property
    def has_map(self) -> bool:
        """Whether the table keeps inexact values."""
        if self._has_map is None:
            stored = self._spark.read.format("delta").load(self.path)
            self._has_map = INEXACT in stored.columns
        return self._has_map

    def add_map(self) -> None:
        """Let the table keep inexact values from now on."""
        comment = quote_literal(INEXACT_COMMENT)
        self._alter(f"ADD COLUMNS ({quote_identifier(INEXACT)} {MAP} COMMENT {comment})")
        self._has_map = True

    def move_exact_texts(self, moved: Mapping[str, str] | None) -> None:
        """Keep inexact values under the new names of their columns (`inexact.list_moved`)."""
        if moved is not None and self.has_map:
            name = quote_identifier(INEXACT)
            new = format_moved_map(moved)
            self._spark.sql(f"UPDATE {self.sql} SET {name} = {new} WHERE {name} IS NOT NULL")

    def create(self, schema: TableSchema) -> None:
        """Create the table without rows, in place of whatever a killed run left."""
        self._has_map = False
        if self._exists():
            # Delta cannot replace a table by path: it would keep its rows and columns.
            self._empty(schema)
            return
        columns = [_definition(column) for column in list_delta_columns(schema)]
        comment = quote_literal(_COMMIT_TS_COMMENT)
        columns.append(f"{quote_identifier(COMMIT_TS)} bigint COMMENT {comment}")
        create_table(
            self._spark, self.path, ", ".join(columns), _clustering_columns(schema), _PROPERTIES
        )

    def _exists(self) -> bool:
        try:
            return self.version >= 0
        except AnalysisException as error:
            if not (error.getCondition() or "").startswith(("DELTA_", "PATH_NOT_FOUND")):
                raise
            return False

    def _empty(self, schema: TableSchema) -> None:
        """Delete all rows, and replace the columns by those of a schema."""
        self.delete_rows()
        self._alter("CLUSTER BY NONE")
        columns = self._spark.read.format("delta").load(self.path).columns
        dropped = [name for name in columns if name != COMMIT_TS]
        if dropped:
            self._alter(f"DROP COLUMNS ({', '.join(map(quote_identifier, dropped))})")
        self._place([], list_delta_columns(schema))
        self.cluster(schema)

    def delete_rows(self) -> None:
        self._spark.sql(f"DELETE FROM {self.sql}").collect()

    def restore(self, version: int) -> None:
        """Undo what a killed run wrote."""
        if self.version != version:
            self._spark.sql(f"RESTORE TABLE {self.sql} TO VERSION AS OF {version}").collect()

    def append(self, rows: DataFrame) -> None:
        with self._storing(rows) as stored:
            stored.write.format("delta").mode("append").save(self.path)

    def overwrite(self, rows: DataFrame, schema: TableSchema) -> None:
        """Replace all rows; overwriting drops the clustering, so set it again."""
        with self._storing(rows) as stored:
            stored.write.format("delta").mode("overwrite").save(self.path)
        self.cluster(schema)

    def cluster(self, schema: TableSchema) -> None:
        by = ", ".join(map(quote_identifier, _clustering_columns(schema)))
        self._alter(f"CLUSTER BY ({by})" if by else "CLUSTER BY NONE")

    def merge(self, final: DataFrame, schema: TableSchema, key: Sequence[str]) -> None:
        """Merge what a segment leaves: one row per key.

        Without a key, a row with `⌗put` is one more row, and one without removes all equal rows.
        """
        columns = [*(c.name for c in list_delta_columns(schema)), COMMIT_TS]
        if self.has_map:
            columns.append(INEXACT)
        # In one struct column, so that no name is both a source and a target column.
        values_struct = F.struct(
            *(F.col(quote_identifier(n)).alias(f"c{at}") for at, n in enumerate(columns))
        )
        values = {n: F.col(f"`⌗values`.c{at}") for at, n in enumerate(columns)}
        same = self._match(values, schema, key)
        every = {quote_identifier(n): value for n, value in values.items()}
        with self._storing(final) as stored:
            news = stored.select("⌗put", values_struct.alias("⌗values"))
            merge = news.mergeInto(self.sql, same)
            merge = merge.whenMatched(~F.col("⌗put")).delete().whenMatched().update(every)
            merge.whenNotMatched(F.col("⌗put")).insert(every).merge()

    def _match(
        self, values: Mapping[str, Column], schema: TableSchema, key: Sequence[str]
    ) -> Column:
        """Return whether a row of the table is one that a row to merge stands for."""
        columns = {column.name: column for column in list_delta_columns(schema)}
        if not key:
            equal = [get_column(name).eqNullSafe(values[name]) for name in columns]
            if self.has_map:
                ours, theirs = (
                    F.sort_array(F.map_entries(map))
                    for map in (get_column(INEXACT), values[INEXACT])
                )
                equal.append(ours.eqNullSafe(theirs))
            return combine_pairwise(and_, [~F.col("⌗put"), *equal])
        parts = [_same(get_column(name), values[name], columns[name].type) for name in key]
        if self.has_map:
            parts += [
                get_column(INEXACT).getItem(name).eqNullSafe(values[INEXACT].getItem(name))
                for name in key
                if can_be_inexact(columns[name])
            ]
        return combine_pairwise(and_, parts)

    @contextmanager
    def _storing(self, rows: DataFrame) -> Iterator[DataFrame]:
        """Yield rows as the table stores them; raise `InexactRows` after some were left out."""
        if self.has_map:
            yield rows.withColumn(INEXACT, F.map_from_entries(INEXACT))
            return
        seen = Observation()
        is_inexact = F.col(INEXACT).isNotNull()
        observed = rows.observe(seen, F.count_if(is_inexact).alias("inexact"))
        yield observed.where(~is_inexact).drop(INEXACT)
        if read_metrics(seen).get("inexact"):
            raise InexactRows

    def reshape(
        self, before: TableSchema, steps: Sequence[ColumnChange], after: TableSchema
    ) -> None:
        """Change the columns to those of a new schema; a converted column loses its values."""
        was, wanted = list_delta_columns(before), list_delta_columns(after)
        moves = map_columns(before, steps, after)
        fitting = {column.name: column for column in wanted}
        moved = {
            column.name: fitting[moves[column.name]]
            for column in was
            if column.name in moves and can_widen(column.type, fitting[moves[column.name]].type)
        }
        gone = [column.name for column in was if column.name not in moved]
        recluster = bool(gone) or _clustering_columns(before) != _clustering_columns(after)
        if recluster:
            self._alter("CLUSTER BY NONE")
        if gone:
            self._alter(f"DROP COLUMNS ({', '.join(map(quote_identifier, gone))})")
        self._rename({old: new.name for old, new in moved.items() if old != new.name})
        types = {moved[c.name].name: c.type for c in was if c.name in moved}
        for column in wanted:
            if types.get(column.name, column.type) != column.type:
                self._alter(f"ALTER COLUMN {quote_identifier(column.name)} TYPE {column.type}")
        order = [moved[column.name].name for column in was if column.name in moved]
        self._place(order, wanted)
        comments = {moved[c.name].name: c.comment for c in was if c.name in moved}
        for column in wanted:
            if comments.get(column.name, column.comment) != column.comment:
                comment = quote_literal(column.comment)
                self._alter(f"ALTER COLUMN {quote_identifier(column.name)} COMMENT {comment}")
        if recluster:
            self.cluster(after)

    def _rename(self, names: dict[str, str]) -> None:
        """Rename columns, in cycles too."""
        waiting = dict(names)
        while waiting:
            taken = {fold_case(old) for old in waiting}
            free = next((old for old, new in waiting.items() if fold_case(new) not in taken), None)
            if free is None:
                old = next(iter(waiting))
                aside = f"{old}⌗aside"
                self._alter(f"RENAME COLUMN {quote_identifier(old)} TO {quote_identifier(aside)}")
                waiting[aside] = waiting.pop(old)
                continue
            new = waiting.pop(free)
            self._alter(f"RENAME COLUMN {quote_identifier(free)} TO {quote_identifier(new)}")

    def _place(self, order: list[str], wanted: Sequence[DeltaColumn]) -> None:
        """Add missing columns, and put all of them into the wanted order."""
        for position, column in enumerate(wanted):
            where = f"AFTER {quote_identifier(wanted[position - 1].name)}" if position else "FIRST"
            if column.name not in order:
                self._alter(f"ADD COLUMNS ({_definition(column)} {where})")
            elif order[position] == column.name:
                continue
            else:
                self._alter(f"ALTER COLUMN {quote_identifier(column.name)} {where}")
                order.remove(column.name)
            order.insert(position, column.name)

    def _alter(self, action: str) -> None:
        self._spark.sql(f"ALTER TABLE {self.sql} {action}")


def _same(one: Column, other: Column, type: str) -> Column:
    """Whether key values are equal; NULL stands for dates that Delta cannot hold."""
    return one.eqNullSafe(other) if type.startswith(("date", "timestamp")) else one == other


def _definition(column: DeltaColumn) -> str:
    return f"{quote_identifier(column.name)} {column.type} COMMENT {quote_literal(column.comment)}"


def _clustering_columns(schema: TableSchema) -> list[str]:
    """Return the columns to cluster by: those of the key that Delta can cluster by."""
    columns = list_delta_columns(schema)[:_WITH_STATISTICS]
    names = choose_delta_names(schema)
    key = {names[c.name] for k in schema.key if (c := schema.column(k)) and c.name in names}
    by = [c.name for c in columns if c.name in key and not c.type.startswith(_UNCLUSTERED)]
    return by[:_MOST_CLUSTERED]
