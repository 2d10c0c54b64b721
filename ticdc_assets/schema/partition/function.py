"""The operators and functions of partition expressions.

Each takes and returns terms.  An argument of a kind that a function does not accept raises
`InvalidValue`.  `expression` compiles SQL into calls of these functions.
"""

from collections.abc import Callable, Mapping
from datetime import tzinfo
from math import ceil, floor
from typing import Any, Literal, NamedTuple

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.conversion.convert import convert_value
from ticdc_assets.schema.ddl_context import DECLARE_TIME_ZONE
from ticdc_assets.schema.partition.calendar import (
    DATE_FUNCTIONS,
    EXTRACT_FROM_DATE,
    EXTRACT_FROM_DATETIME,
    EXTRACT_FROM_TIME,
    TIME_FUNCTIONS,
    MysqlDatetime,
    MysqlTime,
    parse_datetime,
    parse_time,
    unix_timestamp,
    year_week,
)
from ticdc_assets.schema.types.value import Value

Row = Mapping[str, Value]
Constant = int | str | bytes | None
Kind = Literal["integer", "decimal", "date", "datetime", "timestamp", "time", "text", "bytes"]

_UNKNOWN_ZONE = (
    "UNIX_TIMESTAMP of a constant depends on the time zone of the session that ran the DDL, which"
    f" no message states; {DECLARE_TIME_ZONE}"
)

# A constant is converted to a date or time as a value of a text column is.
_TEXT = ColumnType("varchar")
_DATETIME = ColumnType("datetime", decimals=6)
_TIME = ColumnType("time", decimals=6)


class Term(NamedTuple):
    """A part of an expression: the kind of its value, and the function that computes it.

    Only a constant has the kind `text` or `bytes`.  `decimals` counts the fractional digits of a
    time type.
    """

    kind: Kind
    evaluate: Callable[[Row], Any]
    decimals: int = 0


def literal(kind: Kind, value: Constant) -> Term:
    """Return the term of a constant."""
    return Term(kind, lambda row: value)


def call(name: str, arguments: list[Term], zone: tzinfo | None) -> Term:
    """Apply a function; `zone` is the time zone of constants in UNIX_TIMESTAMP."""
    if name == "unix_timestamp" and len(arguments) == 1:
        return _unix_timestamp(arguments[0], zone)
    least, most, make = _FUNCTIONS.get(name, (0, -1, None))
    if make is None:
        raise InvalidValue(f"function {name} is not allowed in a partition expression")
    if not least <= len(arguments) <= most:
        raise InvalidValue(f"function {name} does not take {len(arguments)} arguments")
    return make(name, *arguments)


def extract(unit: str, argument: Term) -> Term:
    """Apply EXTRACT."""
    what = f"extract({unit})"
    if unit in EXTRACT_FROM_DATE:
        return _of(EXTRACT_FROM_DATE[unit], _as_datetime(what, argument))
    if unit in EXTRACT_FROM_TIME:
        return _of(EXTRACT_FROM_TIME[unit], _as_time(what, argument))
    if unit in EXTRACT_FROM_DATETIME:
        return _of(EXTRACT_FROM_DATETIME[unit], _as_datetime(what, argument))
    raise InvalidValue(f"{what} is not allowed in a partition expression")


def operation(name: str, left: Term, right: Term) -> Term:
    """Apply one of the arithmetic operators `+ - * div mod`."""
    operate = _OPERATORS[name]
    first, second = _integer(name, left), _integer(name, right)

    def evaluate(row: Row) -> int | None:
        a, b = first(row), second(row)
        return None if a is None or b is None else operate(a, b)

    return Term("integer", evaluate)


def negation(operand: Term) -> Term:
    """Apply the unary minus."""
    return _of(lambda value: -value, _integer("-", operand))


# --- arguments ---------------------------------------------------------------


def _apply(compute: Callable[[Any], Any], inner: Callable[[Row], Any]) -> Callable[[Row], Any]:
    """Apply a function to a term's value; NULL gives NULL."""

    def evaluate(row: Row) -> Any:
        value = inner(row)
        return None if value is None else compute(value)

    return evaluate


def _of(compute: Callable[[Any], int | None], inner: Callable[[Row], Any]) -> Term:
    return Term("integer", _apply(compute, inner))


def _integer(what: str, term: Term) -> Callable[[Row], int | None]:
    if term.kind != "integer":
        raise InvalidValue(f"{what} of a {term.kind}")
    return term.evaluate


def _as_datetime(what: str, term: Term) -> Callable[[Row], MysqlDatetime | None]:
    if term.kind in ("date", "datetime"):
        return _apply(parse_datetime, term.evaluate)
    if term.kind == "text":
        return _apply(_parse_datetime_literal, term.evaluate)
    raise InvalidValue(f"{what} of a {term.kind}")


def _as_time(what: str, term: Term) -> Callable[[Row], MysqlTime | None]:
    if term.kind in ("time", "datetime"):
        return _apply(parse_time, term.evaluate)
    if term.kind == "text":
        return _apply(_parse_time_literal, term.evaluate)
    raise InvalidValue(f"{what} of a {term.kind}")


def _parse_datetime_literal(text: str, zone: tzinfo | None = None) -> MysqlDatetime:
    return parse_datetime(str(convert_value(text, _TEXT, _DATETIME, zone)))


def _parse_time_literal(text: str) -> MysqlTime:
    return parse_time(str(convert_value(text, _TEXT, _TIME)))


# --- functions ---------------------------------------------------------------


def _of_date(name: str, argument: Term) -> Term:
    return _of(DATE_FUNCTIONS[name], _as_datetime(name, argument))


def _of_time(name: str, argument: Term) -> Term:
    return _of(TIME_FUNCTIONS[name], _as_time(name, argument))


def _round(name: str, argument: Term) -> Term:
    if argument.kind == "decimal":
        return _of(floor if name == "floor" else ceil, argument.evaluate)
    return Term("integer", _integer(name, argument))


def _absolute(name: str, argument: Term) -> Term:
    if argument.kind == "decimal":
        return Term("decimal", _apply(abs, argument.evaluate))
    return _of(abs, _integer(name, argument))


def _date_difference(name: str, left: Term, right: Term) -> Term:
    return operation("-", _of_day(name, left), _of_day(name, right))


def _of_day(name: str, argument: Term) -> Term:
    return _of(lambda value: value.day_number, _as_datetime(name, argument))


def _year_week(name: str, argument: Term, mode: Term | None = None) -> Term:
    datetime_of = _as_datetime(name, argument)
    mode_of = _integer(name, mode or literal("integer", 0))

    def evaluate(row: Row) -> int | None:
        value = datetime_of(row)
        return None if value is None else year_week(value, (mode_of(row) or 0) & 7)

    return Term("integer", evaluate)


def _unix_timestamp(argument: Term, zone: tzinfo | None) -> Term:
    if argument.kind == "timestamp":
        fractional = argument.decimals > 0
        seconds = _apply(lambda text: unix_timestamp(parse_datetime(text), None), argument.evaluate)
    elif argument.kind == "text":
        if zone is None:
            raise InvalidValue(_UNKNOWN_ZONE)
        fractional = "." in argument.evaluate({})
        seconds = _apply(
            lambda text: unix_timestamp(_parse_datetime_literal(text, zone), zone),
            argument.evaluate,
        )
    else:
        raise InvalidValue(f"unix_timestamp of a {argument.kind} depends on the session's zone")
    return Term("decimal", seconds) if fractional else _of(int, seconds)


_FUNCTIONS: dict[str, tuple[int, int, Callable[..., Term] | None]] = {
    **dict.fromkeys(DATE_FUNCTIONS, (1, 1, _of_date)),
    **dict.fromkeys(TIME_FUNCTIONS, (1, 1, _of_time)),
    "abs": (1, 1, _absolute),
    "ceil": (1, 1, _round),
    "ceiling": (1, 1, _round),
    "floor": (1, 1, _round),
    "mod": (2, 2, operation),
    "datediff": (2, 2, _date_difference),
    "yearweek": (1, 2, _year_week),
}


# --- operators ---------------------------------------------------------------


def _quotient(a: int, b: int) -> int | None:
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int | None:
    if b == 0:
        return None
    remainder = abs(a) % abs(b)
    return remainder if a >= 0 else -remainder


_OPERATORS: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "div": _quotient,
    "mod": _remainder,
}
