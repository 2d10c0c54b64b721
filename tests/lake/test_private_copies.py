"""Copies of tables with rules for columns: neither what is compared nor what is said has values."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake.copies import make_table, write_delta
from tests.lake.privately import find_in_files, write_hash, write_mask
from tests.lake.tidb_copies import against, know
from tests.lake.upstream_copy import FEED, UpstreamCopy
from tests.tidb_server import Tidb
from ticdc_assets.changefeed.privacy import read_privacy
from ticdc_assets.store.lake import LakeSession

PEOPLE = (
    "CREATE TABLE people (id int PRIMARY KEY, v int, email varchar(40), phone varchar(20),"
    " born varchar(20), notes varchar(40), later varchar(40))"
)
BY_EMAIL = "CREATE TABLE by_email (email varchar(40) PRIMARY KEY, v int)"
UNDECIDED = "CREATE TABLE undecided (id int PRIMARY KEY, v varchar(40))"
ENTRIES = [
    {
        "tables": ["shop.people"],
        "keep": ["id", "v"],
        "hash": ["email"],
        "mask": ["phone"],
        "null": ["born"],
        "drop": ["notes"],
    },
    {"tables": ["shop.by_email"], "keep": ["v"], "hash": ["email"]},
]
# A column that no list names is dropped.
RULES = {"email": "hash", "phone": "mask", "born": "null", "notes": "drop", "later": "drop"}
LEFT_OUT = {
    f"{name}: [changefeed.privacy] has the rule {rule} for it" for name, rule in RULES.items()
}
COUNT = 20


def list_plain(id: int) -> tuple[str, ...]:
    names = ("email", "phone", "born", "notes", "later")
    return tuple(f"plain-{name}-{id}" for name in names)


@pytest.fixture
def lake(tmp_path: Path, tidb: Tidb) -> UpstreamCopy:
    privacy = read_privacy({"key-env": "K", "table": ENTRIES}, has_records=False)
    lake = UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]
    lake.lake = LakeSession(None, lake.lake.location, replace(FEED, privacy=privacy))
    know(lake, PEOPLE, BY_EMAIL, UNDECIDED)
    people = [(id, id, *list_plain(id)) for id in range(COUNT)]
    tidb.run(
        *("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop CHARACTER SET utf8mb4"),
        *("USE shop", PEOPLE, BY_EMAIL, UNDECIDED),
        "INSERT INTO people VALUES " + ", ".join(map(str, people)),
        "INSERT INTO by_email VALUES ('plain-key', 1)",
        "INSERT INTO undecided VALUES (1, 'plain-undecided')",
    )
    return lake


@pytest.mark.parametrize("is_of_lake", [True, False])
def test_the_database_is_compared_by_what_no_rule_hides(
    lake: UpstreamCopy, tidb: Tidb, tmp_path: Path, is_of_lake: bool
) -> None:
    def write(id: int, v: int) -> tuple[object, ...]:
        email, phone, *rest = list_plain(id)
        if is_of_lake:
            return id, v, write_hash(email), write_mask(phone), None
        return id, v, email, phone, *rest

    names = ["id", "v", *RULES][: 5 if is_of_lake else None]
    types = {name: pa.int32() if name in ("id", "v") else pa.string() for name in names}
    rows = [write(id, id) for id in range(COUNT)]
    uri = write_delta(tmp_path / "copy", "shop", "people", make_table(rows, **types))
    key = {"email": pa.string(), "v": pa.int32()}
    write_delta(tmp_path / "copy", "shop", "by_email", make_table([("plain-key", 1)], **key))
    other = {"id": pa.int32(), "v": pa.string()}
    write_delta(tmp_path / "copy", "shop", "undecided", make_table([(1, "plain")], **other))

    found = {each.table: each for each in against(lake, tidb, uri)}
    people = found["people"]
    assert (people.verdict, people.lake_rows, people.upstream_rows) == ("equal", COUNT, COUNT)
    assert {*people.left_out} == LEFT_OUT
    assert found["by_email"].verdict == found["undecided"].verdict == "skipped"
    assert (found["by_email"].reason or "").endswith("cannot be found by it: email")
    assert "id: [changefeed.privacy] has the rule drop for it" in (found["undecided"].reason or "")

    wrong = [*rows[:7], write(7, 0), *rows[8:]]
    write_delta(tmp_path / "copy", "shop", "people", make_table(wrong, **types))
    (people,) = against(lake, tidb, uri, "shop.people")
    (difference,) = people.differences
    assert (difference.key, difference.columns) == ('{"id": "7"}', ("v",))
    assert (difference.lake, difference.upstream) == (
        '{"v": "7"}',
        '{"v": "0"}',
    )
    values = [
        text for id in range(COUNT) for text in (*list_plain(id), write_mask(list_plain(id)[1]))
    ]
    assert find_in_files(tmp_path / "lake", [*values, "plain-key", "plain-undecided"]) == {}
