"""Markdown made of texts that contain markup."""

import dagster as dg
import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from tests.hostile_names import NAMES
from tests.made_lake import schema
from ticdc_assets.assets.markdown import code, code_block
from ticdc_assets.assets.metadata import note_on_definition
from ticdc_assets.assets.specs import columns_metadata
from ticdc_assets.checks.invariants import KnownRows
from ticdc_assets.checks.results import CONTRACT, make_status_evaluation
from ticdc_assets.log.applied_row import RowCounts
from ticdc_assets.log.catalog import LakeTable, TableChange
from ticdc_assets.safe_text import escape_control, escape_markdown, unescape_markdown


def test_texts_of_users_are_not_taken_for_markup() -> None:
    assert escape_markdown("a|b\n*c* <i>`d`") == "a\\|b \\*c\\* \\<i\\>\\`d\\`"
    assert code("a`b") == "`` a`b ``"
    assert code_block(["SELECT '```'"]).startswith("````sql\n")


def text_of(markdown: object) -> str:
    """The text that Markdown shows; fails if any of it is markup."""
    assert isinstance(markdown, str)
    tokens = [token for token in MarkdownIt("commonmark").parse(markdown) if token.children]
    inner = list(tokens[0].children or ())
    assert {token.type for token in inner} <= {"text", "text_special", "code_inline"}
    return "".join(token.content for token in inner)


@pytest.mark.parametrize("name", NAMES)
def test_dagsters_pages_show_hostile_names_as_text(name: str) -> None:
    shown = escape_control(" ".join(name.split()))
    table = schema("d", "t", "text")
    column = replace(table.columns[0], comment=name)
    pages = columns_metadata(replace(table, columns=(column,)))
    description = text_of(pages["dagster/column_schema"].columns[0].description)
    assert description == f"bigint unsigned NOT NULL: {shown}".strip()

    key = dg.AssetCheckKey(dg.AssetKey("a"), "table_is_live")
    columns = ("status", "stopped_ts", "reason", "ddl", "resume_command", "skip_ddl_command")
    stopped = KnownRows(columns, [("paused", 1, name, None, None, None)])
    evaluation = make_status_evaluation(key, stopped, CONTRACT, "1 to 2")
    described = unescape_markdown(evaluation.description or "")
    assert text_of(evaluation.description) == described
    assert " ".join(described.split()).startswith("paused:")

    before, now = (LakeTable("t0", "d", n, "live", None, None, 1, None, table) for n in (name, "x"))
    note = note_on_definition(TableChange(now, before, RowCounts(), None, ()))
    assert f"d.{shown}" in text_of(note) or f"d. {shown}" in text_of(note) or not shown
