"""The list `[[changefeed.archive]]`: what it may have, and which entry decides."""

from pathlib import Path

import pytest

from tests.changefeed.test_layout import declare
from ticdc_assets.changefeed.archive import ALL_DELETES, find_kept_deletes
from ticdc_assets.errors import ConfigError


def test_the_last_entry_that_selects_a_table_decides(tmp_path: Path) -> None:
    assert declare(tmp_path, "").archives == ()
    archives = declare(
        tmp_path,
        """
        [[changefeed.archive]]
        tables = ["shop.*", "!shop.tmp"]
        [[changefeed.archive]]
        tables = ["SHOP.Orders"]
        deletes = ["drop-partition", "rows"]
        """,
    ).archives
    assert find_kept_deletes(archives, "shop", "items") == ALL_DELETES
    assert find_kept_deletes(archives, "shop", "orders") == ("rows", "drop-partition")
    assert find_kept_deletes(archives, "shop", "tmp") == ()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("archive = 1", r"must be a list of tables, each written \[\[changefeed.archive\]\]"),
        ('[changefeed.archive]\ntables = ["a.*"]', "must be a list of tables"),
        ("[[changefeed.archive]]", "entry 1: tables is missing: name tables"),
        ("[[changefeed.archive]]\ntables = []", "tables must be a list of patterns"),
        ('[[changefeed.archive]]\ntables = ["a"]', "tables: 'a' cannot be parsed"),
        ('[[changefeed.archive]]\ntable = ["a.*"]', "table is not one .* did you mean tables"),
        ('[[changefeed.archive]]\ntables = ["a.*"]\ndeletes = []', "deletes must be a list"),
        ('[[changefeed.archive]]\ntables = ["a.*"]\ndeletes = "rows"', "deletes must be a list"),
        (
            '[[changefeed.archive]]\ntables = ["a.*"]\ndeletes = ["drop"]',
            "deletes may have rows, truncate or drop-partition, not 'drop'",
        ),
    ],
)
def test_what_it_cannot_have_is_an_error(tmp_path: Path, lines: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        declare(tmp_path, lines)
