"""Code and tables in Markdown, in which no user's text is taken for markup.

Dagster shows as Markdown: descriptions of assets, columns, checks and check results, and metadata
of type `md`.
"""

import re
from collections.abc import Iterable

from ticdc_assets.safe_text import escape_control, escape_markdown
from ticdc_assets.views.preview import Preview


def code(text: str) -> str:
    """Return a text as inline code, whatever it contains, on one line."""
    line = escape_control(" ".join(text.split()))
    if not line:
        return "(empty)"
    fence = "`" * (_longest_run(line) + 1)
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def code_block(texts: Iterable[str], language: str = "sql") -> str:
    """Return texts as a block of code that none of them can end."""
    lines = (line for text in texts for line in text.replace("\r\n", "\n").split("\n"))
    body = "\n".join(escape_control(line.expandtabs(4)) for line in lines)
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)


def format_preview(preview: Preview) -> str:
    """Return the rows of a preview as a table."""
    head = [escape_markdown(name) for name in preview.columns]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in preview.rows:
        cells = ("*NULL*" if value is None else escape_markdown(value) or " " for value in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
