"""SQL of a partition expression, compiled to a function of a row.

sqlglot parses the text, without its own interpretation of functions.  Only what TiDB allows in a
partition expression is compiled; anything else raises `UnsupportedDdl`.
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
from ticdc_assets.events import TableSchema
from ticdc_assets.schema.partition import function
from ticdc_assets.schema.partition.column import make_column_reader
from ticdc_assets.schema.partition.function import Kind, Term
from ticdc_assets.schema.types.mysql_type import describe

# The deepest nesting of an expression; a limit for hostile input.
_MAX_DEPTH = 100
_MAX_NUMBER_LENGTH = 40


class _PlainFunctions(MySQL):
    """MySQL in which YEAR(d) remains a call of YEAR, not a node of another dialect."""

    class Parser(MySQLParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}


def compile_term(text: str, schema: TableSchema | None, zone: tzinfo | None) -> Term:
    """Compile an expression; without a schema it must not name a column."""
    try:
        node = sqlglot.parse_one(text, read=_PlainFunctions)
        return _Compiler(schema, zone).compile(node)
    except InvalidValue as problem:
        raise UnsupportedDdl(problem.reason, text) from None
    except (SqlglotError, RecursionError):
        raise UnsupportedDdl("the partition expression cannot be parsed", text) from None


class _Compiler:
    """Compiles the nodes of one expression; raises `InvalidValue` for an unsupported one."""

    def __init__(self, schema: TableSchema | None, zone: tzinfo | None) -> None:
        self._schema = schema
        self._zone = zone
        self._depth = 0

    def compile(self, node: Any) -> Term:
        make = _NODES.get(type(node))
        if make is None:
            what = node.key if isinstance(node, exp.Expression) else str(node)
            raise InvalidValue(f"{what} is not allowed in a partition expression")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
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
        if not text.isascii() or not text.isdigit() or len(text) > _MAX_NUMBER_LENGTH:
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
            raise InvalidValue("an invalid hexadecimal literal") from None

    def bits(self, node: exp.BitString) -> Term:
        digits: str = node.this
        if not digits or digits.strip("01"):
            raise InvalidValue("an invalid bit literal")
        return function.literal("bytes", int(digits, 2).to_bytes((len(digits) + 7) // 8))

    def introducer(self, node: exp.Introducer) -> Term:
        term = self.compile(node.expression)
        if term.kind not in ("text", "bytes"):
            raise InvalidValue("a charset introducer before a literal that is not text")
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
            raise InvalidValue(
                f"a partition expression over {name!r}, a {column.type.name}, is not supported"
            )
        return Term(kind, make_column_reader(column), column.type.decimals or 0)

    def negative(self, node: exp.Neg) -> Term:
        return function.negation(self.compile(node.this))

    def operation(self, node: exp.Binary) -> Term:
        left, right = self.compile(node.this), self.compile(node.expression)
        return function.operation(_OPERATORS[type(node)], left, right)

    def rounding(self, node: exp.Func) -> Term:
        # sqlglot parses FLOOR and CEIL itself, with more arguments than MySQL has.
        arguments = [value for value in node.args.values() if value is not None]
        return self._call(node.key, arguments)

    def function_call(self, node: exp.Anonymous) -> Term:
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
    exp.Introducer: _Compiler.introducer,
    exp.Column: _Compiler.column,
    exp.Neg: _Compiler.negative,
    **dict.fromkeys(_OPERATORS, _Compiler.operation),
    exp.Floor: _Compiler.rounding,
    exp.Ceil: _Compiler.rounding,
    exp.Extract: _Compiler.extract,
    exp.Anonymous: _Compiler.function_call,
}
