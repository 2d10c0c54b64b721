"""The canonical text of a value, by the SQL of DuckDB, whatever Arrow type a copy holds it in.

This is the table of rules by which a copy is compared: of each type upstream, the types that may
hold its values, and why others cannot be compared.  The lake's own columns are one case of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from ticdc_assets.errors import TicdcError
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.verify.canonical import NULL

# What a DOUBLE keeps of a decimal number.
_DOUBLE_DIGITS = 15
_MIDNIGHT = " 00:00:00"
_NO_UNIT = "a number whose unit is not known"
_PLAIN_INTEGER = "-?[0-9]{1,38}"


class Incomparable(TicdcError):
    """The values of a column of a copy cannot be compared with those upstream."""


@dataclass(frozen=True)
class Reading:
    """How a column is read: what Arrow does with an array first, and the SQL of a BLOB."""

    sql: str
    prepare: Callable[[pa.Array], pa.Array] | None = None


def choose_reading(type: ColumnType, held: pa.DataType, name: str) -> Reading:
    """Choose how a column `name` of an Arrow type is read; raise `Incomparable` if it cannot be."""
    if isinstance(held, pa.BaseExtensionType):
        held = held.storage_type
    if pa.types.is_dictionary(held):
        held = held.value_type
    if pa.types.is_null(held):
        return Reading(f"{name}::BLOB")
    if pa.types.is_float16(held):
        # DuckDB has no floats of this size.
        return replace(choose_reading(type, pa.float32(), name), prepare=_widen_floats)
    if pa.types.is_decimal256(held):
        # DuckDB has no decimals of this size.
        return replace(choose_reading(type, pa.string(), name), prepare=_print_decimals)
    kind = describe(type).kind
    if kind == "json":
        _require(_is_text(held) or _is_binary(held), "JSON as columns of its own")
        return Reading(f"{name}::BLOB", normalize_json_texts)
    if kind == "text" and _is_binary(held):
        return Reading(f"{name}::BLOB")
    if kind == "binary":
        _require(_is_binary(held), "binary values as text, in an encoding that is not known")
        return Reading(f"{name}::BLOB")
    prepare = _drop_zone if pa.types.is_timestamp(held) else None
    text = _write(type, held, name)
    if _is_text(held) and kind not in ("text", "enum", "set"):
        # Any text: it must not look like two values, nor like NULL, in the text of a row.  What
        # takes their place is in no value.
        text = f"translate({text}, ',{NULL}', ';!')"
    return Reading(f"encode({text})", prepare)


def _write(type: ColumnType, held: pa.DataType, name: str) -> str:
    match describe(type).kind:
        case "integer" | "bit" | "year":
            return _write_integer(type, held, name)
        case "decimal":
            return _write_decimal(type, held, name)
        case "float":
            return _write_float(type, held, name)
        case "date":
            return _write_date(held, name)
        case "datetime":
            return _write_datetime(type, held, name)
        case "time":
            _require(_is_text(held) or pa.types.is_time(held), _NO_UNIT)
            return fit_fraction(f"{name}::VARCHAR", type.decimals or 0)
        case "enum" | "set":
            return _write_members(type, held, name)
        case "vector":
            _require(_is_list(held), "no two programs print the numbers of a VECTOR alike")
            number = "coalesce(TRY_CAST(number AS FLOAT)::VARCHAR, number::VARCHAR, 'null')"
            numbers = f"list_transform({name}, number -> {number})"
            return f"'[' || array_to_string({numbers}, ',') || ']'"
        case _:
            _require(_is_text(held), "texts as another type, which does not keep how they are")
            return f"{name}::VARCHAR"


def _write_integer(type: ColumnType, held: pa.DataType, name: str) -> str:
    if pa.types.is_boolean(held):
        return f"{name}::INTEGER::VARCHAR"
    if pa.types.is_integer(held):
        return f"{name}::VARCHAR"
    if pa.types.is_decimal(held):
        return fit_fraction(f"{name}::VARCHAR", 0) if held.scale else f"{name}::VARCHAR"
    if pa.types.is_floating(held):
        is_whole = f"isfinite({name}) AND {name} = trunc({name}) AND abs({name}) < 1e38"
        return f"CASE WHEN {is_whole} THEN {name}::HUGEINT::VARCHAR ELSE {name}::VARCHAR END"
    if _is_binary(held):
        _require(type.name == "bit", "a number as bytes")
        digits = f"'0x' || hex({name}::BLOB)"
        return f"coalesce(TRY_CAST({digits} AS UBIGINT)::VARCHAR, {digits})"
    _require(_is_text(held) and type.name != "bit", "a number as another type")
    is_plain = f"regexp_full_match({name}::VARCHAR, '{_PLAIN_INTEGER}')"
    return f"CASE WHEN {is_plain} THEN {name}::HUGEINT::VARCHAR ELSE {name}::VARCHAR END"


def _write_decimal(type: ColumnType, held: pa.DataType, name: str) -> str:
    # Of a table that no source has stated in full, the precision is not known.
    places = 0 if type.length is None else type.decimals or 0
    if pa.types.is_decimal(held):
        text = f"{name}::VARCHAR"
        is_known = type.length is not None and held.scale == places
        return text if is_known else fit_fraction(text, places)
    if pa.types.is_floating(held):
        is_exact = type.length is not None and type.length <= _DOUBLE_DIGITS
        _require(is_exact, "a DOUBLE does not keep the digits of so long a DECIMAL")
        rounded = f"TRY_CAST({name} AS DECIMAL({type.length},{places}))::VARCHAR"
        return f"coalesce({rounded}, {name}::VARCHAR)"
    _require(_is_text(held) or pa.types.is_integer(held), "a decimal as another type")
    # Some programs have a zero with a sign.
    text = f"regexp_replace({name}::VARCHAR, '^-(0+([.]0*)?)$', '\\1')"
    return fit_fraction(text, places)


def _write_float(type: ColumnType, held: pa.DataType, name: str) -> str:
    is_number = pa.types.is_floating(held) or pa.types.is_decimal(held)
    _require(is_number or pa.types.is_integer(held) or _is_text(held), "a number as another type")
    number = f"TRY_CAST({name} AS DOUBLE)"
    if type.name == "float":
        number = f"TRY_CAST({number} AS FLOAT)::DOUBLE"
    # A text must not look like the exact form of a number.
    return f"coalesce(exact_float({number}), replace({name}::VARCHAR, 'p', 'P'))"


def _write_date(held: pa.DataType, name: str) -> str:
    if pa.types.is_date(held):
        return _print_date(f"{name}::DATE")
    if pa.types.is_timestamp(held):
        text = fit_fraction(_write_moment(held, name), 0)
        return f"regexp_replace({text}, '{_MIDNIGHT}$', '')"
    _require(_is_text(held), _NO_UNIT)
    return f"{name}::VARCHAR"


def _write_datetime(type: ColumnType, held: pa.DataType, name: str) -> str:
    places = type.decimals or 0
    if pa.types.is_timestamp(held):
        text = _write_moment(held, name)
        # DuckDB prints no zero at the end of a fraction.
        return text if not places and held.unit != "ns" else fit_fraction(text, places)
    if pa.types.is_date(held):
        return fit_fraction(f"{_print_date(f'{name}::DATE')} || '{_MIDNIGHT}'", places)
    _require(_is_text(held), _NO_UNIT)
    plain = f"regexp_replace(replace({name}::VARCHAR, 'T', ' '), '(Z|[+]00(:?00)?)$', '')"
    return fit_fraction(plain, places)


def _write_members(type: ColumnType, held: pa.DataType, name: str) -> str:
    if _is_list(held) and type.name == "set":
        # No member has a comma, so one with a comma must not look like two.
        member = "coalesce(replace(member::VARCHAR, ',', ';'), '(NULL)')"
        return f"array_to_string(list_transform({name}, member -> {member}), ',')"
    if pa.types.is_integer(held):
        members = (type.elements if type.name == "enum" else None) or ()
        _require(bool(members), "members as numbers, whose names are not known")
        listed = ", ".join(quote_text(member) for member in ("", *members))
        # A list has NULL beyond its end, and counts from it with a number below 0.
        named = f"list_extract([{listed}], {name}::BIGINT + 1)"
        is_one = f"{name} BETWEEN 0 AND {len(members)}"
        # With a blank behind it, as no member is.
        return f"CASE WHEN {is_one} THEN {named} ELSE 'number ' || {name} || ' ' END"
    _require(_is_text(held), "members as another type")
    return f"{name}::VARCHAR"


def fit_fraction(text: str, places: int) -> str:
    """Write a text of a number or a time with so many decimals, or as many as it needs."""
    return f"fit_fraction({text}, {places})"


def _print_date(date: str) -> str:
    # DuckDB casts the year 0 to 1 BC.
    return f"CASE WHEN {date} < DATE '0001-01-01' THEN strftime({date}, '%Y-%m-%d') \
ELSE {date}::VARCHAR END"


def _write_moment(held: pa.DataType, name: str) -> str:
    return f"{name}::VARCHAR" if held.unit == "ns" else _print_moment(f"{name}::TIMESTAMP")


def _print_moment(moment: str) -> str:
    old = fit_fraction(f"strftime({moment}, '%Y-%m-%d %H:%M:%S.%f')", 0)
    return f"CASE WHEN {moment} < TIMESTAMP '0001-01-01' THEN {old} ELSE {moment}::VARCHAR END"


def quote_text(text: str) -> str:
    """Quote a text for DuckDB."""
    return "'" + text.replace("'", "''") + "'"


# What the expressions call: DuckDB writes out the texts of macros.
MACROS = (
    """CREATE MACRO fit_digits(digits, places) AS
        CASE WHEN length(digits) < places THEN rpad(digits, places, '0') ELSE digits END""",
    """CREATE MACRO join_fraction(whole, digits) AS
        CASE WHEN digits = '' THEN whole ELSE whole || '.' || digits END""",
    """CREATE MACRO fit_fraction(written, places) AS join_fraction(
        split_part(written, '.', 1),
        fit_digits(rtrim(substr(written, length(split_part(written, '.', 1)) + 2), '0'), places)
    )""",
    # The logarithm may be off by one close to a power of two.
    """CREATE MACRO guess_exponent(size) AS
        greatest(least(floor(log2(size)), 1023), -1074)""",
    """CREATE MACRO join_float(number, fraction, exponent) AS
        (CASE WHEN number < 0 THEN '-' ELSE '' END)
        || (fraction * (CASE WHEN fraction >= 2 THEN 0.5 WHEN fraction < 1 THEN 2.0 ELSE 1.0 END)
            * 4503599627370496.0::DOUBLE)::BIGINT::VARCHAR || 'p'
        || (exponent + (CASE WHEN fraction >= 2 THEN 1 WHEN fraction < 1 THEN -1 ELSE 0 END)
           )::INTEGER::VARCHAR""",
    """CREATE MACRO exact_float(number) AS
        CASE WHEN number = 0 THEN '0' WHEN isfinite(number) THEN join_float(
            number, abs(number) / pow(2.0::DOUBLE, guess_exponent(abs(number))),
            guess_exponent(abs(number))) END""",
)


# --- before DuckDB -----------------------------------------------------------


def _drop_zone(array: pa.Array) -> pa.Array:
    """Return moments in UTC without a zone."""
    return array.cast(pa.timestamp(array.type.unit))


def _widen_floats(array: pa.Array) -> pa.Array:
    return array.cast(pa.float32())


def _print_decimals(array: pa.Array) -> pa.Array:
    texts = (None if number is None else format(number, "f") for number in array.to_pylist())
    return pa.array(map(_drop_zeros, texts), pa.string())


def _drop_zeros(text: str | None) -> str | None:
    return text.rstrip("0").rstrip(".") if text is not None and "." in text else text


def normalize_json_texts(array: pa.Array) -> pa.Array:
    """Return JSON documents in one form, which does not depend on spaces and the order of keys."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    # As bytes: a column declared as text may hold bytes that are not UTF-8.
    return pa.array(map(normalize_json, array.cast(pa.large_binary()).to_pylist()), pa.binary())


def normalize_json(text: str | bytes | None) -> bytes | None:
    """Return a document in one form; what is no document stays as it is."""
    if text is None:
        return None
    try:
        return msgspec.json.encode(_decode_json(text), order="sorted")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def _read_fraction(digits: str) -> int | float:
    """Read a number with a point or an exponent: 1.0 and 1 are one value."""
    number = float(digits)
    if abs(number) == float("inf"):
        raise msgspec.DecodeError(digits)
    return int(number) if number.is_integer() else number


_decode_json = msgspec.json.Decoder(float_hook=_read_fraction).decode


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise Incomparable(reason)


def _is_list(held: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(held)
        or pa.types.is_large_list(held)
        or pa.types.is_fixed_size_list(held)
        or pa.types.is_list_view(held)
    )


def _is_text(held: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(held) or pa.types.is_large_string(held) or pa.types.is_string_view(held)
    )


def _is_binary(held: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(held)
        or pa.types.is_large_binary(held)
        or pa.types.is_fixed_size_binary(held)
        or pa.types.is_binary_view(held)
    )
