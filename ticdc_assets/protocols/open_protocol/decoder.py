"""The Open Protocol: batches of framed events, each a JSON key and a JSON value.

    key    {"t": 1 row, 2 DDL, 3 resolved; "ts", "scm": database, "tbl": table, "ptn": partition id,
            "ohk": handle key only, "ccl": claim-check location}
    row    {"u": row after, "p": row before} or {"d": deleted row}, each {column: see `column`}
    DDL    {"q": statement, "t": type number}
    resolved event: no value

The format follows TiCDC's document "TiCDC Open Protocol" and `pkg/sink/codec/open`.  This module
does not interpret DDL.
"""

import json
from collections.abc import Iterator, Set
from typing import Annotated, NoReturn, TypeVar
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta, Struct, field

from ticdc_assets.errors import DecodeError, MalformedMessage, UnknownMessage
from ticdc_assets.events import (
    Event,
    Op,
    Quarantined,
    RowChange,
    SchemaChange,
    TopicPosition,
    Watermark,
)
from ticdc_assets.protocols import payload
from ticdc_assets.protocols.compression import Compression, decompress
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.open_protocol import framing as open_framing
from ticdc_assets.protocols.open_protocol.column import (
    OpenColumn,
    OpenImage,
    read_image,
    stale_binary_flags,
)
from ticdc_assets.protocols.payload import PayloadStore

_ROW, _DDL, _RESOLVED = 1, 2, 3

_MAX = 2**63 - 1


class _Key(Struct, gc=False, frozen=True):
    type: int = field(name="t")
    ts: Annotated[int, Meta(ge=0, le=_MAX)]
    database: str = field(name="scm", default="")
    table: str = field(name="tbl", default="")
    partition_id: Annotated[int, Meta(ge=0, le=_MAX)] | None = field(name="ptn", default=None)
    # With a claim check the new-architecture server writes it twice, true and then false.  The last
    # one wins, as in most JSON readers.
    only_handle_key: bool = field(name="ohk", default=False)
    claim_check_location: str = field(name="ccl", default="")


class _Row(Struct, gc=False, frozen=True):
    upsert: dict[str, OpenColumn] | None = field(name="u", default=None)
    previous: dict[str, OpenColumn] | None = field(name="p", default=None)
    delete: dict[str, OpenColumn] | None = field(name="d", default=None)


class _Ddl(Struct, gc=False, frozen=True):
    query: str = field(name="q")
    # A number, although the documents say string.
    type: Annotated[int, Meta(ge=0, le=0xFFFF)] | str = field(name="t")


_Images = tuple[Op, str | None, str | None, OpenImage]
_T = TypeVar("_T")
_key_decoder = msgspec.json.Decoder(_Key)
_row_decoder = msgspec.json.Decoder(_Row)
_ddl_decoder = msgspec.json.Decoder(_Ddl)


class OpenProtocolDecoder:
    """Decode Open Protocol records.

    `old_values` and `updated_columns_only` are the changefeed's `open.output-old-value` and
    `only-output-updated-columns`: they decide whether a row without old values can be an update.
    """

    def __init__(
        self,
        *,
        tz: ZoneInfo,
        compression: Compression = "none",
        payloads: PayloadStore | None = None,
        old_values: bool = True,
        updated_columns_only: bool = False,
    ) -> None:
        self._tz = tz
        self._compression: Compression = compression
        self._payloads = payloads
        self._op_without_old = Op.INSERT if old_values and not updated_columns_only else Op.UPSERT

    def decode(self, message: Message) -> Iterator[Event]:
        """Decode one Kafka record, event by event; a broken event does not affect the others."""
        topic, partition, offset = message.topic, message.partition, message.offset
        try:
            batch = open_framing.split(message.key, message.value)
        except DecodeError as error:
            yield Quarantined.from_error(error, TopicPosition(topic, partition, offset))
            return
        for index, (key, value) in enumerate(batch):
            position = TopicPosition(topic, partition, offset, index)
            try:
                yield self._event(key, value, position)
            except DecodeError as error:
                yield Quarantined.from_error(error, position)

    def _event(self, key: bytes, value: bytes, position: TopicPosition) -> Event:
        head = _read(_key_decoder, key, "key")
        if head.type == _ROW:
            return self._row(head, value, position)
        if head.type == _RESOLVED:
            if value:
                raise MalformedMessage("a resolved event with a value")
            return Watermark(ts=head.ts, position=position)
        if head.type == _DDL:
            ddl = _read(_ddl_decoder, self._decompressed(value), "DDL")
            return SchemaChange(
                commit_ts=head.ts,
                database=head.database,
                table=head.table,
                sql=ddl.query,
                position=position,
                ddl_type=str(ddl.type),
            )
        raise UnknownMessage(f"event type {head.type}")

    def _row(self, head: _Key, value: bytes, position: TopicPosition) -> RowChange:
        if not head.database or not head.table:
            raise MalformedMessage("a row without database or table")
        digest = None
        handle_key_only = head.only_handle_key
        if head.claim_check_location:
            value, digest = self._redeem(head)
            handle_key_only = False
        op, before, after, stated = self._images(_read_row(self._decompressed(value)))
        if stated.observed == "{}":
            raise MalformedMessage("a row without columns")
        return RowChange(
            op=op,
            commit_ts=head.ts,
            database=head.database,
            table=head.table,
            position=position,
            before=before,
            after=after,
            table_id=head.partition_id,
            observed=stated.observed,
            key_columns=stated.key_columns,
            handle_key_only=handle_key_only,
            claim_check_digest=digest,
        )

    def _decompressed(self, value: bytes) -> bytes:
        if self._compression == "none":
            return value
        return decompress(value, self._compression)

    def _redeem(self, head: _Key) -> tuple[bytes, str]:
        """Fetch the value that a claim-check event refers to, and the digest of the object."""
        stored = payload.fetch(head.claim_check_location, self._payloads, raw=False)
        batch = open_framing.split(stored.key, stored.value)
        key, value = batch[0]
        if len(batch) != 1 or not _same_event(head, _read(_key_decoder, key, "key")):
            raise MalformedMessage("the claim-check object holds another event")
        return value, stored.digest

    def _images(self, row: _Row) -> _Images:
        try:
            return self._read_images(row, frozenset())
        except MalformedMessage:
            stale: set[str] = set()
            for columns in (row.upsert, row.previous, row.delete):
                stale |= stale_binary_flags(columns or {})
            if not stale:
                raise
            return self._read_images(row, stale)

    def _read_images(self, row: _Row, stale: Set[str]) -> _Images:
        """Read both images; the fourth value is the image that states the columns."""
        if row.delete is not None and row.upsert is None and row.previous is None:
            deleted = read_image(row.delete, self._tz, stale)
            return Op.DELETE, deleted.text, None, deleted
        if row.upsert is None or row.delete is not None:
            raise MalformedMessage("a row needs either `u` or `d`")
        new = read_image(row.upsert, self._tz, stale)
        if row.previous is None:
            return self._op_without_old, None, new.text, new
        # Only updated columns are sent, and none was updated.
        if not row.previous:
            return Op.UPDATE, "{}", new.text, new
        return Op.UPDATE, read_image(row.previous, self._tz, stale).text, new.text, new


def _same_event(one: _Key, other: _Key) -> bool:
    return not other.claim_check_location and (one.type, one.ts, one.database, one.table) == (
        other.type,
        other.ts,
        other.database,
        other.table,
    )


def _read(decoder: msgspec.json.Decoder[_T], data: bytes, what: str) -> _T:
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"{what}: {error}") from None


def _read_row(data: bytes) -> _Row:
    try:
        # msgspec reads -0 as an integer and loses the sign.
        if b":-0}" not in data:
            return _row_decoder.decode(data)
    except UnicodeDecodeError:
        # The new-architecture server writes text that is not UTF-8 unchanged.
        pass
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"row: {error}") from None
    try:
        text = data.decode("utf-8", "surrogateescape")
        tree = json.loads(text, parse_int=_whole_number, parse_constant=_raise_for_constant)
        row = msgspec.convert(tree, _Row)
        for columns in (row.upsert, row.previous, row.delete):
            for column in (columns or {}).values():
                if isinstance(column.v, str):
                    # Lone surrogates other than those of `surrogateescape` stand for no bytes.
                    column.v.encode("utf-8", "surrogateescape")
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"row: {error}") from None
    return row


def _whole_number(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def _raise_for_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
