"""What partition expressions are built of: operators and functions over computed terms.

Here lives what each function takes and gives; how SQL text becomes calls of them is read in
`partition_expression`.  A term of a kind that a function does not take is a `InvalidValue`.
"""

from collections.abc import Callable, Mapping
from datetime import tzinfo
from math import ceil, floor
from typing import Any, Literal, NamedTuple

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.schema.conversion.convert import convert_value
from ticdc_assets.schema.partition.calendar import (
    CLOCK_FUNCTIONS,
    DATE_FUNCTIONS,
    EXTRACT_FROM_CLOCK,
    EXTRACT_FROM_DATE,
    EXTRACT_FROM_DATETIME,
    Clock,
    Moment,
    read_clock,
    read_moment,
    unix_timestamp,
    year_week,
)
from ticdc_assets.schema.types.value import Value

Row = Mapping[str, Value]
Constant = int | str | bytes | None
Kind = Literal["integer", "decimal", "date", "datetime", "timestamp", "time", "text", "bytes"]

# Constants become dates and times as values of a text column do.
_TEXT = ColumnType("varchar")
_DATETIME = ColumnType("datetime", decimals=6)
_TIME = ColumnType("time", decimals=6)


class Term(NamedTuple):
    """A part of an expression: what kind of value it gives, and how that is computed of a row.

    Only a constant is a `text` or `bytes`.  `decimals` is the number of fractional digits of times.
    """

    kind: Kind
    evaluate: Callable[[Row], Any]
    decimals: int = 0


def literal(kind: Kind, value: Constant) -> Term:
    """Make a term of a constant."""
    return Term(kind, lambda row: value)


def call(name: str, arguments: list[Term], zone: tzinfo) -> Term:
    """Apply a function; `zone` is where constants of UNIX_TIMESTAMP are at home."""
    if name == "unix_timestamp" and len(arguments) == 1:
        return _unix_timestamp(arguments[0], zone)
    least, most, make = _FUNCTIONS.get(name, (0, -1, None))
    if make is None:
        raise InvalidValue(f"function {name} is not allowed in a partition expression")
    if not least <= len(arguments) <= most:
        raise InvalidValue(f"function {name} with {len(arguments)} arguments")
    return make(name, *arguments)


def extract(unit: str, argument: Term) -> Term:
    """Apply EXTRACT."""
    what = f"extract({unit})"
    if unit in EXTRACT_FROM_DATE:
        return _of(EXTRACT_FROM_DATE[unit], _moment(what, argument))
    if unit in EXTRACT_FROM_CLOCK:
        return _of(EXTRACT_FROM_CLOCK[unit], _clock(what, argument))
    if unit in EXTRACT_FROM_DATETIME:
        return _of(EXTRACT_FROM_DATETIME[unit], _moment(what, argument))
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


# --- what functions take -----------------------------------------------------


def _apply(compute: Callable[[Any], Any], inner: Callable[[Row], Any]) -> Callable[[Row], Any]:
    """Compute something of a part's value; NULL stays NULL."""

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


def _moment(what: str, term: Term) -> Callable[[Row], Moment | None]:
    if term.kind in ("date", "datetime"):
        return _apply(read_moment, term.evaluate)
    if term.kind == "text":
        return _apply(_read_moment_literal, term.evaluate)
    raise InvalidValue(f"{what} of a {term.kind}")


def _clock(what: str, term: Term) -> Callable[[Row], Clock | None]:
    if term.kind in ("time", "datetime"):
        return _apply(read_clock, term.evaluate)
    if term.kind == "text":
        return _apply(_read_clock_literal, term.evaluate)
    raise InvalidValue(f"{what} of a {term.kind}")


def _read_moment_literal(text: str) -> Moment:
    return read_moment(str(convert_value(text, _TEXT, _DATETIME)))


def _read_clock_literal(text: str) -> Clock:
    return read_clock(str(convert_value(text, _TEXT, _TIME)))


# --- functions ---------------------------------------------------------------


def _of_date(name: str, argument: Term) -> Term:
    return _of(DATE_FUNCTIONS[name], _moment(name, argument))


def _of_clock(name: str, argument: Term) -> Term:
    return _of(CLOCK_FUNCTIONS[name], _clock(name, argument))


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
    return _of(lambda moment: moment.day_number, _moment(name, argument))


def _year_week(name: str, argument: Term, mode: Term | None = None) -> Term:
    moment_of = _moment(name, argument)
    mode_of = _integer(name, mode or literal("integer", 0))

    def evaluate(row: Row) -> int | None:
        moment = moment_of(row)
        return None if moment is None else year_week(moment, (mode_of(row) or 0) & 7)

    return Term("integer", evaluate)


def _unix_timestamp(argument: Term, zone: tzinfo) -> Term:
    if argument.kind == "timestamp":
        fractional = argument.decimals > 0
        seconds = _apply(lambda text: unix_timestamp(read_moment(text), None), argument.evaluate)
    elif argument.kind == "text":
        fractional = "." in argument.evaluate({})
        seconds = _apply(
            lambda text: unix_timestamp(_read_moment_literal(text), zone), argument.evaluate
        )
    else:
        raise InvalidValue(f"unix_timestamp of a {argument.kind} depends on the session's zone")
    return Term("decimal", seconds) if fractional else _of(int, seconds)


_FUNCTIONS: dict[str, tuple[int, int, Callable[..., Term] | None]] = {
    **dict.fromkeys(DATE_FUNCTIONS, (1, 1, _of_date)),
    **dict.fromkeys(CLOCK_FUNCTIONS, (1, 1, _of_clock)),
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
