"""The Simple protocol in Avro, `message.avsc`: one datum per record, without header or schema id.

    datum    branch 11 of the top-level union, `Message`: one byte, 0x16
    Message  type    enum WATERMARK, BOOTSTRAP, DDL, DML: one byte
             payload union of the four records in the same order: one byte, then the record

Each reader below reads the fields of its record in the order of the schema.  The format follows
TiCDC's `pkg/sink/codec/simple/message.json`.
"""

from base64 import b64encode
from functools import lru_cache
from struct import Struct
from struct import error as StructError

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import (
    Bootstrap,
    Checksum,
    Column,
    Event,
    Index,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
    row_image,
)
from ticdc_assets.protocols.simple.avro_binary import (
    NOT_SHORT,
    read_array,
    read_boolean,
    read_branch,
    read_bytes,
    read_count,
    read_long,
    read_optional,
    read_string,
)
from ticdc_assets.protocols.simple.decoder import (
    DDL_TYPES,
    DML_TYPES,
    SimpleDecoder,
    check_op,
    check_version,
)
from ticdc_assets.protocols.simple.schema import (
    DataType,
    check_columns,
    check_ddl_columns,
    column,
    column_type,
)

# The branch of `Message`, its type, the branch of its payload, and the payload's first field:
# version 1.
_WATERMARK = b"\x16\x00\x00\x02"
_BOOTSTRAP = b"\x16\x02\x02\x02"
_DDL = b"\x16\x04\x04\x02"
_DML = b"\x16\x06\x06\x02"
_START = len(_DML)

# The branches of a value, zig-zag encoded.
_NULL, _LONG, _FLOAT, _DOUBLE, _STRING, _BYTES, _TIMESTAMP, _UNSIGNED = range(0, 16, 2)

_float = Struct("<f")
_double = Struct("<d")
# The bytes of a TSO, for the next five centuries.
_TS_SIZE = 9
# Texts may be no UTF-8: row images keep their bytes, and the default of a BIT column is raw bytes.
_KEEP = "surrogateescape"
_NO_OPTIONS = b"\0\0\0"
# Short names of columns by their bytes, length included: all rows of a table have the same.
_names: dict[bytes, str] = {}
_MOST_NAMES = 4096
_UINT64 = (1 << 64) - 1
_UINT32 = (1 << 32) - 1


class SimpleAvroDecoder(SimpleDecoder):
    """Decode Simple messages with `encoding-format=avro`."""

    def _read(self, value: bytes, position: TopicPosition, claimed: str | None) -> Event:
        event: Event
        kind = value[:_START]
        try:
            if kind == _DML:
                event, end, claim_check = self._row(value, position, claimed)
            else:
                event, end = _other(kind, value, position)
                claim_check = None
        except (IndexError, StructError):
            raise MalformedMessage("Avro: the message is cut short") from None
        except UnicodeDecodeError as error:
            raise MalformedMessage(f"Avro: {error}") from None
        if end != len(value):
            raise MalformedMessage(f"Avro: {len(value) - end} bytes follow the datum")
        if claim_check and isinstance(event, RowChange):
            return self._redeem(event, position, claim_check)
        return event

    def _row(
        self, data: bytes, position: TopicPosition, claimed: str | None
    ) -> tuple[RowChange, int, str | None]:
        database, at = read_string(data, _START)
        table, at = read_string(data, at)
        table_id, at = read_long(data, at)
        kind, at = read_branch(data, at, len(DML_TYPES))
        commit_ts, at = _read_ts(data, at)
        build_ts, at = _read_ts(data, at)
        schema_version, at = _read_ts(data, at)
        claim_check = handle_key_only = checksum = None
        if data[at : at + 3] == _NO_OPTIONS:
            at += 3
        else:
            claim_check, at = read_optional(data, at, read_string)
            handle_key_only, at = read_optional(data, at, read_boolean)
            checksum, at = read_optional(data, at, _read_checksum)
        after, at = read_optional(data, at, self._read_image)
        before, at = read_optional(data, at, self._read_image)
        row = RowChange(
            op=check_op(DML_TYPES[kind], before, after),
            commit_ts=commit_ts,
            database=database,
            table=table,
            position=position,
            before=before,
            after=after,
            table_id=table_id,
            schema_version=schema_version,
            handle_key_only=bool(handle_key_only),
            checksum=checksum,
            build_ts=build_ts,
            claim_check_digest=claimed,
        )
        return row, at, claim_check

    def _read_image(self, data: bytes, at: int) -> tuple[str, int]:
        row: dict[str, str | None] = {}
        while True:
            count, at = read_count(data, at)
            if count == 0:
                return row_image.dump(row), at
            for _ in range(count):
                end = at + 1 + (data[at] >> 1)
                name = _names.get(data[at:end])
                if name is None:
                    name, end = _read_name(data, at)
                branch, at = data[end], end + 1
                if branch == _STRING and not (size := data[at]) & NOT_SHORT:
                    # The byte after the text is read next and raises IndexError if there is none.
                    start, at = at + 1, at + 1 + (size >> 1)
                    row[name] = str(data[start:at], "utf-8", _KEEP)
                elif branch == _LONG:
                    number, at = read_long(data, at)
                    row[name] = str(number)
                elif branch == _NULL:
                    row[name] = None
                else:
                    row[name], at = self._read_value(branch, data, at)

    def _read_value(self, branch: int, data: bytes, at: int) -> tuple[str, int]:
        """Read a value of one of the rarer branches, or a long text."""
        if branch == _STRING:
            return read_string(data, at, _KEEP)
        if branch == _BYTES:
            raw, at = read_bytes(data, at)
            return b64encode(raw).decode("ascii"), at
        if branch == _TIMESTAMP:
            location, at = read_string(data, at)
            value, at = read_string(data, at)
            return self._timestamp(location, value), at
        if branch == _FLOAT:
            # The digits of the equal double: they read back to the same float.
            return repr(_float.unpack_from(data, at)[0]), at + _float.size
        if branch == _DOUBLE:
            return repr(_double.unpack_from(data, at)[0]), at + _double.size
        if branch == _UNSIGNED:
            # A signed long that holds the bits of an unsigned one.
            number, at = read_long(data, at)
            return str(number & _UINT64), at
        raise MalformedMessage(f"Avro: byte {at - 1} chooses no type of value")


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    """Read the name of a column, and keep it for the rows that follow."""
    name, end = read_string(data, at, _KEEP)
    if not data[at] & NOT_SHORT and len(_names) < _MOST_NAMES:
        _names[data[at:end]] = name
    return name, end


def _other(kind: bytes, data: bytes, position: TopicPosition) -> tuple[Event, int]:
    if kind == _WATERMARK:
        ts, at = _read_ts(data, _START)
        build_ts, at = read_long(data, at)
        return Watermark(ts=ts, position=position, build_ts=build_ts), at
    if kind == _BOOTSTRAP:
        build_ts, at = read_long(data, _START)
        schema, at = _read_table_schema(data, at)
        return Bootstrap(schema=check_columns(schema), position=position, build_ts=build_ts), at
    if kind == _DDL:
        return _read_ddl(data, position)
    if kind[:-1] in (_WATERMARK[:-1], _BOOTSTRAP[:-1], _DDL[:-1], _DML[:-1]):
        check_version(read_long(data, _START - 1)[0])
    raise MalformedMessage(f"Avro: no message of the Simple protocol starts with {kind.hex()!r}")


def _read_ddl(data: bytes, position: TopicPosition) -> tuple[SchemaChange, int]:
    kind, at = read_branch(data, _START, len(DDL_TYPES))
    # As in JSON, where TiCDC itself replaces bytes that are not UTF-8.
    sql, at = read_string(data, at, "replace")
    commit_ts, at = _read_ts(data, at)
    build_ts, at = read_long(data, at)
    schema, at = read_optional(data, at, _read_table_schema)
    pre_schema, at = read_optional(data, at, _read_table_schema)
    change = SchemaChange(
        commit_ts=commit_ts,
        database="" if schema is None else schema.database,
        table="" if schema is None else schema.table,
        sql=sql,
        position=position,
        ddl_type=DDL_TYPES[kind],
        schema=check_ddl_columns(schema),
        pre_schema=check_ddl_columns(pre_schema),
        build_ts=build_ts,
    )
    return change, at


def _read_ts(data: bytes, at: int) -> tuple[int, int]:
    try:
        ts, size = _number(data[at : at + _TS_SIZE])
        end = at + size
    except IndexError:
        ts, end = read_long(data, at)
    if ts < 0:
        # Unsigned in TiCDC, but 2^63 is more than a thousand years away.
        raise MalformedMessage(f"Avro: byte {at} starts the timestamp {ts}")
    return ts, end


@lru_cache(maxsize=1024)
def _number(start: bytes) -> tuple[int, int]:
    """Read a number from the start of some bytes; return it and its size.

    Cached: consecutive rows share most of their timestamps, and nine bytes are slow to read.
    """
    return read_long(start, 0)


def _read_checksum(data: bytes, at: int) -> tuple[Checksum, int]:
    version, at = read_long(data, at)
    corrupted, at = read_boolean(data, at)
    current, at = read_long(data, at)
    previous, at = read_long(data, at)
    if not (0 <= current <= _UINT32 and 0 <= previous <= _UINT32):
        raise MalformedMessage(f"Avro: a checksum before byte {at} is not of 32 bits")
    return Checksum(version, corrupted, current, previous), at


def _read_table_schema(data: bytes, at: int) -> tuple[TableSchema, int]:
    database, at = read_string(data, at)
    table, at = read_string(data, at)
    table_id, at = read_long(data, at)
    version, at = _read_ts(data, at)
    columns, at = read_array(data, at, _read_column)
    indexes, at = read_array(data, at, _read_index)
    schema = TableSchema(
        database=database,
        table=table,
        columns=columns,
        indexes=indexes,
        table_id=table_id,
        version=version,
    )
    return schema, at


def _read_column(data: bytes, at: int) -> tuple[Column, int]:
    name, at = read_string(data, at)
    mysql_type, at = read_string(data, at)
    charset, at = read_string(data, at)
    collation, at = read_string(data, at)
    length, at = read_long(data, at)
    decimals, at = read_optional(data, at, read_long)
    elements, at = read_optional(data, at, _read_strings)
    unsigned, at = read_optional(data, at, read_boolean)
    zerofill, at = read_optional(data, at, read_boolean)
    nullable, at = read_boolean(data, at)
    default, at = read_optional(data, at, _read_default)
    type = DataType(mysql_type, charset, collation, length, decimals, elements, unsigned, zerofill)
    return column(name, column_type(type), nullable=nullable, default=default), at


def _read_default(data: bytes, at: int) -> tuple[str, int]:
    return read_string(data, at, _KEEP)


def _read_index(data: bytes, at: int) -> tuple[Index, int]:
    name, at = read_string(data, at)
    unique, at = read_boolean(data, at)
    primary, at = read_boolean(data, at)
    _, at = read_boolean(data, at)  # any column nullable
    columns, at = _read_strings(data, at)
    return Index(name, columns, unique=unique, primary=primary), at


def _read_strings(data: bytes, at: int) -> tuple[tuple[str, ...], int]:
    return read_array(data, at, read_string)
