"""A storage-sink folder, written as the new-architecture server does.

Data files first, then the index that names them, `metadata` last; every file under a passing name
before it gets its own.  Dates are the clock of the flush, for which the checkpoint stands.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from ticdc_assets.demo.change import DROP_DATABASE, Change, ChangedRow, CommittedTransaction, Ddl
from ticdc_assets.demo.delivery import Delivery
from ticdc_assets.demo.schema_file import encode_database_schema, encode_table_schema
from ticdc_assets.events import TableSchema
from ticdc_assets.storage_sink.path import DataPath, IndexPath, Layout, build

_DATES = {"none": "", "year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LineWriter(Protocol):
    """Writes the rows of one table version as lines, terminators included."""

    header: str

    def __call__(self, change: ChangedRow, commit_ts: int, build_ms: int = 0) -> str: ...


@dataclass(slots=True)
class _Buffer:
    lines: list[str] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class _Version:
    """A table version with its buffered rows."""

    schema: TableSchema
    version: int
    checksum: str
    write: LineWriter
    # By the id of the partition; None in a table that has none.
    buffers: dict[int | None, _Buffer] = field(default_factory=dict)
    # The last file number by partition and date.
    numbers: dict[tuple[int | None, str], int] = field(default_factory=dict)


class StorageWriter:
    """Takes changes in commit order; `flush` writes them and advances the checkpoint."""

    def __init__(
        self,
        folder: Path,
        lines: Callable[[TableSchema], LineWriter],
        layout: Layout,
        delivery: Delivery,
        *,
        file_size: int = 64 << 20,
    ) -> None:
        self._folder = folder
        self._new_lines = lines
        self._layout = layout
        self._delivery = delivery
        self._file_size = file_size
        # By the identity of the schema that rows come with.
        self._versions: dict[int, _Version] = {}
        self._current: dict[tuple[str, str], _Version] = {}
        # The lines written since the last checkpoint, which a restart may write again.
        self._sent: list[tuple[_Version, int | None, list[str]]] = []
        self._written = 0
        self.rows = 0

    def take(self, change: Change) -> None:
        if change.ts <= self._delivery.start_ts:
            # From before the changefeed: the schema file is written with the first row.
            return
        if isinstance(change, Ddl):
            self._ddl(change)
        else:
            self._rows(change)

    def flush(self, ts: int) -> None:
        """Write all buffered rows, then the checkpoint."""
        for version in self._current.values():
            self._cut(version, ts)
        if self._delivery.happens(self._delivery.replays):
            self._replay(ts)
        self._sent = []
        self._put("metadata", f'{{"checkpoint-ts":{ts}}}'.encode())

    def _rows(self, commit: CommittedTransaction) -> None:
        ts = commit.ts
        build_ms = (ts >> 18) + 20
        for change in commit.rows:
            version = self._versions.get(id(change.table)) or self._start_existing(change.table)
            line = version.write(change, ts, build_ms)
            buffer = version.buffers.get(change.partition)
            if buffer is None:
                buffer = version.buffers[change.partition] = _Buffer()
            buffer.lines.append(line)
            buffer.size += len(line)
            if buffer.size >= self._file_size:
                self._cut(version, ts)
        self.rows += len(commit.rows)

    def _start_existing(self, schema: TableSchema) -> _Version:
        """Start a table from before the changefeed: its version is the start ts."""
        path, content = encode_table_schema(schema, self._delivery.start_ts, "", 0, self._layout)
        self._put(path, content)
        return self._begin(schema, self._delivery.start_ts, path)

    def _begin(self, schema: TableSchema, ts: int, path: str) -> _Version:
        checksum = path.rpartition("_")[2].partition(".")[0]
        version = _Version(schema, ts, checksum, self._new_lines(schema))
        self._versions[id(schema)] = version
        self._current[schema.database, schema.table] = version
        return version

    def _ddl(self, ddl: Ddl) -> None:
        for schema in ddl.before, ddl.exchanged and ddl.exchanged.before:
            if schema is not None:
                self._end(schema, ddl.ts)
        if ddl.stated is None:
            if ddl.kind == DROP_DATABASE:
                self._end_database(ddl)
            path, content = encode_database_schema(
                ddl.database, ddl.ts, ddl.sql, ddl.kind.code, self._layout
            )
        else:
            path, content = encode_table_schema(
                ddl.stated, ddl.ts, ddl.sql, ddl.kind.code, self._layout
            )
        self._put(path, content)
        if ddl.after is not None:
            self._begin(ddl.after, ddl.ts, path)
        if ddl.exchanged is not None:
            # A file without a DDL: the other table goes on.
            other = ddl.exchanged.after
            path, content = encode_table_schema(other, ddl.ts, "", 0, self._layout)
            self._put(path, content)
            self._begin(other, ddl.ts, path)

    def _end(self, schema: TableSchema, ts: int) -> None:
        """Write what a table has under a schema that a DDL ends."""
        if (ended := self._current.pop((schema.database, schema.table), None)) is not None:
            self._cut(ended, ts)
            del self._versions[id(ended.schema)]

    def _end_database(self, ddl: Ddl) -> None:
        for name in [name for name in self._current if name[0] == ddl.database]:
            ended = self._current.pop(name)
            self._cut(ended, ddl.ts)
            del self._versions[id(ended.schema)]

    def _cut(self, version: _Version, ts: int) -> None:
        buffers, version.buffers = version.buffers, {}
        for partition, buffer in buffers.items():
            self._write(version, partition, buffer.lines, ts)
            if self._delivery.replays:
                self._sent.append((version, partition, buffer.lines))

    def _replay(self, ts: int) -> None:
        """What a restart from the last checkpoint writes again, into the same directories."""
        for version, partition, lines in self._sent:
            now = self._current.get((version.schema.database, version.schema.table))
            if now is not None and now is not version and now.checksum == version.checksum:
                # The server takes a newer version of equal shape for a sign that all was written.
                continue
            self._write(version, partition, lines, ts)

    def _write(self, version: _Version, partition: int | None, lines: list[str], ts: int) -> None:
        moment = _EPOCH + timedelta(milliseconds=ts >> 18)
        date = moment.strftime(_DATES[self._layout.date_separator])
        number = version.numbers.get((partition, date), 0) + 1
        version.numbers[partition, date] = number
        schema = version.schema
        data = DataPath(
            database=schema.database,
            table=schema.table,
            version=version.version,
            partition_id=partition,
            date=date or None,
            number=number,
        )
        path = build(data, self._layout)
        self._put(path, (version.write.header + "".join(lines)).encode())
        index = IndexPath(
            database=schema.database,
            table=schema.table,
            version=version.version,
            partition_id=partition,
            date=date or None,
        )
        self._put(build(index, self._layout), path.rpartition("/")[2].encode() + b"\n")

    def _put(self, path: str, content: bytes) -> None:
        target = self._folder / path
        self._written += 1
        passing = target.with_name(f"{target.name}.tmp.{self._written}")
        try:
            passing.write_bytes(content)
        except FileNotFoundError:
            passing.parent.mkdir(parents=True, exist_ok=True)
            passing.write_bytes(content)
        os.replace(passing, target)
