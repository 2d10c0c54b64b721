"""The fields of a CSV record: TiCDC's own first, then the columns of the table.

The shape of a record follows from the file's header or, without one, from the number of fields:
rows lack the virtual columns that the schema lists.  Values are converted to the row-image
convention here.
"""

from binascii import a2b_base64, a2b_hex, b2a_base64
from collections.abc import Callable, Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo

from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import Column, ColumnType, TableSchema, row_image
from ticdc_assets.protocols.timestamp import to_utc

# Operation, table and schema are the first fields of every record.
_OWN_FIELDS = 3
_OPERATION = b"ticdc-meta$operation"
_TABLE = b"ticdc-meta$table"
_SCHEMA = b"ticdc-meta$schema"
_COMMIT_TS = b"ticdc-meta$commit-ts"
_IS_UPDATE = b"ticdc-meta$is-update"

_BINARY = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_UNQUOTED = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit", "float", "double"}
)
# The name prefix of the virtual columns behind an index over an expression.
_HIDDEN = "_v$_"

_OPS = {b"I": "I", b"U": "U", b"D": "D"}
_BOOLEANS = {b"true": True, b"false": False}
_MOST_TS = (1 << 63) - 1

Convert = Callable[[bytes], str]


class DataField(NamedTuple):
    """A column of the table in a record."""

    name: str
    # Whether TiCDC quotes values of this type.
    quoted: bool
    # Converts a value to the row-image convention, where its text differs.
    convert: Convert | None


class Row(NamedTuple):
    """The content of one record."""

    op: str
    database: str
    table: str
    commit_ts: int
    is_update: bool
    image: str


class Shape(NamedTuple):
    """The meaning of the fields of a record; the first three are op, table and database."""

    commit_ts: int | None
    is_update: int | None
    # Index of the first field that is a column of the table.
    first: int
    fields: tuple[DataField, ...]

    @property
    def width(self) -> int:
        return self.first + len(self.fields)

    def read(self, fields: Sequence[bytes | None], version: int) -> Row:
        """Read a record of this width; raise `MalformedMessage`."""
        image: dict[str, str | None] = {}
        for field, value in zip(self.fields, fields[self.first :], strict=True):
            if value is None:
                image[field.name] = None
            elif field.convert is None:
                image[field.name] = value.decode("utf-8", "surrogateescape")
            else:
                try:
                    image[field.name] = field.convert(value)
                except (ValueError, MalformedMessage) as error:
                    raise MalformedMessage(f"column {field.name!r}: {error}") from None
        op = _OPS.get(fields[0] or b"")
        if op is None:
            raise MalformedMessage(f"{fields[0]!r} is not an operation")
        commit_ts, is_update = version, False
        if self.commit_ts is not None:
            commit_ts = _read_commit_ts(fields[self.commit_ts] or b"")
        if self.is_update is not None:
            flag = _BOOLEANS.get(fields[self.is_update] or b"")
            if flag is None:
                raise MalformedMessage(f"is-update is {fields[self.is_update]!r}")
            is_update = flag
        table, database = _read_name(fields[1]), _read_name(fields[2])
        return Row(op, database, table, commit_ts, is_update, row_image.dump(image))


class Shapes(NamedTuple):
    """The possible shapes of the records of a file, by number of fields."""

    by_width: dict[int, Shape]
    # Offset of the first record.
    start: int
    has_commit_ts: bool


def read_names(fields: Sequence[bytes | None]) -> tuple[str, str] | None:
    """Read database and table of a record of any shape; None for a record that is not a row."""
    if len(fields) <= _OWN_FIELDS or fields[0] not in _OPS:
        return None
    try:
        return _read_name(fields[2]), _read_name(fields[1])
    except MalformedMessage:
        return None


def find_shapes(data: bytes, schema: TableSchema, dialect: CsvDialect, tz: ZoneInfo) -> Shapes:
    """Find the shapes of a file's records; raise `MalformedMessage` for a broken header.

    A header is recognized by its first name, whether the changefeed declares one or not, and says
    which of TiCDC's own fields the records have.
    """
    if not data.startswith(_OPERATION):
        shapes = {}
        stored = [column for column in schema.columns if column.generated != "virtual"]
        visible = [column for column in stored if not column.name.lower().startswith(_HIDDEN)]
        for columns in (schema.columns, stored, visible):
            shape = _shape(
                columns, dialect, tz, dialect.include_commit_ts, dialect.output_old_value
            )
            shapes[shape.width] = shape
        return Shapes(shapes, 0, dialect.include_commit_ts)
    delimiter = dialect.delimiter.encode()
    # TiCDC's own names, as far as present, then those of the table.
    position = len(_OPERATION)
    present = []
    for name in (_TABLE, _SCHEMA, _COMMIT_TS, _IS_UPDATE):
        text = delimiter + name
        present.append(data.startswith(text + delimiter, position))
        position += len(text) if present[-1] else 0
    has_table, has_schema, has_commit_ts, has_is_update = present
    if not (has_table and has_schema):
        raise MalformedMessage("the header does not have the fields of this dialect")
    position += len(delimiter)
    columns, start = _header_columns(data, position, schema, dialect)
    shape = _shape(columns, dialect, tz, has_commit_ts, has_is_update)
    shapes = {shape.width: shape}
    if dialect.handle_key:
        # The new architecture has the setting and never writes the field.
        shapes[shape.width - 1] = shape._replace(first=shape.first - 1)
    return Shapes(shapes, start, has_commit_ts)


def _header_columns(
    data: bytes, position: int, schema: TableSchema, dialect: CsvDialect
) -> tuple[list[Column], int]:
    """Find the table's columns in a header, and the offset of its end.

    The header neither quotes nor escapes names, so the names of the schema are tried first.
    """
    delimiter, terminator = dialect.delimiter.encode(), dialect.terminator.encode()
    columns: list[Column] = []
    place = position
    for column in schema.columns:
        name = column.name.encode("utf-8", "surrogatepass")
        if data.startswith(name + delimiter, place):
            columns.append(column)
            place += len(name) + len(delimiter)
        elif data.startswith(name + terminator, place):
            return [*columns, column], place + len(name) + len(terminator)
    end = data.find(terminator, position)
    if end < 0:
        raise MalformedMessage("the header has no terminator")
    columns = []
    for name in data[position:end].split(delimiter):
        found = schema.column(name.decode("utf-8", "replace"))
        if found is None:
            raise MalformedMessage(f"the header names {name!r}, which the table does not have")
        columns.append(found)
    return columns, end + len(terminator)


def _shape(
    columns: Sequence[Column],
    dialect: CsvDialect,
    tz: ZoneInfo,
    has_commit_ts: bool,
    has_is_update: bool,
) -> Shape:
    place = _OWN_FIELDS
    commit_ts = is_update = None
    if has_commit_ts:
        commit_ts, place = place, place + 1
    if has_is_update:
        is_update, place = place, place + 1
    return Shape(
        commit_ts=commit_ts,
        is_update=is_update,
        # The field of the handle key is not in the header, and the columns state it anyway.
        first=place + dialect.handle_key,
        fields=tuple(
            DataField(
                column.name,
                quoted=column.type.name not in _UNQUOTED,
                convert=_converter(column.type, dialect, tz),
            )
            for column in columns
        ),
    )


def _converter(column_type: ColumnType, dialect: CsvDialect, tz: ZoneInfo) -> Convert | None:
    if column_type.name in _BINARY:
        return _checked_base64 if dialect.binary_encoding == "base64" else _hex_to_base64
    if column_type.name == "timestamp" and tz.key != "UTC":
        return lambda value: to_utc(value.decode(), tz)
    return None


def _checked_base64(value: bytes) -> str:
    a2b_base64(value, strict_mode=True)
    if len(value) % 4:
        raise MalformedMessage("wrong padding")
    return value.decode("ascii")


def _hex_to_base64(value: bytes) -> str:
    return b2a_base64(a2b_hex(value), newline=False).decode("ascii")


def _read_commit_ts(text: bytes) -> int:
    if text.isdigit() and len(text) <= 19 and (commit_ts := int(text)) <= _MOST_TS:
        return commit_ts
    raise MalformedMessage(f"commit ts is {text[:40]!r}")


def _read_name(name: bytes | None) -> str:
    try:
        return (name or b"").decode()
    except UnicodeDecodeError:
        raise MalformedMessage(f"{name!r} is not a name") from None
