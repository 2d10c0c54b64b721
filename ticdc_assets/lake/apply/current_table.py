"""One Delta table of current rows as Spark writes it: with features that delta-rs does not write.

The rows are those that the engine has computed, under Delta's names.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.column_alterations import list_alterations
from ticdc_assets.lake.apply.exact_texts import MAP, can_be_inexact, format_moved_map, list_moved
from ticdc_assets.lake.apply.table_features import (
    CHANGE_DATA_FEED,
    DELETION_VECTORS,
    TableDetail,
    choose_new_properties,
    format_clustering,
    list_needed_properties,
    read_table_detail,
)
from ticdc_assets.plan.layout import PLAIN, Layout
from ticdc_assets.rows.column_moves import map_columns
from ticdc_assets.rows.columns import (
    COMMIT_TS,
    DELETED_AT,
    DELETED_TS,
    INEXACT,
    INEXACT_COMMENT,
    DeltaColumn,
    list_delta_columns,
    list_own_columns,
)
from ticdc_assets.rows.keyed import find_key
from ticdc_assets.rows.merging import PUT
from ticdc_assets.schema.effect import ColumnChange
from ticdc_assets.store.commits import read_newest_commits
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.store.sql import delta_table, quote_identifier, quote_literal


class CurrentTable:
    """The Delta table of one incarnation."""

    def __init__(self, lake: LakeSession, incarnation: str) -> None:
        self._lake = lake
        self._name = f"current/{incarnation}"
        self._reader = LakeReader(lake.location)
        self.path = lake.current_path(incarnation)
        self.sql = delta_table(self.path)

    @property
    def version(self) -> int:
        """The newest Delta version."""
        return read_newest_commits(self._lake, self._name, 1)[0].version

    def rows(self, version: int) -> DataFrame:
        """Read the rows at a Delta version."""
        return read_table(self._lake, self._name, version)

    @property
    def has_map(self) -> bool:
        """Whether the table keeps inexact values."""
        stored = self._reader.open(self._name).schema()
        return INEXACT in (field.name for field in stored.fields)

    def write_whole(
        self, rows: DataFrame, schema: TableSchema, statement: str, layout: Layout = PLAIN
    ) -> None:
        """Write all rows, in place of any that there are; the commit has a statement.

        A large table keeps its clustering.
        """
        existing = self._reader.find(self._name)
        properties = {}
        detail = None
        if existing is None:
            properties = choose_new_properties(list_delta_columns(schema, layout))
        else:
            detail = self.read_detail()
            needed = list_needed_properties(list_delta_columns(schema, layout))
            self._switch_on(detail, needed)
            if detail.has_deletion_vectors and not detail.is_large:
                # From when the table was large, or every table had them.
                self._unset(DELETION_VECTORS)
        fitting = rows.select(
            *(
                _get(name).cast(type).alias(name, metadata={"comment": comment})
                for name, type, comment in _list_columns(
                    schema, layout, with_map=INEXACT in rows.columns
                )
            )
        )
        writer = fitting.write.format("delta").mode("overwrite").options(**properties)
        writer = writer.option("overwriteSchema", "true").option("userMetadata", statement)
        writer.save(self.path)
        if detail is not None and detail.has_deletion_vectors and detail.is_large:
            # Overwriting has dropped it.
            self._alter(format_clustering(schema, layout))

    def append(self, rows: DataFrame, statement: str) -> None:
        """Append rows; the commit has a statement."""
        writer = rows.write.format("delta").mode("append").option("userMetadata", statement)
        writer.save(self.path)

    # Features and columns

    def read_detail(self) -> TableDetail:
        return read_table_detail(self._lake, self._name)

    def adapt_to_size(self, schema: TableSchema, layout: Layout = PLAIN) -> bool:
        """Return whether the table is large, after switching on what a large one needs.

        A change data feed is switched off: it forbids writing once a column was renamed.
        """
        detail = self.read_detail()
        if detail.has(CHANGE_DATA_FEED):
            self._unset(CHANGE_DATA_FEED)
        if detail.is_large and not detail.has_deletion_vectors:
            self._set(DELETION_VECTORS)
            self._alter(format_clustering(schema, layout))
        return detail.is_large

    def add_map(self) -> None:
        """Let the table keep inexact values from now on."""
        comment = quote_literal(INEXACT_COMMENT)
        self._alter(f"ADD COLUMNS ({quote_identifier(INEXACT)} {MAP} COMMENT {comment})")

    def reshape(
        self,
        before: TableSchema,
        steps: Sequence[ColumnChange],
        after: TableSchema,
        layout: Layout = PLAIN,
    ) -> None:
        """Change the columns to those of a new schema; a converted column loses its values."""
        alterations = list_alterations(before, steps, after, layout)
        self._switch_on(self.read_detail(), alterations.needed)
        for action in alterations.actions:
            self._alter(action)
        moved = list_moved(before, map_columns(before, steps, after))
        if moved is not None and self.has_map:
            # Inexact values stay with their columns.
            name = quote_identifier(INEXACT)
            new = format_moved_map(moved)
            self._lake.spark.sql(f"UPDATE {self.sql} SET {name} = {new} WHERE {name} IS NOT NULL")

    def _switch_on(self, detail: TableDetail, needed: Iterable[Mapping[str, str]]) -> None:
        """Set the properties that the table lacks."""
        for properties in needed:
            if not detail.has(properties):
                self._set(properties)

    def _set(self, properties: Mapping[str, str]) -> None:
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self._alter(f"SET TBLPROPERTIES ({listed})")

    def _unset(self, properties: Mapping[str, str]) -> None:
        self._alter(f"UNSET TBLPROPERTIES ({', '.join(map(quote_literal, properties))})")

    def _alter(self, action: str) -> None:
        self._lake.spark.sql(f"ALTER TABLE {self.sql} {action}")

    # Merge

    def merge(self, listed: DataFrame, schema: TableSchema, layout: Layout = PLAIN) -> None:
        """Merge rows that are put or gone (`rows.merging`)."""
        columns = [name for name in listed.columns if name != PUT]
        # In one struct column, so that no name is both a source and a target column.
        values_struct = F.struct(*(_get(n).alias(f"c{at}") for at, n in enumerate(columns)))
        values = {n: F.col(f"`⌗values`.c{at}") for at, n in enumerate(columns)}
        same = _match(values, schema, layout)
        every = {quote_identifier(n): value for n, value in values.items()}
        put = F.col(PUT)
        merge = listed.select(PUT, values_struct.alias("⌗values")).mergeInto(self.sql, same)
        merge = merge.whenMatched(~put).delete().whenMatched().update(every)
        merge.whenNotMatched(put).insert(every).merge()


def _list_columns(
    schema: TableSchema, layout: Layout, *, with_map: bool
) -> list[tuple[str, str, str]]:
    """List the name, the type and the comment of every column."""
    listed = (*list_delta_columns(schema, layout), *list_own_columns(layout))
    columns = [(c.name, c.type, c.comment) for c in listed]
    return [*columns, (INEXACT, MAP, INEXACT_COMMENT)] if with_map else columns


def _match(values: Mapping[str, Column], schema: TableSchema, layout: Layout) -> Column:
    """Return whether a row of the table is one that a row to merge stands for.

    A table without a key gets every row that is put, and loses all equal to one that is gone.
    """
    key = find_key(schema)
    if not key:
        own = (COMMIT_TS, INEXACT, *([DELETED_AT, DELETED_TS] if layout.archived else ()))
        names = [name for name in values if name not in own]
        equal = [_get(name).eqNullSafe(values[name]) for name in names]
        if INEXACT in values:
            ours, theirs = (
                F.sort_array(F.map_entries(map)) for map in (_get(INEXACT), values[INEXACT])
            )
            equal.append(ours.eqNullSafe(theirs))
        return reduce(and_, [~F.col(PUT), *equal])
    columns = {column.column: column for column in list_delta_columns(schema)}
    identifying = [columns[name] for name in key]
    parts = [_same(column, values[column.name]) for column in identifying]
    if INEXACT in values:
        parts += [
            _get(INEXACT).getItem(c.name).eqNullSafe(values[INEXACT].getItem(c.name))
            for c in identifying
            if can_be_inexact(c)
        ]
    return reduce(and_, parts)


def _same(column: DeltaColumn, value: Column) -> Column:
    """Whether key values are equal; NULL stands for dates that Delta cannot hold."""
    one = _get(column.name)
    return one.eqNullSafe(value) if column.type.startswith(("date", "timestamp")) else one == value


def _get(name: str) -> Column:
    return F.col(quote_identifier(name))
