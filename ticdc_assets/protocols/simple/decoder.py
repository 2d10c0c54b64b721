"""The Simple protocol, whatever its encoding: from a record to its event.

A record holds one event, in its value.  The value may be compressed as a whole.  A row too large
for the topic is a stub that names a claim-check object; the record in the object replaces it.  The
subclasses in `json` and `avro` read the bytes.  The protocol follows TiCDC's document "TiCDC Simple
Protocol" and `pkg/sink/codec/simple`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from ticdc_assets.errors import DecodeError, MalformedMessage, UnknownMessage
from ticdc_assets.events import Event, Op, Quarantined, RowChange, TopicPosition
from ticdc_assets.protocols import payload
from ticdc_assets.protocols.compression import MESSAGE_LIMIT, Compression, decompress
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.protocols.timestamp import to_utc, zone_named

VERSION = 1
# In the order of the enums in `message.avsc`.
DML_TYPES = ("INSERT", "UPDATE", "DELETE")
DDL_TYPES = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")


class SimpleDecoder(ABC):
    """Decode records of one encoding.

    `tz` is the TiCDC server's zone, for timestamps whose location is "System"; `raw_payloads` is
    the changefeed's `claim-check-raw-value`.
    """

    def __init__(
        self,
        *,
        tz: ZoneInfo,
        compression: Compression = "none",
        payloads: PayloadStore | None = None,
        raw_payloads: bool = False,
    ) -> None:
        self._tz = tz
        self._compression: Compression = compression
        self._payloads = payloads
        self._raw_payloads = raw_payloads

    def decode(self, message: Message) -> Iterator[Event]:
        """Decode one record to its event, or quarantine it."""
        position = TopicPosition(message.topic, message.partition, message.offset)
        event: Event
        try:
            if message.value is None:
                raise MalformedMessage("a record without a value")
            event = self._read(self._plain(message.value), position, None)
        except DecodeError as error:
            event = Quarantined.from_error(error, position)
        return iter((event,))

    def _plain(self, value: bytes) -> bytes:
        if self._compression == "none":
            return value
        return decompress(value, self._compression, MESSAGE_LIMIT)

    @abstractmethod
    def _read(self, value: bytes, position: TopicPosition, claimed: str | None) -> Event:
        """Read an event; `claimed` is the digest of the claim-check object that holds it."""

    def _redeem(self, stub: RowChange, position: TopicPosition, location: str) -> RowChange:
        """Read the row that a stub refers to."""
        if stub.claim_check_digest is not None:
            raise MalformedMessage("a claim-check object that is a claim check itself")
        object_ = payload.fetch(location, self._payloads, raw=self._raw_payloads)
        row = self._read(self._plain(object_.value), position, object_.digest)
        if not isinstance(row, RowChange) or (row.commit_ts, row.database, row.table, row.op) != (
            stub.commit_ts,
            stub.database,
            stub.table,
            stub.op,
        ):
            name = payload.object_name(location)
            raise MalformedMessage(
                f"claim-check object {name!r} holds another row than the one that names it"
            )
        return row

    def _timestamp(self, location: str, value: str) -> str:
        return to_utc(value, zone_named(location, self._tz))


def check_op(kind: str, before: str | None, after: str | None) -> Op:
    """Return the operation of a row, checking its type against the images present."""
    if after is not None:
        if before is None and kind == "INSERT":
            return Op.INSERT
        if before is not None and kind == "UPDATE":
            return Op.UPDATE
    elif before is not None and kind == "DELETE":
        return Op.DELETE
    has = [name for name, image in (("data", after), ("old", before)) if image is not None]
    raise MalformedMessage(f"a row of type {kind[:20]!r} with {' and '.join(has) or 'no image'}")


def check_version(version: int) -> None:
    """Raise `UnknownMessage` for any version of the protocol but 1."""
    if version != VERSION:
        raise UnknownMessage(f"version {version} of the Simple protocol")
