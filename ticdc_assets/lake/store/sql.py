"""SQL text: identifiers, string literals and Delta tables by path."""

from ticdc_assets.lake.store.arrow import replace_surrogates


def quote_identifier(name: str) -> str:
    """Quote a column or table name for SQL, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"


def quote_literal(text: str) -> str:
    """Quote a text as an SQL string literal; U+FFFD replaces bytes that are not UTF-8."""
    escaped = str(replace_surrogates(text)).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def delta_table(path: str) -> str:
    """Name the Delta table at a path in SQL."""
    return f"delta.{quote_identifier(path)}"
