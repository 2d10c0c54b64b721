"""SQL text: identifiers, string literals and Delta tables by path."""


def quote_identifier(name: str) -> str:
    """Quote a column or table name for SQL, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"


def quote_literal(text: str) -> str:
    """Quote a text as an SQL string literal, whatever characters it contains."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def delta_table(path: str) -> str:
    """Name the Delta table at a path in SQL."""
    return f"delta.{quote_identifier(path)}"
