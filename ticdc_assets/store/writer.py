"""Commits that this process writes itself, with delta-rs: no Spark job, and milliseconds each.

Spark takes a second of processor time to commit a few rows, nearly all of it for planning and for
computing the table's state from its log.  Tables with a Delta feature that delta-rs does not write
are left to Spark (`is_writable`).
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Field,
    PostCommitHookProperties,
    Schema,
    TableFeatures,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.data_files import ROWS_PER_GROUP, WrittenFile
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.sql import quote_standard_text
from ticdc_assets.store.uris import choose_storage_options, format_uri

_NTZ = frozenset(("timestampNtz",))
# Of the features of a table, those that every commit of delta-rs respects.
_WRITABLE = frozenset(("appendOnly", "invariants", "timestampNtz"))
_LAST_VERSION_WITHOUT_FEATURES = 2
_NO_STATISTICS = ColumnProperties(statistics_enabled="NONE")
# A commit that is the next version or none: else delta-rs puts it behind those of other runs.
NO_RETRY = CommitProperties(max_commit_retries=0)
# `maintain` removes old files of logs, by rules of its own.  delta-rs would list a whole log after
# each commit, so that a commit costs the more the longer a lake runs.
_NO_CLEANUP = PostCommitHookProperties(cleanup_expired_logs=False)
_FENCE_ATTEMPTS = 10
# Of files that accumulate, this many between two of these sizes become one.
_SIZES = (0, 1 << 19, 4 << 20)
_MANY_FILES = 32
# Tables that are written whole are too small to profit from statistics.
_WHOLE = WriterProperties(compression="ZSTD", default_column_properties=_NO_STATISTICS)


class ConcurrentCommit(ConfigError):
    """Another run has committed to the same table since this one opened it."""


def is_writable(table: DeltaTable) -> bool:
    """Return whether delta-rs writes a table as Spark would."""
    protocol = table.protocol()
    if protocol.min_writer_version <= _LAST_VERSION_WITHOUT_FEATURES:
        return True
    return protocol.writer_features is not None and _WRITABLE.issuperset(protocol.writer_features)


def _choose_properties(columns: pa.Schema, rows_per_group: int | None = None) -> WriterProperties:
    """Choose how files are written; readers skip those whose statistics exclude a value.

    Delta states minima and maxima of decimals as JSON numbers, and delta-rs states others.
    """
    decimals = [field.name for field in columns if pa.types.is_decimal(field.type)]
    without = dict.fromkeys(decimals, _NO_STATISTICS)
    return WriterProperties(
        compression="ZSTD", column_properties=without, max_row_group_size=rows_per_group
    )


@dataclass(frozen=True)
class LakeWriter:
    """Writes the Delta tables of one changefeed's lake; every error is a `ConfigError`."""

    location: Lake

    def create(self, table: str, columns: pa.Schema, properties: Mapping[str, str]) -> None:
        """Create a table without rows, unless it exists."""
        path = self.location.path(table)
        with self._explained(path):
            DeltaTable.create(
                format_uri(path),
                columns,
                mode="ignore",
                configuration=dict(properties),
                storage_options=choose_storage_options(path),
                commit_properties=NO_RETRY,
                raise_if_key_not_exists=False,
            )

    def add_fence(self, table: str, stage: str) -> None:
        """Make the commits of a stage fail that other runs have begun: by one without rows.

        Those of Spark go on, which has tables with features that delta-rs does not write.
        """
        for _ in range(_FENCE_ATTEMPTS):
            opened = LakeReader(self.location).find(table)
            if opened is None or not is_writable(opened):
                return
            mark = Transaction(stage, opened.transaction_version(stage) or 0)
            commit = CommitProperties(app_transactions=[mark], max_commit_retries=0)
            with suppress(ConcurrentCommit), self._explained(opened.table_uri):
                opened.create_write_transaction(
                    [],
                    "append",
                    opened.schema(),
                    commit_properties=commit,
                    post_commithook_properties=_NO_CLEANUP,
                )
                return
        reason = "another run may be at work in this lake: run the command again later"
        raise ConcurrentCommit(reason, file=self.location.path(table), setting="--lake")

    def append(
        self,
        table: DeltaTable,
        rows: pa.Table,
        properties: CommitProperties | None = None,
        *,
        rows_per_group: int | None = None,
    ) -> None:
        """Append rows to an open table."""
        with self._explained(table.table_uri):
            write_deltalake(
                table,
                rows,
                mode="append",
                writer_properties=_choose_properties(rows.schema, rows_per_group),
                commit_properties=properties,
                post_commithook_properties=_NO_CLEANUP,
            )

    def create_of_files(
        self,
        table: str,
        columns: pa.Schema,
        files: Sequence[WrittenFile],
        properties: Mapping[str, str],
        commit: CommitProperties,
    ) -> None:
        """Create a table that consists of data files, in one commit."""
        path = self.location.path(table)
        with self._explained(path):
            create_table(path, columns, files, properties, commit)

    def replace_by_files(
        self,
        table: DeltaTable,
        columns: pa.Schema,
        files: Sequence[WrittenFile],
        commit: CommitProperties,
    ) -> None:
        """Replace all rows and columns of an open table by those of data files, in one commit."""
        with self._explained(table.table_uri):
            if _NTZ.isdisjoint(_list_features(table)) and _has_datetimes(columns):
                # delta-rs would make a table that nobody can open.
                table.alter.add_feature(
                    TableFeatures.TimestampWithoutTimezone,
                    allow_protocol_versions_increase=True,
                    post_commithook_properties=_NO_CLEANUP,
                )
            schema = Schema.from_arrow(columns)
            _add_files(table, files, "overwrite", schema, commit)

    def add_column(self, table: DeltaTable, field: pa.Field) -> None:
        """Add a column, of NULLs, to an open table."""
        with self._explained(table.table_uri):
            table.alter.add_columns(
                [Field.from_arrow(field)], post_commithook_properties=_NO_CLEANUP
            )

    def set_properties(self, table: DeltaTable, properties: Mapping[str, str]) -> None:
        """Set properties of an open table, in a commit that follows its version."""
        with self._explained(table.table_uri):
            table.alter.set_table_properties(
                dict(properties),
                raise_if_not_exists=False,
                commit_properties=NO_RETRY,
                post_commithook_properties=_NO_CLEANUP,
            )

    def append_files(
        self, table: DeltaTable, files: Sequence[WrittenFile], commit: CommitProperties
    ) -> None:
        """Add data files with the columns of an open table to it, in one commit."""
        with self._explained(table.table_uri):
            _add_files(table, files, "append", table.schema(), commit)

    def replace(
        self,
        table: str,
        rows: pa.Table,
        properties: Mapping[str, str] | None = None,
        commit: CommitProperties | None = None,
    ) -> None:
        """Replace all rows and columns of a small table; create it if there is none."""
        self._overwrite(
            table,
            rows,
            schema_mode="overwrite",
            configuration=dict(properties or {}),
            writer_properties=_WHOLE,
            commit_properties=commit,
        )

    def replace_where(self, table: str, column: str, values: Iterable[str], rows: pa.Table) -> None:
        """Replace the rows that have one of some values in a column."""
        predicate = f'"{column}" IN ({", ".join(map(quote_standard_text, values))})'
        chosen = _choose_properties(rows.schema)
        self._overwrite(table, rows, predicate=predicate, writer_properties=chosen)

    def rewrite(self, table: DeltaTable, rows: pa.Table) -> None:
        """Replace all rows of an open table that are as they were when it was opened."""
        with self._explained(table.table_uri):
            write_deltalake(
                table,
                rows,
                mode="overwrite",
                writer_properties=_choose_properties(rows.schema),
                post_commithook_properties=_NO_CLEANUP,
            )

    def compact(self, table: DeltaTable, largest: int | None = None) -> None:
        """Merge the small files of an open table; its rows stay as they are.

        Files of `largest` bytes or more are left, and none becomes much larger.
        """
        columns = pa.schema(table.schema().to_arrow())
        with self._explained(table.table_uri):
            table.optimize.compact(
                target_size=largest,
                writer_properties=_choose_properties(columns, ROWS_PER_GROUP),
                post_commithook_properties=_NO_CLEANUP,
            )

    def compact_many(self, table: DeltaTable) -> None:
        """Merge the files of an open table of one size once there are many of it.

        So small commits cost no more as they grow in number, and a row is written few times.
        """
        for least, most in pairwise(_SIZES):
            sizes = pa.table(table.get_add_actions())["size_bytes"]
            are_such = pc.and_(pc.greater_equal(sizes, least), pc.less(sizes, most))
            if (pc.sum(are_such).as_py() or 0) >= _MANY_FILES:
                # So that any two of them fit.
                self.compact(table, 2 * most)

    def delete(self, table: DeltaTable, predicate: str) -> None:
        """Delete the rows of an open table that meet a condition in SQL."""
        with self._explained(table.table_uri):
            table.delete(predicate, post_commithook_properties=_NO_CLEANUP)

    def _overwrite(self, table: str, rows: pa.Table, **options: Any) -> None:
        path = self.location.path(table)
        with self._explained(path):
            write_deltalake(
                format_uri(path),
                rows,
                mode="overwrite",
                storage_options=choose_storage_options(path),
                post_commithook_properties=_NO_CLEANUP,
                **options,
            )

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Raise the errors of delta-rs as one line without secrets."""
        try:
            yield
        except CommitFailedError as error:
            reason = f"another run may be at work in this lake: {describe_error(error)}"
            raise ConcurrentCommit(reason, file=path, setting="--lake") from None
        except (DeltaError, OSError, pa.ArrowException) as error:
            reason = f"cannot be written: {describe_error(error)}"
            raise ConfigError(reason, file=path, setting="--lake") from None


def create_table(
    path: str,
    columns: pa.Schema,
    files: Sequence[WrittenFile],
    properties: Mapping[str, str],
    commit: CommitProperties | None = None,
) -> None:
    """Create a table of data files at a path or URI, and raise the errors of delta-rs."""
    create_table_with_add_actions(
        format_uri(path),
        Schema.from_arrow(columns),
        _list_additions(files),
        configuration=dict(properties),
        storage_options=choose_storage_options(path),
        commit_properties=commit,
    )


# Parameters: those of delta-rs.
def _add_files(
    table: DeltaTable,
    files: Sequence[WrittenFile],
    mode: Literal["append", "overwrite"],
    columns: Schema,
    commit: CommitProperties,
) -> None:
    """Commit data files; the open table is then at the version of this commit."""
    table.create_write_transaction(
        [*_list_additions(files)],
        mode,
        columns,
        commit_properties=commit,
        post_commithook_properties=_NO_CLEANUP,
    )
    table.update_incremental()


def _list_additions(files: Iterable[WrittenFile]) -> list[AddAction]:
    now = time.time_ns() // 1_000_000
    return [AddAction(f.path, f.size, {}, now, True, f.statistics) for f in files]


def _list_features(table: DeltaTable) -> set[str]:
    return set(table.protocol().writer_features or ())


def _has_datetimes(columns: Iterable[pa.Field]) -> bool:
    """Whether columns, or fields of struct columns, are moments without a zone."""
    return any(
        _has_datetimes(field.type)
        if pa.types.is_struct(field.type)
        else pa.types.is_timestamp(field.type) and field.type.tz is None
        for field in columns
    )
