"""Partition expressions: the values of constants, and functions of a row."""

from collections.abc import Callable
from datetime import tzinfo

from ticdc_assets.errors import InvalidValue, UnsupportedDdl
from ticdc_assets.events import TableSchema
from ticdc_assets.schema.partition.function import Constant, Row, Term


def compile_integer(
    text: str, schema: TableSchema | None, zone: tzinfo | None
) -> Callable[[Row], int | None]:
    """Compile an integer expression; without a schema it must not name a column."""
    term = _compile(text, schema, zone)
    if term.kind != "integer":
        raise UnsupportedDdl("the partition expression is not an integer", text)
    return term.evaluate


def evaluate_integer(text: str, zone: tzinfo | None) -> int | None:
    """Evaluate an integer expression that names no column."""
    evaluate = compile_integer(text, None, zone)
    try:
        return evaluate({})
    except InvalidValue as problem:
        raise UnsupportedDdl(problem.reason, text) from None


def evaluate_constant(text: str, zone: tzinfo | None) -> Constant:
    """Evaluate an expression that names no column."""
    term = _compile(text, None, zone)
    if term.kind in ("text", "bytes"):
        result: Constant = term.evaluate({})
        return result
    return evaluate_integer(text, zone)


def _compile(text: str, schema: TableSchema | None, zone: tzinfo | None) -> Term:
    # Most tables have no such expression, and importing sqlglot takes a fifteenth of a second.
    from ticdc_assets.schema.partition.compiler import compile_term

    return compile_term(text, schema, zone)
