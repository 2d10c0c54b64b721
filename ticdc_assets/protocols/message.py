"""The input of decoders: a record of a topic, or a data file of the storage sink."""

from msgspec import Struct

from ticdc_assets.events import TableSchema


class Message(Struct, frozen=True, gc=False):
    """One Kafka record, from a broker or from a dump."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class DataFile(Struct, frozen=True):
    """One data file of the storage sink, whole."""

    # Relative to the changefeed's prefix.
    path: str
    data: bytes
    # The table version, from the path.
    version: int
    # The physical table id, where the path has one (partitions, use-table-id-as-path).
    table_id: int | None = None
    # The table at that version, where its schema file is known: CSV cannot be decoded without it.
    schema: TableSchema | None = None
