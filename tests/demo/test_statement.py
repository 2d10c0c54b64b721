"""Statements of the simulated upstream: worded as real servers word them, and what they do."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.demo.golden_tables import of_simple
from tests.golden import records
from ticdc_assets.demo.change import CommittedTransaction, Ddl
from ticdc_assets.demo.column_type import column, column_sql
from ticdc_assets.demo.simple_json import indexes
from ticdc_assets.demo.statement import Session
from ticdc_assets.demo.upstream import Upstream

# What the upstream here does not write so.
OTHERWISE = re.compile(r"PARTITION BY|CHARACTER SET| PRIMARY KEY,|/\*T!")


def statements(workload: str) -> Iterator[dict[str, Any]]:
    for record in records(f"{workload}/newarch-simple-json"):
        assert record.value is not None
        message = json.loads(record.value)
        if record.partition == 0 and message.get("tableSchema") and "sql" in message:
            yield message


def test_create_table_is_worded_as_the_server_does() -> None:
    checked = 0
    for message in statements("random_1"):
        sql = message["sql"]
        if message["type"] != "CREATE" or OTHERWISE.search(sql):
            continue
        schema = of_simple(message["tableSchema"])
        keys = {"primary": (), "unique": {}}
        for index in schema.indexes:
            if index.primary:
                keys["primary"] = index.columns
            else:
                keys["unique"] = {index.name: index.columns}
        upstream = Upstream(0)
        Session(upstream, "d").create_table(schema.table, schema.columns, **keys)
        (ddl,) = upstream.drain()
        assert isinstance(ddl, Ddl)
        assert ddl.sql == sql.replace(f"`{schema.database}`.", "")
        assert ddl.after is not None
        assert ddl.after.indexes == schema.indexes
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize("workload", ["lifecycle", "types", "random_1"])
def test_columns_are_worded_as_the_server_does(workload: str) -> None:
    checked = 0
    for message in statements(workload):
        found = re.fullmatch(
            r"ALTER TABLE \S+ (?:ADD|MODIFY) COLUMN (`(\w+)` .*?)(?: FIRST| AFTER `\w+`)?",
            message["sql"],
        )
        if found is None or "multi" in found[1] or re.search("TIMESTAMP DEFAULT|x'|b'", found[1]):
            continue
        stated = of_simple(message["tableSchema"]).column(found[2])
        assert stated is not None
        assert column_sql(stated) == found[1]
        checked += 1
    assert checked >= 7


def test_simple_states_the_first_unique_key_where_there_is_no_primary_key() -> None:
    """TiDB takes it for the primary key; rows are identified by the shortest one."""
    upstream = Upstream(0)
    columns = [column(name, "int", nullable=name == "n") for name in "nabc"]
    unique = {"n": ("n",), "ab": ("a", "b"), "c": ("c",)}
    Session(upstream, "d").create_table("t", columns, unique=unique)
    (ddl,) = upstream.drain()
    assert isinstance(ddl, Ddl)
    assert ddl.after is not None
    stated = indexes(ddl.after)
    assert [(index["name"], index["primary"], index["columns"]) for index in stated] == [
        ("n", False, ["n"]),
        ("ab", False, ["a", "b"]),
        ("c", False, ["c"]),
        ("primary", True, ["a", "b"]),
    ]
    assert ddl.after.key == ("c",)


def shop() -> tuple[Upstream, Session]:
    upstream = Upstream(1000)
    session = Session(upstream, "d")
    columns = [
        column("id", "int", nullable=False),
        column("email", "varchar(20)"),
        column("price", "decimal(6,2)"),
    ]
    session.create_table("t", columns, primary=("id",), unique={"uk": ("email",)})
    upstream.drain()
    return upstream, session


def test_a_transaction_is_the_sum_of_its_changes_in_the_order_of_ticdc() -> None:
    upstream, _ = shop()
    table = upstream.tables["d", "t"]
    first = upstream.begin()
    for number in "1234":
        first.insert(table, id=number, email=f"{number}@x", price="1.00")
    first.commit()
    upstream.drain()
    second = upstream.begin()
    second.insert(table, id="9", email=None)
    second.update(table, "1", price="2.00")
    second.update(table, "1", price="3.00")
    second.update(table, "2", email="new@x")
    second.update(table, "3", id="30")
    second.delete(table, "4")
    second.insert(table, id="8")
    second.delete(table, "8")
    second.commit()

    (commit,) = upstream.drain()
    assert isinstance(commit, CommittedTransaction)
    assert [(change.old, change.new) for change in commit.rows] == [
        (("2", "2@x", "1.00"), None),
        (("3", "3@x", "1.00"), None),
        (("4", "4@x", "1.00"), None),
        (("1", "1@x", "1.00"), ("1", "1@x", "3.00")),
        (None, ("9", None, None)),
        (None, ("30", "3@x", "1.00")),
        (None, ("2", "new@x", "1.00")),
    ]


def test_the_truth_at_any_moment() -> None:
    upstream, session = shop()
    transaction = upstream.begin()
    transaction.insert(upstream.tables["d", "t"], id="1", price="1.50")
    transaction.commit()
    inserted = upstream.now
    session.modify_column("t", "price", "decimal(8,4)")
    session.add_column("t", column("n", "int", default="7"))
    altered = upstream.now
    session.rename_table("t", "u")
    transaction = upstream.begin()
    transaction.delete(upstream.tables["d", "u"], "1")
    transaction.commit()

    row = {"id": "1", "email": None, "price": "1.50"}
    assert upstream.truth(inserted - 1) == {("d", "t"): []}
    assert upstream.truth(inserted) == {("d", "t"): [row]}
    assert upstream.truth(altered) == {("d", "t"): [row | {"price": "1.5000", "n": "7"}]}
    assert upstream.truth() == {("d", "u"): []}
    assert upstream.truth(999 << 18) == {}
