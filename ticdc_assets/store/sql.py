"""SQL text: identifiers, string literals and Delta tables by path, of Spark unless they say so."""

from ticdc_assets.store.texts import replace_surrogates


def quote_identifier(name: str) -> str:
    """Quote a column or table name for SQL, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"


def quote_literal(text: str) -> str:
    """Quote a text as an SQL string literal; U+FFFD replaces bytes that are not UTF-8."""
    escaped = str(replace_surrogates(text)).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quote_standard_name(name: str) -> str:
    """Quote a name by the SQL standard, as DuckDB and others do: no escape by backslash."""
    return '"' + name.replace('"', '""') + '"'


def quote_standard_text(text: str) -> str:
    """Quote a text by the SQL standard, as DuckDB and delta-rs do: no escape by backslash."""
    return "'" + text.replace("'", "''") + "'"


def delta_table(path: str) -> str:
    """Name the Delta table at a path in SQL."""
    return f"delta.{quote_identifier(path)}"
