"""The Delta table of one history: read it at its mark, replace it, merge into it.

Every update ends with a commit that has the stage's mark: how far the history has got.  Readers use
the newest version with a mark; an update first undoes whatever follows it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ticdc_assets.lake.apply.current_table import make_nullable
from ticdc_assets.lake.apply.table_features import (
    DELETION_VECTORS,
    PLAIN_PROPERTIES,
    TableDetail,
    list_needed_properties,
    read_table_detail,
)
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import get_column
from ticdc_assets.lake.columns.types import DeltaColumn
from ticdc_assets.lake.history.columns import HistoryColumn, read_stored_columns
from ticdc_assets.lake.store.commits import decode_metadata, read_newest_commits
from ticdc_assets.lake.store.contracts import HISTORY, INEXACT, VALID_FROM, VALID_TO
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.small_tables import read_table
from ticdc_assets.lake.store.sql import quote_identifier, quote_literal
from ticdc_assets.lake.store.stage_commits import StageMark, commit_rows
from ticdc_assets.lake.store.writer import LakeWriter, is_writable

STAGE = "history"
# One update makes a few commits at most, and maintenance a few more.
_COMMITS_TO_SEARCH = 50
_KEEP_ROWS = {"OPTIMIZE", "VACUUM START", "VACUUM END"}


@dataclass(frozen=True)
class HistoryMark:
    """How far a history has got: the snapshot and ts, and the state of its table that it shows."""

    snapshot_id: int
    ts: int
    # The Delta version of the current table.
    version: int
    dropped_ts: int | None


class HistoryTable:
    """The history of one incarnation, as it was when this was made."""

    def __init__(self, lake: LakeSession, incarnation: str) -> None:
        self._lake = lake
        self.name = f"history/{incarnation}"
        self._reader = LakeReader(lake.location)
        self._writer = LakeWriter(lake.location)
        self._newest = -1
        self._has_strays = False
        # The Delta version with the newest mark, and the mark.
        self.version: int | None = None
        self.mark: HistoryMark | None = None
        self._find_mark()

    def _find_mark(self) -> None:
        if self._writer.find(self.name) is None:
            return
        path = self._lake.path(self.name)
        commits = read_newest_commits(self._lake.spark, path, _COMMITS_TO_SEARCH)
        self._newest = commits[0].version
        for commit in commits:
            metadata = decode_metadata(commit.metadata)
            if metadata.get("stage") == STAGE:
                self.version = self._newest if not self._has_strays else commit.version
                self.mark = HistoryMark(
                    *(metadata[name] for name in ("snapshot_id", "ts", "version", "dropped_ts"))
                )
                return
            self._has_strays = self._has_strays or commit.operation not in _KEEP_ROWS

    @cached_property
    def columns(self) -> list[HistoryColumn]:
        """The columns of values."""
        if self.version is None:
            return []
        stored = self._reader.open(self.name, self.version).schema().to_json()
        fields = StructType.fromJson(json.loads(stored)).fields
        return read_stored_columns({field.name: field.dataType.simpleString() for field in fields})

    def read(self) -> DataFrame:
        """Read all versions, at the newest mark."""
        return read_table(self._lake, self.name, self.version)

    @cached_property
    def _detail(self) -> TableDetail:
        return read_table_detail(self._lake.spark, self._lake.path(self.name))

    @property
    def is_large(self) -> bool:
        return self.version is not None and self._detail.is_large

    def undo_strays(self) -> None:
        """Undo what a killed run wrote after the mark."""
        if self._has_strays and self.version is not None:
            sql = self._lake.sql(self.name)
            self._lake.spark.sql(f"RESTORE TABLE {sql} TO VERSION AS OF {self.version}").collect()
            self._newest += 1

    def _stage_mark(self, mark: HistoryMark) -> StageMark:
        # Numbers grow, and 0 is none: no commit has a number greater than its version and one.
        return StageMark(STAGE, self._newest + 2, asdict(mark))

    def replace(
        self,
        rows: DataFrame,
        columns: Sequence[HistoryColumn],
        mark: HistoryMark,
        *,
        writes_few: bool,
    ) -> None:
        """Replace all rows and columns in one commit."""
        types = {c.name: (c.type, c.comment) for c in columns}
        types |= {name: (type, "") for name, type in HISTORY.items()}
        typed = rows.select(*(get_column(n).cast(t).alias(n) for n, (t, _) in types.items()))
        needed = _list_needed(columns)
        properties = dict(PLAIN_PROPERTIES)
        for each in needed:
            properties |= each
        existing = self._writer.find(self.name)
        is_plain = "delta.columnMapping.mode" not in properties
        if writes_few and is_plain and (existing is None or is_writable(existing)):
            found = typed.toArrow()
            fields = [
                pa.field(f.name, make_nullable(f.type), metadata={"comment": types[f.name][1]})
                for f in found.schema
            ]
            commit = self._stage_mark(mark).properties
            created = PLAIN_PROPERTIES if existing is None else {}
            self._writer.replace(self.name, found.cast(pa.schema(fields)), created, commit)
            return
        if existing is not None:
            self._switch_on(needed)
        commented = typed.select(
            *(get_column(n).alias(n, metadata={"comment": c}) for n, (_, c) in types.items())
        )
        writer = commented.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        if existing is None:
            writer = writer.options(**properties)
        writer.options(**self._stage_mark(mark).options).save(self._lake.path(self.name))

    def _switch_on(self, needed: Iterable[Mapping[str, str]]) -> None:
        """Set the properties that the table lacks."""
        for properties in needed:
            if not self._detail.has(properties):
                listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
                self._alter(f"SET TBLPROPERTIES ({listed})")

    def _alter(self, action: str) -> None:
        self._lake.spark.sql(f"ALTER TABLE {self._lake.sql(self.name)} {action}")
        self._newest += 1

    def merge(
        self,
        rows: DataFrame,
        gone: DataFrame | None,
        columns: Sequence[HistoryColumn],
        key: Sequence[str],
        mark: HistoryMark,
    ) -> None:
        """Remove the open versions `gone`, and add others; the columns `key` identify a row."""
        self._switch_on(_list_needed(columns))
        known = {column.name for column in self.columns}
        for column in columns:
            if column.name not in known:
                name, comment = quote_identifier(column.name), quote_literal(column.comment)
                self._alter(f"ADD COLUMNS ({name} {column.type} COMMENT {comment})")
        names = [*(column.name for column in columns), *HISTORY]
        rows = rows.select(*map(get_column, names))
        path = self._lake.path(self.name)
        if gone is None:
            rows.write.format("delta").mode("append").save(path)
            self._newest += 1
        else:
            self._switch_on([DELETION_VECTORS])
            self._merge(rows, gone.select(*map(get_column, names)), names, key)
        self.advance(mark)

    def advance(self, mark: HistoryMark) -> None:
        """Mark what the table has now as its history up to another snapshot."""
        empty = pa.schema(self._reader.open(self.name).schema().to_arrow()).empty_table()
        commit_rows(self._lake, self.name, empty, self._stage_mark(mark))

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
            source[0].union(source[1]).localCheckpoint().mergeInto(self._lake.sql(self.name), same)
        )
        inserted = {quote_identifier(name): value for name, value in values.items()}
        merge.whenMatched().delete().whenNotMatched(~F.col("⌗gone")).insert(inserted).merge()
        self._newest += 1


def _list_needed(columns: Iterable[HistoryColumn]) -> list[Mapping[str, str]]:
    """List the properties that Delta requires for columns."""
    return list_needed_properties(DeltaColumn(c.name, c.type, "", "") for c in columns)


def _is_same(values: Mapping[str, Column], key: Sequence[str]) -> Column:
    """Return whether a version of the table is a version to remove."""
    ours, theirs = (
        F.sort_array(F.map_entries(each)) for each in (get_column(INEXACT), values[INEXACT])
    )
    parts = [get_column(name).eqNullSafe(values[name]) for name in (*key, VALID_FROM)]
    is_open = get_column(VALID_TO).isNull()
    return combine_pairwise(and_, [F.col("⌗gone"), is_open, *parts, ours.eqNullSafe(theirs)])
