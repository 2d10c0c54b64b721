"""The Canal-JSON protocol: one JSON object per Kafka record, or per line of a storage-sink file.

    {"database", "table", "type", "es": commit in ms, "ts": encoding in ms, "sql",
     "mysqlType": {column: type}, "sqlType": {column: java.sql.Types code},
     "data": [{column: text or null}], "old": [{column: text or null}],
     "_tidb": {"commitTs", "watermarkTs", "onlyHandleKey", "claimCheckLocation"}}

`_tidb` needs `enable-tidb-extension`; with `only-output-updated-columns` or `content-compatible`,
`old` has the changed columns only.  TiCDC sends one row per message, the original Canal several.
The format follows TiCDC's document "Canal-JSON Protocol" and `pkg/sink/codec/canal`.  This module
does not interpret DDL, nor types beyond what makes the text of a value unambiguous.
"""

from binascii import b2a_base64
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import Raw, Struct
from msgspec.structs import replace

from ticdc_assets.errors import DecodeError, InvalidValue, MalformedMessage, UnknownMessage
from ticdc_assets.events import (
    Event,
    FilePosition,
    Op,
    Ordering,
    Position,
    Quarantined,
    RowChange,
    SchemaChange,
    TopicPosition,
    Watermark,
    row_image,
    tso,
)
from ticdc_assets.protocols import payload
from ticdc_assets.protocols.canal_json import message as canal_message
from ticdc_assets.protocols.canal_json.message import CanalMessage, object_text, read_columns
from ticdc_assets.protocols.compression import Compression, decompress
from ticdc_assets.protocols.message import DataFile, Message
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.protocols.timestamp import to_utc
from ticdc_assets.schema.inference import parse_observed_columns, sort_observed_columns

_WATERMARK = "TIDB_WATERMARK"
_OPS = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
# java.sql.Types.BLOB: the code in `sqlType` of a column that holds bytes.
_BLOB = b"2004"


class _Rewrite(Struct, gc=False, frozen=True):
    """The columns of a message whose text differs from the row-image convention."""

    binary: frozenset[str]
    timestamp: frozenset[str]


class CanalJsonDecoder:
    """Decode Canal-JSON records and files."""

    # Parameters: one per setting that changes what messages hold.
    def __init__(
        self,
        *,
        tz: ZoneInfo,
        compression: Compression = "none",
        payloads: PayloadStore | None = None,
        raw_payloads: bool = False,
        terminator: str = "\r\n",
        deletes_have_keys_only: bool = False,
    ) -> None:
        self._tz = tz
        self._moves_timestamps = tz.key != "UTC"
        self._compression: Compression = compression
        self._payloads = payloads
        self._raw_payloads = raw_payloads
        self._deletes_have_keys_only = deletes_have_keys_only
        # TiCDC replaces an empty terminator with the default one.
        self._terminator = terminator.encode() or b"\r\n"

    def decode(self, message: Message) -> Iterator[Event]:
        """Decode one Kafka record."""
        position = TopicPosition(message.topic, message.partition, message.offset)
        try:
            if message.value is None:
                raise MalformedMessage("a record without a value")
            content = self._read(message.value)
            if content.is_ddl:
                return iter((_schema_change(content, position),))
            if content.type == _WATERMARK:
                return iter((_watermark(content, position),))
            digest = None
            if content.tidb.claim_check_location:
                content, digest = self._redeem(content)
            return iter(self._rows(content, position, digest=digest))
        except DecodeError as error:
            return iter((Quarantined.from_error(error, position),))

    def decode_file(self, file: DataFile) -> Iterator[Event]:
        """Decode a data file, one record per line.

        The last line may lack its terminator.  Without the extension the commit ts of a row is its
        millisecond, but never less than the table version of its file.
        """
        for record, line in enumerate(self._lines(file.data), start=1):
            position = FilePosition(file.path, record)
            try:
                content = canal_message.read(line)
                if content.is_ddl or content.type == _WATERMARK:
                    raise UnknownMessage("a data file holds rows only")
                yield from self._rows(content, position, file=file)
            except DecodeError as error:
                yield Quarantined.from_error(error, position)

    def _lines(self, data: bytes) -> Iterator[bytes]:
        start = 0
        # Search the whole terminator: JSON text may contain one of its characters.
        while (end := data.find(self._terminator, start)) >= 0:
            yield data[start:end]
            start = end + len(self._terminator)
        if start < len(data):
            yield data[start:]

    def _read(self, value: bytes) -> CanalMessage:
        if self._compression != "none":
            value = decompress(value, self._compression)
        return canal_message.read(value)

    def _redeem(self, check: CanalMessage) -> tuple[CanalMessage, str]:
        """Fetch the whole message that a claim-check message refers to, and its digest."""
        stored = payload.fetch(
            check.tidb.claim_check_location, self._payloads, raw=self._raw_payloads
        )
        whole = self._read(stored.value)
        if whole.tidb.claim_check_location or _identity(whole) != _identity(check):
            raise MalformedMessage("the claim-check object holds another message")
        return whole, stored.digest

    def _rows(
        self,
        content: CanalMessage,
        position: Position,
        *,
        digest: str | None = None,
        file: DataFile | None = None,
    ) -> list[Event]:
        commit_ts, ordering = _commit_ts(content)
        if file is not None and ordering == "milliseconds" and commit_ts < file.version:
            commit_ts, ordering = file.version, "table_version"
        op = _OPS.get(content.type)
        if op is None:
            raise UnknownMessage(f"type {content.type[:40]!r}")
        rows, olds = content.data, content.old
        if not rows or not content.database or not content.table:
            raise MalformedMessage(f"{content.type} without database, table or data")
        # TiCDC before 5.4 repeated the data of a delete in `old`: ignore it.
        if op is not Op.UPDATE:
            olds = None
        elif olds is not None and len(olds) != len(rows):
            raise MalformedMessage(f"{len(rows)} new rows but {len(olds)} old ones")
        observed = object_text(content.mysql_type, "mysqlType")
        rewrite = self._rewrite(_read_types(observed), content.sql_type)
        key_columns = self._find_key(content, op, rows[0])

        events: list[Event] = []
        for index, row in enumerate(rows):
            if index and isinstance(position, TopicPosition):
                position = replace(position, index=index)
            try:
                image = self._image(row, rewrite)
                old = None if olds is None else self._image(olds[index], rewrite)
            except DecodeError as error:
                events.append(Quarantined.from_error(error, position))
                continue
            events.append(
                RowChange(
                    op=op,
                    commit_ts=commit_ts,
                    database=content.database,
                    table=content.table,
                    position=position,
                    before=image if op is Op.DELETE else old,
                    after=None if op is Op.DELETE else image,
                    ordering=ordering,
                    table_id=None if file is None else file.table_id,
                    schema_version=None if file is None else file.version,
                    observed=observed,
                    key_columns=key_columns,
                    handle_key_only=content.tidb.only_handle_key,
                    build_ts=content.ts,
                    claim_check_digest=digest,
                )
            )
        return events

    def _find_key(self, content: CanalMessage, op: Op, row: Raw) -> tuple[str, ...] | None:
        """Return the handle key that a message states: a primary key, or all that it has of a row.

        Nothing else states a unique key that is not in the DDL.
        """
        if content.pk_names:
            return tuple(content.pk_names)
        if content.tidb.only_handle_key or (op is Op.DELETE and self._deletes_have_keys_only):
            return tuple(read_columns(row))
        return None

    def _rewrite(self, types: _Rewrite, sql_types: Raw) -> _Rewrite | None:
        """Find the columns to rewrite, of those whose types ask for it."""
        codes = bytes(sql_types)
        binary = types.binary
        # Rare: a column that holds bytes under a character type, where the two disagree.
        if codes.count(_BLOB) != len(binary):
            binary = binary | canal_message.read_blobs(codes)
        timestamp = types.timestamp if self._moves_timestamps else frozenset()
        return _Rewrite(binary, timestamp) if binary or timestamp else None

    def _image(self, row: Raw, rewrite: _Rewrite | None) -> str:
        if rewrite is None:
            return object_text(row, "the row")
        values = read_columns(row)
        for name in rewrite.binary:
            if text := values.get(name):
                values[name] = _base64(name, text)
        for name in rewrite.timestamp:
            if (text := values.get(name)) is not None:
                values[name] = to_utc(text, self._tz)
        return row_image.dump(values)


# A message whose columns take more characters is too long to keep thousands of.
_LONG = 10_000


def _read_types(mysql_types: str) -> _Rewrite:
    """Return the columns whose types may ask to rewrite them.

    Fail unless every column has a type of MySQL: no later stage could read its table.
    """
    if len(mysql_types) >= _LONG:
        return _read_sorted_types.__wrapped__(mysql_types)
    # TiCDC lists the columns of a table in any order.
    return _read_sorted_types(sort_observed_columns(mysql_types))


@lru_cache(maxsize=4096)
def _read_sorted_types(mysql_types: str) -> _Rewrite:
    try:
        columns = parse_observed_columns(mysql_types)
    except (InvalidValue, ValueError, RecursionError) as error:
        raise MalformedMessage(f"mysqlType: {error}") from None
    if not columns:
        raise MalformedMessage("mysqlType: no column has a type")
    kinds: dict[str, set[str]] = {"binary": set(), "timestamp": set(), "other": set()}
    for name, text in read_columns(mysql_types).items():
        # Longer than any name; lists of elements may have any length.
        kinds[_kind(text[:64]) if text else "other"].add(name)
    return _Rewrite(frozenset(kinds["binary"]), frozenset(kinds["timestamp"]))


@lru_cache(maxsize=4096)
def _kind(mysql_type: str) -> Literal["binary", "timestamp", "other"]:
    # The type's name only: its parameters and elements may contain any text.
    base = mysql_type.partition("(")[0].strip().partition(" ")[0].lower()
    if "blob" in base or "binary" in base:
        return "binary"
    return "timestamp" if base == "timestamp" else "other"


def _base64(column: str, text: str) -> str:
    try:
        # One code point per byte.
        octets = text.encode("latin-1")
    except UnicodeEncodeError:
        raise MalformedMessage(f"column {column[:80]!r}: holds more than bytes") from None
    return b2a_base64(octets, newline=False).decode("ascii")


def _identity(content: CanalMessage) -> tuple[str | None, str | None, str, int | None]:
    return content.database, content.table, content.type, content.tidb.commit_ts


def _commit_ts(content: CanalMessage) -> tuple[int, Ordering]:
    if content.tidb.commit_ts is not None:
        return content.tidb.commit_ts, "commit_ts"
    if content.es is None:
        raise MalformedMessage("neither commitTs nor es")
    return tso.compose(content.es), "milliseconds"


def _schema_change(content: CanalMessage, position: Position) -> SchemaChange:
    if not content.sql:
        raise MalformedMessage("a DDL without sql")
    commit_ts, ordering = _commit_ts(content)
    return SchemaChange(
        commit_ts=commit_ts,
        database=content.database or "",
        table=content.table or "",
        sql=content.sql,
        position=position,
        ddl_type=content.type,
        ordering=ordering,
        build_ts=content.ts,
    )


def _watermark(content: CanalMessage, position: Position) -> Watermark:
    if content.tidb.watermark_ts is None:
        raise MalformedMessage("a watermark without watermarkTs")
    return Watermark(ts=content.tidb.watermark_ts, position=position, build_ts=content.ts)
