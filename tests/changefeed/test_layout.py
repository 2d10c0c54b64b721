"""The list `[[changefeed.layout]]`: what it may have, and which entry decides."""

from pathlib import Path

import pytest

from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.changefeed.layout import TableLayout, find_layout
from ticdc_assets.errors import ConfigError


def declare(folder: Path, lines: str) -> Changefeed:
    file = folder / "changefeeds.toml"
    uri = "file:///data?protocol=csv"
    file.write_text(f'[[changefeed]]\nid = "shop"\nsink-uri = "{uri}"\n{lines}\n')
    return load_changefeeds(file)["shop"]


def test_the_last_entry_that_states_a_setting_decides(tmp_path: Path) -> None:
    assert declare(tmp_path, "").layouts == ()
    layouts = declare(
        tmp_path,
        """
        [[changefeed.layout]]
        bigint-unsigned = "bigint"
        not-null = true
        [[changefeed.layout]]
        tables = ["shop.*", "!shop.tmp"]
        cluster-by = "created at"
        not-null = false
        [[changefeed.layout]]
        tables = ["SHOP.Orders"]
        bigint-unsigned = "decimal"
        """,
    ).layouts

    def choose(table: str) -> tuple[str | None, bool | None, str | None]:
        found = find_layout(layouts, "shop", table)
        return found.bigint_unsigned, found.not_null, found.cluster_by

    assert choose("orders") == ("decimal", False, "created at")
    assert choose("items") == ("bigint", False, "created at")
    assert choose("tmp") == ("bigint", True, None)
    assert find_layout((), "shop", "tmp") == TableLayout()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("layout = 1", r"must be a list of tables, each written \[\[changefeed.layout\]\]"),
        ("[changefeed.layout]\nnot-null = true", "must be a list of tables"),
        ("[[changefeed.layout]]", "entry 1: states nothing: set bigint-unsigned, not-null or"),
        ('[[changefeed.layout]]\ntables = ["a.*"]', "entry 1: states nothing"),
        ('[[changefeed.layout]]\nclusterby = "a"', "clusterby .* did you mean cluster-by"),
        ('[[changefeed.layout]]\nbigint-unsigned = "int"', "be decimal or bigint, not 'int'"),
        ("[[changefeed.layout]]\nbigint-unsigned = 1", "be decimal or bigint, not '1'"),
        ('[[changefeed.layout]]\nnot-null = "true"', "not-null must be true or false, without"),
        ('[[changefeed.layout]]\ncluster-by = ["a"]', "cluster-by must be the name of one column"),
        ('[[changefeed.layout]]\ncluster-by = ""', "cluster-by must be the name of one column"),
        ("[[changefeed.layout]]\nnot-null = true\ntables = []", "tables must be a list of pat"),
        ('[[changefeed.layout]]\nnot-null = true\ntables = "a.*"', "tables must be a list of pat"),
        ('[[changefeed.layout]]\nnot-null = true\ntables = ["a"]', "tables: 'a' cannot be parsed"),
        (
            "[[changefeed.layout]]\nnot-null = true\n[[changefeed.layout]]\nnot-null = 1",
            "entry 2: not-null must be",
        ),
    ],
)
def test_what_cannot_work_names_the_entry_and_the_fix(
    tmp_path: Path, lines: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        declare(tmp_path, lines)
    assert caught.value.setting == "changefeed shop.layout"
    assert caught.value.file == str(tmp_path / "changefeeds.toml")
