"""`[changefeed.privacy]`: what it says of columns, and what is wrong with it."""

from pathlib import Path

import pytest

from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.errors import ConfigError

TOPIC = "kafka://h:9092/t?protocol=simple"
FOLDER = "file:///data?protocol=csv"
OTHER = "[[changefeed.privacy.table]]\n"
ENTRY = '[[changefeed.privacy.table]]\ntables = ["shop.*"]\n'


def load(folder: Path, settings: str, uri: str = TOPIC, more: str = "") -> Changefeed:
    file = folder / "changefeeds.toml"
    file.write_text(
        f'[[changefeed]]\nid = "f"\nsink-uri = "{uri}"\n{more}\n[changefeed.privacy]\n{settings}'
    )
    return load_changefeeds(file)["f"]


def test_the_last_entry_that_selects_a_table_decides_on_all_of_its_columns(tmp_path: Path) -> None:
    settings = (
        'key-env = "K"\nraw = "encrypted"\n'
        f'{ENTRY}keep = ["*"]\nmask = ["phone"]\n'
        '[[changefeed.privacy.table]]\ntables = ["shop.c*", "!shop.cart"]\n'
        'keep = ["id"]\nhash = ["Émail"]\nnull = ["born"]\ndrop = ["note"]\n'
    )
    privacy = load(tmp_path, settings).privacy
    assert privacy is not None
    found = {
        table: {
            column: entry.find_rule(column)
            for column in ("ID", "émail", "born", "note", "phone", "new")
        }
        for table in ("customers", "cart")
        if (entry := privacy.find_entry("SHOP", table)) is not None
    }
    assert found == {
        "customers": {
            "ID": "keep",
            "émail": "hash",
            "born": "null",
            "note": "drop",
            "phone": "drop",
            "new": "drop",
        },
        "cart": dict.fromkeys(("ID", "émail", "born", "note", "new"), "keep") | {"phone": "mask"},
    }
    assert privacy.find_entry("other", "t") is None
    assert load(tmp_path, f'{ENTRY}keep = ["*"]', FOLDER).privacy is not None


@pytest.mark.parametrize(
    ("settings", "uri", "said"),
    [
        (f'{ENTRY}keep = ["a"]', TOPIC, "raw is missing: .* are kept: plain or encrypted"),
        (f'raw = "plain"\n{ENTRY}keep = ["a"]', FOLDER, "raw works on topics only"),
        (f'raw = "no"\n{ENTRY}keep = ["a"]', TOPIC, "raw must be plain or encrypted, not 'no'"),
        (f'raw = "encrypted"\n{ENTRY}keep = ["a"]', TOPIC, "key-env is missing"),
        (f'{ENTRY}hash = ["a"]', FOLDER, "key-env is missing"),
        (f'key = "secret"\n{ENTRY}keep = ["a"]', FOLDER, "key is not one .*; write key-env"),
        ("", FOLDER, "table: must be a list"),
        (ENTRY, FOLDER, "table: entry 1: names no column"),
        (
            f'{ENTRY}keep = ["a"]\nmask = ["A"]',
            FOLDER,
            "table: entry 1: column A is twice .*keep and",
        ),
        (
            f'{ENTRY}mask = ["*"]',
            FOLDER,
            'table: entry 1: mask must name columns: "." stands in keep',
        ),
        (f"{ENTRY}drop = 5", FOLDER, "table: entry 1: drop must be a list of columns"),
        (f'{ENTRY}hide = ["a"]', FOLDER, "table: entry 1: hide is not one of its settings"),
        (f'{OTHER}keep = ["a"]', FOLDER, "table: entry 1: tables must be a list of patterns"),
        (f'{OTHER}tables = ["a"]\nkeep = ["a"]', FOLDER, "table: entry 1: tables: 'a' cannot"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, settings: str, uri: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"changefeed f.privacy: {said}") as error:
        load(tmp_path, settings, uri)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("rule", ["drop", "null", "mask"])
def test_a_declared_key_cannot_be_taken_away(tmp_path: Path, rule: str) -> None:
    keys = 'keys = {"shop.t" = ["id"]}'
    for rules in (f'{rule} = ["id"]', f'{rule} = ["a"]'):
        with pytest.raises(ConfigError, match=r"column id of shop\.t is in its key"):
            load(tmp_path, f"{ENTRY}{rules}", FOLDER, keys)
    load(tmp_path, f'key-env = "K"\n{ENTRY}hash = ["id"]', FOLDER, keys)
