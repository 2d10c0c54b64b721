"""SQL text: identifiers, string literals and Delta tables by path."""

import re

# What stands for bytes that are not UTF-8; Java takes no text that has it.
_SURROGATE = re.compile("[\ud800-\udfff]")


def is_utf8(text: str) -> bool:
    """Return whether Spark can hold a text."""
    return _SURROGATE.search(text) is None


def quote_identifier(name: str) -> str:
    """Quote a column or table name for SQL, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"


def quote_literal(text: str) -> str:
    """Quote a text as an SQL string literal; U+FFFD replaces bytes that are not UTF-8."""
    escaped = _SURROGATE.sub("\ufffd", text).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def delta_table(path: str) -> str:
    """Name the Delta table at a path in SQL."""
    return f"delta.{quote_identifier(path)}"
