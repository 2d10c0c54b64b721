"""One Delta table of current rows: create it, change its columns, write rows, restore versions.

Few rows of a small, plain table are read and written in this process (`store.writer`): Spark
computes them, and commits nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import and_

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.column_alterations import list_alterations
from ticdc_assets.lake.apply.table_features import (
    CHANGE_DATA_FEED,
    COLUMN_MAPPING,
    DELETION_VECTORS,
    PLAIN_PROPERTIES,
    TableDetail,
    choose_new_properties,
    format_clustering,
    list_needed_properties,
    read_table_detail,
)
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import (
    MAP,
    can_be_inexact,
    format_moved_map,
    get_column,
)
from ticdc_assets.lake.store.commits import read_newest_commits
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.observed import read_metrics
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.small_tables import FewRows, read_table, restore_version
from ticdc_assets.lake.store.sql import delta_table, quote_identifier, quote_literal
from ticdc_assets.lake.store.writer import LakeWriter, is_writable
from ticdc_assets.rows.columns import (
    COMMIT_TS,
    COMMIT_TS_COMMENT,
    INEXACT,
    INEXACT_COMMENT,
    list_delta_columns,
)
from ticdc_assets.schema.effect import ColumnChange


class InexactRows(Exception):
    """There were rows with inexact values, which a table without the map does not take."""


class CurrentTable:
    """The Delta table of one incarnation.

    Rows to write have their entries (`columns.inexact`).  A table without the map raises
    `InexactRows` if a row needs one: few rows before it writes any, many after it wrote the others.
    """

    def __init__(self, lake: LakeSession, incarnation: str, *, writes_few: bool = False) -> None:
        """`writes_few`: this process can hold what is to be written."""
        self._lake = lake
        self._name = f"current/{incarnation}"
        self._reader = LakeReader(lake.location)
        self._writer = LakeWriter(lake.location)
        self._writes_few = writes_few
        self.path = lake.current_path(incarnation)
        self.sql = delta_table(self.path)
        self._has_map: bool | None = None

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
        if self._has_map is None:
            stored = self._reader.open(self._name).schema()
            self._has_map = INEXACT in (field.name for field in stored.fields)
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
            self._lake.spark.sql(f"UPDATE {self.sql} SET {name} = {new} WHERE {name} IS NOT NULL")

    def create(self, rows: DataFrame, schema: TableSchema, *, with_map: bool = False) -> None:
        """Create the table with rows, in place of whatever a killed run left."""
        self._has_map = with_map
        needed = list_needed_properties(list_delta_columns(schema))
        existing = self._writer.find(self._name)
        if self._can_write_here(existing, needed):
            self._write_here(rows, schema, PLAIN_PROPERTIES)
            return
        if needed and existing is not None:
            self._switch_on(self.read_detail(), needed)
        self._write_whole(rows, schema, choose_new_properties(list_delta_columns(schema)))

    def replace(self, rows: DataFrame, schema: TableSchema) -> None:
        """Replace all rows and columns in one commit; a large table keeps its clustering."""
        detail = self.read_detail()
        needed = list_needed_properties(list_delta_columns(schema))
        if not detail.is_large and self._can_write_here(self._reader.open(self._name), needed):
            self._write_here(rows, schema, {})
            return
        self._switch_on(detail, needed)
        if detail.has_deletion_vectors and not detail.is_large:
            # From when the table was large, or every table had them.
            self._unset(DELETION_VECTORS)
        self._write_whole(rows, schema, {})
        if detail.has_deletion_vectors and detail.is_large:
            # Overwriting has dropped it.
            self._alter(format_clustering(schema))

    def _write_whole(
        self, rows: DataFrame, schema: TableSchema, properties: Mapping[str, str]
    ) -> None:
        with self._storing(rows) as stored:
            fitting = stored.select(
                *(
                    get_column(name).cast(type).alias(name, metadata={"comment": comment})
                    for name, type, comment in self._list_columns(schema)
                )
            )
            writer = fitting.write.format("delta").mode("overwrite").options(**properties)
            writer.option("overwriteSchema", "true").save(self.path)

    def _list_columns(self, schema: TableSchema) -> list[tuple[str, str, str]]:
        """List the name, the type and the comment of every column."""
        columns = [(c.name, c.type, c.comment) for c in list_delta_columns(schema)]
        columns.append((COMMIT_TS, "bigint", COMMIT_TS_COMMENT))
        if self.has_map:
            columns.append((INEXACT, MAP, INEXACT_COMMENT))
        return columns

    # Few rows

    def _compute_few(self, rows: DataFrame, columns: Sequence[Column]) -> FewRows:
        """Compute rows as the table stores them; raise `InexactRows` before anything is written."""
        if self.has_map:
            with self._storing(rows) as stored:
                return FewRows.compute(stored.select(*columns))
        few = FewRows.compute(rows.select(*columns, INEXACT))
        if few.rows.column(INEXACT).null_count < few.rows.num_rows:
            raise InexactRows
        return few.drop(INEXACT)

    def _can_write_here(
        self, existing: DeltaTable | None, needed: Collection[Mapping[str, str]] = ()
    ) -> bool:
        """Whether this process writes the rows: delta-rs gives a table only its plain features."""
        is_plain = COLUMN_MAPPING not in needed and (existing is None or is_writable(existing))
        return self._writes_few and is_plain

    def _write_here(
        self, rows: DataFrame, schema: TableSchema, properties: Mapping[str, str]
    ) -> None:
        columns = self._list_columns(schema)
        typed = [get_column(name).cast(type).alias(name) for name, type, _ in columns]
        found = self._compute_few(rows, typed).rows
        fields = [
            pa.field(name, make_nullable(field.type), metadata={"comment": comment})
            for field, (name, _, comment) in zip(found.schema, columns, strict=True)
        ]
        self._writer.replace(self._name, found.cast(pa.schema(fields)), properties)

    # Features

    def read_detail(self) -> TableDetail:
        return read_table_detail(self._lake, self._name)

    def adapt_to_size(self, schema: TableSchema) -> bool:
        """Return whether the table is large, after switching on what a large one needs.

        A change data feed is switched off: it forbids writing once a column was renamed.
        """
        detail = self.read_detail()
        if detail.has(CHANGE_DATA_FEED):
            self._unset(CHANGE_DATA_FEED)
        if detail.is_large and not detail.has_deletion_vectors:
            self._set(DELETION_VECTORS)
            self._alter(format_clustering(schema))
        return detail.is_large

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

    def keep_removed_files(self, days: int) -> None:
        """Let Spark remember which files it removed, so that its VACUUM can keep them so long."""
        name, wanted = "delta.deletedFileRetentionDuration", f"interval {days} days"
        opened = self._reader.open(self._name)
        if not is_writable(opened) and opened.metadata().configuration.get(name) != wanted:
            self._set({name: wanted})

    def restore(self, version: int) -> None:
        """Undo what a killed run wrote."""
        if self.version != version:
            restore_version(self._lake, self._name, version)

    def append(self, rows: DataFrame) -> None:
        existing = self._reader.open(self._name)
        fields = pa.schema(existing.schema().to_arrow())
        columns = [get_column(name) for name in fields.names]
        if not self._writes_few:
            with self._storing(rows) as stored:
                self._append(stored.select(*columns))
            return
        few = self._compute_few(rows, columns)
        if self._can_write_here(existing):
            self._writer.append(existing, few.rows.cast(fields))
        elif few.rows.num_rows:
            self._append(few.make_frame(self._lake))

    def _append(self, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(self.path)

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
        source = [F.col("⌗put"), values_struct.alias("⌗values")]
        if not self._writes_few:
            with self._storing(final) as stored:
                self._merge(stored.select(*source), same, every)
            return
        # MERGE reads its source twice, and not always to the end.
        few = self._compute_few(final, source)
        if few.rows.num_rows:
            self._merge(few.make_frame(self._lake), same, every)

    def _merge(self, news: DataFrame, same: Column, values: dict[str, Column]) -> None:
        merge = news.mergeInto(self.sql, same)
        merge = merge.whenMatched(~F.col("⌗put")).delete().whenMatched().update(values)
        merge.whenNotMatched(F.col("⌗put")).insert(values).merge()

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
        yield observed.where(~is_inexact)
        if read_metrics(seen).get("inexact"):
            raise InexactRows

    def reshape(
        self, before: TableSchema, steps: Sequence[ColumnChange], after: TableSchema
    ) -> None:
        """Change the columns to those of a new schema; a converted column loses its values."""
        alterations = list_alterations(before, steps, after)
        self._switch_on(self.read_detail(), alterations.needed)
        for action in alterations.actions:
            self._alter(action)

    def _alter(self, action: str) -> None:
        self._lake.spark.sql(f"ALTER TABLE {self.sql} {action}")


def make_nullable(type: pa.DataType) -> pa.DataType:
    """Return the type of a column in which everything may be NULL: Spark infers that less is."""
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(each.name, make_nullable(each.type)) for each in type])
    return pa.map_(type.key_type, type.item_type) if pa.types.is_map(type) else type


def _same(one: Column, other: Column, type: str) -> Column:
    """Whether key values are equal; NULL stands for dates that Delta cannot hold."""
    return one.eqNullSafe(other) if type.startswith(("date", "timestamp")) else one == other
