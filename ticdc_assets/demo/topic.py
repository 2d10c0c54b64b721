"""Write a topic to a file, record by record, as the new-architecture server sends it.

Every change up to a watermark is sent before it.  DDLs and watermarks go to every partition
(Canal-JSON's DDLs only to the first), rows to the partition of a hash of their table or key.
"""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol
from zlib import crc32

from ticdc_assets.demo.change import Change, ChangedRow, Ddl, row_columns
from ticdc_assets.demo.declaration import TOPIC
from ticdc_assets.demo.delivery import Delivery
from ticdc_assets.demo.per_table import PerTable
from ticdc_assets.demo.send_order import SentRow, arrange_changes
from ticdc_assets.events import TableSchema

# Simple repeats the schema of a table after this time or this number of rows.
_BOOTSTRAP_MS = 120_000
_BOOTSTRAP_ROWS = 10_000
# The time between the commit of a change and its record.
_LAG_MS = 25

Dispatch = Literal["index-value", "table"]


class Record(NamedTuple):
    """The bytes of a record."""

    key: bytes | None
    value: bytes


class Codec(Protocol):
    """Encodes changes and watermarks; `build_ms` is the time of encoding."""

    # The maximum number of rows per record.
    batch: int
    ddl_to_all: bool

    def rows(self, rows: Sequence[SentRow], build_ms: int) -> Record: ...
    def ddl(self, ddl: Ddl, build_ms: int) -> Record: ...
    def watermark(self, ts: int, build_ms: int) -> Record: ...
    def bootstrap(self, schema: TableSchema, build_ms: int) -> Record | None: ...


class TopicWriter:
    """Takes changes in commit order; `flush` sends them, then a watermark."""

    def __init__(
        self,
        path: Path,
        codec: Codec,
        delivery: Delivery,
        *,
        partitions: int = 3,
        dispatch: Dispatch = "index-value",
    ) -> None:
        self._path = path
        self._codec = codec
        self._delivery = delivery
        self._partitions = partitions
        self._pending: list[Change] = []
        self._offsets = [0] * partitions
        self._lines: list[str] = []
        # The records of the last two flushes, which a restart may repeat.
        self._sent: list[list[tuple[int, Record, int]]] = []
        self._dispatcher = PerTable(
            lambda schema: PartitionDispatcher(schema, partitions, dispatch)
        )
        # By table id: when its schema was last sent, and the rows since then.
        self._schemas_sent: dict[int, tuple[int, int]] = {}
        self.rows = 0
        path.write_bytes(b"")

    def take(self, change: Change) -> None:
        if change.ts > self._delivery.start_ts:
            self._pending.append(change)

    def flush(self, ts: int) -> None:
        """Send all pending changes, then the watermark `ts`."""
        pending, self._pending = self._pending, []
        self._sent = [*self._sent[-1:], []]
        for part in arrange_changes(pending, self._delivery.random, self._delivery.ahead):
            if isinstance(part, Ddl):
                self._send_ddl(part)
            else:
                self._send_rows(part)
        build_ms = (ts >> 18) + _LAG_MS
        watermark = self._codec.watermark(ts, build_ms)
        for partition in range(self._partitions):
            self._send(partition, watermark, build_ms)
        if self._delivery.happens(self._delivery.replays):
            repeated = [record for records in self._sent for record in records]
            for partition, record, sent_ms in repeated:
                self._append(partition, record, sent_ms)
        with self._path.open("a") as file:
            file.writelines(self._lines)
        self._lines = []

    def _send_ddl(self, ddl: Ddl) -> None:
        build_ms = (ddl.ts >> 18) + _LAG_MS
        record = self._codec.ddl(ddl, build_ms)
        for partition in range(self._partitions if self._codec.ddl_to_all else 1):
            self._send(partition, record, build_ms)

    def _send_rows(self, tables: Sequence[Sequence[SentRow]]) -> None:
        batches: list[list[SentRow]] = [[] for _ in range(self._partitions)]
        for rows in tables:
            schema = rows[0].change.table
            self.rows += len(rows)
            self._introduce(schema, rows[0].ts >> 18, len(rows))
            partition_of = self._dispatcher(schema)
            for row in rows:
                partition = partition_of(row.change)
                batch = batches[partition]
                batch.append(row)
                if len(batch) == self._codec.batch:
                    self._send_batch(partition, batch)
                    batches[partition] = []
        for partition, batch in enumerate(batches):
            if batch:
                self._send_batch(partition, batch)

    def _send_batch(self, partition: int, rows: Sequence[SentRow]) -> None:
        build_ms = (rows[-1].ts >> 18) + _LAG_MS
        self._send(partition, self._codec.rows(rows, build_ms), build_ms)

    def _introduce(self, schema: TableSchema, now_ms: int, rows: int) -> None:
        """Send the schema before the first row of a table, and repeat it from time to time."""
        table = schema.table_id or 0
        since_ms, count = self._schemas_sent.get(table, (0, 0))
        if (
            table in self._schemas_sent
            and now_ms - since_ms < _BOOTSTRAP_MS
            and count < _BOOTSTRAP_ROWS
        ):
            self._schemas_sent[table] = since_ms, count + rows
            return
        self._schemas_sent[table] = now_ms, rows
        record = self._codec.bootstrap(schema, now_ms + _LAG_MS)
        if record is not None:
            for partition in range(self._partitions):
                self._send(partition, record, now_ms + _LAG_MS)

    def _send(self, partition: int, record: Record, sent_ms: int) -> None:
        self._append(partition, record, sent_ms)
        if self._delivery.happens(self._delivery.duplicates):
            self._append(partition, record, sent_ms)
        if self._delivery.replays:
            self._sent[-1].append((partition, record, sent_ms))

    def _append(self, partition: int, record: Record, sent_ms: int) -> None:
        offset = self._offsets[partition]
        self._offsets[partition] = offset + 1
        key = "null" if record.key is None else f'"{b64encode(record.key).decode("ascii")}"'
        self._lines.append(
            f'{{"topic": "{TOPIC}", "partition": {partition}, "offset": {offset},'
            f' "key_b64": {key}, "value_b64": "{b64encode(record.value).decode("ascii")}",'
            f' "timestamp_ms": {sent_ms}}}\n'
        )


class PartitionDispatcher:
    """Computes the partition of a row."""

    def __init__(self, schema: TableSchema, partitions: int, dispatch: Dispatch) -> None:
        # Kept alive: callers refer to the schema by its identity.
        self._schema = schema
        self._partitions = partitions
        self._base = crc32((schema.database + schema.table).encode())
        names = schema.key if dispatch == "index-value" else ()
        self._key = [
            (place, crc32(column.name.encode()))
            for place, column in enumerate(row_columns(schema))
            if column.name in names
        ]

    def __call__(self, change: ChangedRow) -> int:
        row = change.new or change.old or ()
        value = self._base
        for place, name in self._key:
            value ^= crc32((row[place] or "").encode(), name)
        return value % self._partitions
