"""A Delta table made of the versions of a table's rows: its history, or its changes.

Every update ends with a commit that has the stage's mark: how far the table has got.  Readers use
the newest version with a mark; an update first undoes whatever follows it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, reduce
from operator import or_
from typing import ClassVar, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ticdc_assets.lake.apply.table_features import (
    PLAIN_PROPERTIES,
    TableDetail,
    list_needed_properties,
    read_table_detail,
)
from ticdc_assets.lake.history.columns import HistoryColumn, read_stored_columns
from ticdc_assets.lake.history.marks import COMMITS_TO_SEARCH, UpdateMark, find_mark
from ticdc_assets.rows.columns import DeltaColumn
from ticdc_assets.store.commits import read_newest_commits
from ticdc_assets.store.data_files import WrittenFile
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore
from ticdc_assets.store.small_tables import open_files, read_schema
from ticdc_assets.store.sql import quote_identifier, quote_literal
from ticdc_assets.store.stage_commits import StageMark, commit_files, commit_frame, commit_rows
from ticdc_assets.store.writer import LakeWriter, is_writable


class VersionsTable(ABC):
    """The table of one incarnation, as it was when this was made."""

    # The folder of such tables; their stage has this name, too.
    folder: ClassVar[Literal["history", "changes"]]
    # Where the columns of values are: on top, or in each of some struct columns.
    structs: ClassVar[Sequence[str]] = ()
    properties: ClassVar[Mapping[str, str]] = PLAIN_PROPERTIES

    def __init__(self, lake: LakeSession, incarnation: str) -> None:
        self.lake = lake
        self.name = f"{self.folder}/{incarnation}"
        self.reader = LakeReader(lake.location)
        self._writer = LakeWriter(lake.location)
        self._newest = -1
        self._has_strays = False
        # The Delta version with the newest mark, and the mark.
        self.version: int | None = None
        self.mark: UpdateMark | None = None
        self._find_mark()

    def _find_mark(self) -> None:
        if self.reader.find(self.name) is None:
            return
        commits = read_newest_commits(self.lake, self.name, COMMITS_TO_SEARCH)
        self._newest = commits[0].version
        if found := find_mark(commits, self.folder):
            self.version, self.mark, self._has_strays = found

    @abstractmethod
    def list_types(self, columns: Sequence[HistoryColumn]) -> Mapping[str, str]:
        """Return all columns of the table and their types in Spark."""

    @cached_property
    def columns(self) -> list[HistoryColumn]:
        """The columns of values."""
        if self.version is None:
            return []
        stored = read_schema(self.reader.open(self.name, self.version))
        for name in self.structs[-1:]:
            inner = stored[name].dataType
            assert isinstance(inner, StructType)
            stored = inner
        types = {field.name: field.dataType.simpleString() for field in stored.fields}
        return read_stored_columns(types)

    @cached_property
    def _detail(self) -> TableDetail:
        return read_table_detail(self.lake, self.name)

    @property
    def is_large(self) -> bool:
        return self.version is not None and self._detail.is_large

    def undo_strays(self) -> None:
        """Undo what a killed run wrote after the mark."""
        if self._has_strays and self.version is not None:
            self._newest = restore(self.lake.location, self.name, self._newest, self.version)

    def _stage_mark(self, mark: UpdateMark) -> StageMark:
        # Numbers grow, and 0 is none: no commit has a number greater than its version and one.
        return StageMark(self.folder, self._newest + 2, asdict(mark))

    def replace(
        self, files: Sequence[WrittenFile], columns: Sequence[HistoryColumn], mark: UpdateMark
    ) -> None:
        """Replace all rows and columns by those of data files, in one commit."""
        needed = _list_needed(columns)
        existing = self.reader.find(self.name)
        is_plain = all("delta.columnMapping.mode" not in properties for properties in needed)
        if is_plain and (existing is None or is_writable(existing)):
            fields, commit = self._list_fields(columns), self._stage_mark(mark).properties
            if existing is None:
                self._writer.create_of_files(self.name, fields, files, self.properties, commit)
            else:
                self._writer.replace_by_files(existing, fields, files, commit)
            return
        if existing is not None:
            self._switch_on(needed)
        comments = {} if self.structs else {column.name: column.comment for column in columns}
        rows = self.read_files(files, columns)
        commented = rows.select(
            *(
                F.col(quote_identifier(name)).alias(name, metadata={"comment": comments[name]})
                if name in comments
                else F.col(quote_identifier(name))
                for name in rows.columns
            )
        )
        writer = commented.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        if existing is None:
            writer = writer.options(**reduce(or_, needed, dict(self.properties)))
        writer.options(**self._stage_mark(mark).options).save(self.lake.path(self.name))
        self.remove_files(files)

    def append(
        self,
        files: Sequence[WrittenFile],
        columns: Sequence[HistoryColumn],
        mark: UpdateMark,
        replaced: str | None = None,
    ) -> None:
        """Add rows, and columns that are new, and remove the rows with the condition `replaced`."""
        self.add_columns(columns)
        if replaced is None and is_writable(self.reader.open(self.name)):
            commit_files(self.lake, self.name, files, self._stage_mark(mark))
            return
        rows = self.read_files(files, columns)
        commit_frame(self.lake, self.name, rows, self._stage_mark(mark), replaced)
        self.remove_files(files)

    def read_files(
        self, files: Sequence[WrittenFile], columns: Sequence[HistoryColumn]
    ) -> DataFrame:
        """Read data files that no commit has, for Spark to write their rows."""
        types = list(self.list_types(columns).values())
        return open_files(self.lake, self.name, files, self.list_fields(columns), types)

    def remove_files(self, files: Iterable[WrittenFile]) -> None:
        """Remove data files of which Spark has written the rows."""
        folder = self.reader.open_folder(self.name)
        for file in files:
            folder.delete_file(file.path)

    def _list_fields(self, columns: Sequence[HistoryColumn]) -> pa.Schema:
        """List all columns with the comments of those of values."""
        comments = {} if self.structs else {c.name: {"comment": c.comment} for c in columns}
        fields = self.list_fields(columns)
        return pa.schema([field.with_metadata(comments.get(field.name)) for field in fields])

    @abstractmethod
    def list_fields(self, columns: Sequence[HistoryColumn]) -> pa.Schema:
        """Return all columns of the table and their types in Arrow."""

    def add_columns(self, columns: Sequence[HistoryColumn]) -> None:
        """Add the columns that the table lacks."""
        self._switch_on(_list_needed(columns))
        known = {column.name for column in self.columns}
        added = [column for column in columns if column.name not in known]
        # One commit for all: it takes as long for one as for many.
        listed = [
            f"{place}{quote_identifier(column.name)} {column.type}"
            f" COMMENT {quote_literal(column.comment)}"
            for place in [f"{struct}." for struct in self.structs] or [""]
            for column in added
        ]
        if listed:
            self._alter(f"ADD COLUMNS ({', '.join(listed)})")

    def _switch_on(self, needed: Iterable[Mapping[str, str]]) -> None:
        """Set the properties that the table lacks."""
        for properties in needed:
            if not self._detail.has(properties):
                listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
                self._alter(f"SET TBLPROPERTIES ({listed})")

    def _alter(self, action: str) -> None:
        self.lake.spark.sql(f"ALTER TABLE {self.lake.sql(self.name)} {action}")
        self._newest += 1

    def advance(self, mark: UpdateMark) -> None:
        """Mark what the table has now as what it has up to another snapshot."""
        empty = pa.schema(self.reader.open(self.name).schema().to_arrow()).empty_table()
        commit_rows(self.lake, self.name, empty, self._stage_mark(mark))


def _list_needed(columns: Iterable[HistoryColumn]) -> list[Mapping[str, str]]:
    """List the properties that Delta requires for columns."""
    return list_needed_properties(DeltaColumn(c.name, c.type, "", "") for c in columns)
