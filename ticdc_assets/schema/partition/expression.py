"""Partition expressions: SQL text compiled to a function of a row.

The text is parsed once, by sqlglot with its own readings of functions switched off, and only what
TiDB allows in a partition expression is understood; all else is `UnsupportedDdl`, never a guess.
Which partition a result belongs to is decided in `partition`.
"""

from collections.abc import Callable
from datetime import tzinfo
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError
from sqlglot.parsers.mysql import MySQLParser

from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.events import Column, TableSchema
from ticdc_assets.schema.partition import function
from ticdc_assets.schema.partition.function import Constant, Kind, Row, Term
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.value import Value

# Deeper ones are no expression anybody wrote.
_DEEPEST = 100
_LONGEST_NUMBER = 40


class _PlainFunctions(MySQL):
    """MySQL in which YEAR(d) stays a call of YEAR, whatever other dialects make of it."""

    class Parser(MySQLParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}


def compile_integer(
    text: str, schema: TableSchema | None, zone: tzinfo
) -> Callable[[Row], int | None]:
    """Compile an expression that gives an integer; without a schema it may name no column."""
    term = _compile(text, schema, zone)
    if term.kind != "integer":
        raise UnsupportedDdl("the expression does not give an integer", text)
    return term.evaluate


def integer_constant(text: str, zone: tzinfo) -> int | None:
    """Compute an expression that names no column and gives an integer."""
    evaluate = compile_integer(text, None, zone)
    try:
        return evaluate({})
    except InvalidValue as problem:
        raise UnsupportedDdl(problem.reason, text) from None


def constant(text: str, zone: tzinfo) -> Constant:
    """Compute an expression that names no column and gives an integer, a text or bytes."""
    term = _compile(text, None, zone)
    if term.kind in ("text", "bytes"):
        result: Constant = term.evaluate({})
        return result
    return integer_constant(text, zone)


def read_column(column: Column) -> Callable[[Row], Any]:
    """Make the function that takes a column's value from a row, whatever the case of its name."""
    name = column.name
    folded = name.casefold()

    def read(row: Row) -> Value:
        try:
            return row[name]
        except KeyError:
            for spelled, value in row.items():
                if spelled.casefold() == folded:
                    return value
        raise InvalidValue("the row lacks the column, which its partition depends on", column=name)

    return read


def _compile(text: str, schema: TableSchema | None, zone: tzinfo) -> Term:
    try:
        node = sqlglot.parse_one(text, read=_PlainFunctions)
        return _Compiler(schema, zone).compile(node)
    except InvalidValue as problem:
        raise UnsupportedDdl(problem.reason, text) from None
    except (SqlglotError, RecursionError):
        raise UnsupportedDdl("the expression cannot be read", text) from None


class _Compiler:
    """Turns the nodes of one expression into terms; what it cannot is a `InvalidValue`."""

    def __init__(self, schema: TableSchema | None, zone: tzinfo) -> None:
        self._schema = schema
        self._zone = zone
        self._depth = 0

    def compile(self, node: Any) -> Term:
        make = _NODES.get(type(node))
        if make is None:
            what = node.key if isinstance(node, exp.Expression) else str(node)
            raise InvalidValue(f"{what} is not allowed in a partition expression")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidValue("the expression is nested too deeply")
        term = make(self, node)
        self._depth -= 1
        return term

    def paren(self, node: exp.Paren) -> Term:
        return self.compile(node.this)

    def literal(self, node: exp.Literal) -> Term:
        text: str = node.this
        if node.is_string:
            return function.literal("text", text)
        if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_NUMBER:
            raise InvalidValue(f"{text[:80]} is not an integer")
        return function.literal("integer", int(text))

    def boolean(self, node: exp.Boolean) -> Term:
        return function.literal("integer", int(node.this))

    def null(self, node: exp.Null) -> Term:
        return function.literal("integer", None)

    def national(self, node: exp.National) -> Term:
        return function.literal("text", str(node.this))

    def hexadecimal(self, node: exp.HexString) -> Term:
        digits: str = node.this
        try:
            return function.literal("bytes", bytes.fromhex("0" * (len(digits) % 2) + digits))
        except ValueError:
            raise InvalidValue("a broken hexadecimal literal") from None

    def bits(self, node: exp.BitString) -> Term:
        digits: str = node.this
        if not digits or digits.strip("01"):
            raise InvalidValue("a broken bit literal")
        return function.literal("bytes", int(digits, 2).to_bytes((len(digits) + 7) // 8))

    def introduced(self, node: exp.Introducer) -> Term:
        term = self.compile(node.expression)
        if term.kind not in ("text", "bytes"):
            raise InvalidValue("a charset introducer before what is no text")
        return term

    def column(self, node: exp.Column) -> Term:
        name = node.name
        if not isinstance(node.this, exp.Identifier) or self._schema is None:
            raise InvalidValue(f"{name} is not a constant")
        column = self._schema.column(name)
        if column is None:
            raise InvalidValue(f"the table has no column {name!r}")
        kind = _COLUMN_KINDS.get(describe(column.type).kind)
        if column.type.name == "timestamp":
            kind = "timestamp"
        if kind is None:
            raise InvalidValue(f"column {name!r} is a {column.type.name}")
        return Term(kind, read_column(column), column.type.decimals or 0)

    def negative(self, node: exp.Neg) -> Term:
        return function.negation(self.compile(node.this))

    def operation(self, node: exp.Binary) -> Term:
        left, right = self.compile(node.this), self.compile(node.expression)
        return function.operation(_OPERATORS[type(node)], left, right)

    def rounded(self, node: exp.Func) -> Term:
        # sqlglot reads these two before it looks functions up, with more arguments than MySQL's.
        arguments = [value for value in node.args.values() if value is not None]
        return self._call(node.key, arguments)

    def called(self, node: exp.Anonymous) -> Term:
        return self._call(str(node.this).lower(), node.expressions)

    def _call(self, name: str, arguments: list[Any]) -> Term:
        return function.call(name, [self.compile(node) for node in arguments], self._zone)

    def extract(self, node: exp.Extract) -> Term:
        unit = node.this.name.lower() if isinstance(node.this, exp.Var) else ""
        return function.extract(unit, self.compile(node.expression))


_COLUMN_KINDS: dict[str, Kind] = {
    "integer": "integer",
    "year": "integer",
    "decimal": "decimal",
    "date": "date",
    "datetime": "datetime",
    "time": "time",
}

_OPERATORS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.IntDiv: "div",
    exp.Mod: "mod",
}

_NODES: dict[type, Callable[[_Compiler, Any], Term]] = {
    exp.Paren: _Compiler.paren,
    exp.Literal: _Compiler.literal,
    exp.Boolean: _Compiler.boolean,
    exp.Null: _Compiler.null,
    exp.National: _Compiler.national,
    exp.HexString: _Compiler.hexadecimal,
    exp.BitString: _Compiler.bits,
    exp.Introducer: _Compiler.introduced,
    exp.Column: _Compiler.column,
    exp.Neg: _Compiler.negative,
    **dict.fromkeys(_OPERATORS, _Compiler.operation),
    exp.Floor: _Compiler.rounded,
    exp.Ceil: _Compiler.rounded,
    exp.Extract: _Compiler.extract,
    exp.Anonymous: _Compiler.called,
}
