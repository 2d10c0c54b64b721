"""Markdown in which no user's text is taken for markup."""

from collections.abc import Iterable

from ticdc_assets.lake.views.preview import Preview

_MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]()#+-.!|<>~&$:"})


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows unchanged, on one line."""
    return " ".join(text.split()).translate(_MARKUP)


def code(text: str) -> str:
    """Return a text as inline code, whatever it contains, on one line."""
    line = " ".join(text.split())
    return f"`{line}`" if line and "`" not in line else f"`` {line} ``" if line else "(empty)"


def code_block(texts: Iterable[str], language: str = "sql") -> str:
    """Return texts as a block of code that none of them can end."""
    body = "\n".join(texts)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}{language}\n{body}\n{fence}"


def format_preview(preview: Preview) -> str:
    """Return the rows of a preview as a table."""
    head = [escape_markdown(name) for name in preview.columns]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in preview.rows:
        cells = ("*NULL*" if value is None else escape_markdown(value) or " " for value in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
