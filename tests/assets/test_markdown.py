"""Markdown made of texts that contain markup."""

from ticdc_assets.assets.markdown import code, code_block, escape_markdown


def test_texts_of_users_are_not_taken_for_markup() -> None:
    assert escape_markdown("a|b\n*c* <i>`d`") == "a\\|b \\*c\\* \\<i\\>\\`d\\`"
    assert code("a`b") == "`` a`b ``"
    assert code_block(["SELECT '```'"]).startswith("````sql\n")
