"""The reader returns statements or raises `UnreadableDdl` for any text, in bounded time."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.golden import find_folder, open_lines
from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.reader import read_ddl

KEYWORDS = """
    create alter drop rename truncate table database index view add modify change column partition
    by range list hash key columns values less than in maxvalue default null not primary unique if
    exists like as to first after set convert charset collate comment int varchar enum decimal float
    vector text bit time date now current_timestamp on update generated always stored exchange with
    reorganize into coalesce remove partitioning interval ttl placement policy sequence flashback
    recover constraint check references match foreign where using next value for
"""
SIGNS = r"""
    ( ) , ; . = + - * / < > @ ' " ` `a` `` '' 'x' "y" x'00' x'0 b'1' 0x 0x1 0b1 1 1.5 .5 1e 1e5
    _utf8mb4'x' _binary /*! /*T! /*T![x] /*!50100 */ /* -- # \ {# {% %} é 表
"""
PIECES = [*KEYWORDS.split(), *SIGNS.split(), "\n", "\0", "\ufeff", "\u3000"]


@cache
def read_golden_sql() -> list[str]:
    """Return every statement of the recorded DDL histories."""
    histories = (find_folder(workload) / "ddl_history.jsonl" for workload in ("types", "lifecycle"))
    return sorted({line["query"] for history in histories for line in open_lines(history)})


def assert_read_or_unreadable(sql: str) -> None:
    with suppress(UnreadableDdl):
        read_ddl(sql)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(["", " "]))
def test_any_sequence_of_words_is_read_or_unreadable(pieces: list[str], between: str) -> None:
    assert_read_or_unreadable(between.join(pieces))


@settings(max_examples=150, deadline=None)
@given(st.text())
@example("\udc80")
@example("/*!99999 */")
@example("x'zz'")
@example("drop table t;\x00")
def test_any_text_is_read_or_unreadable(text: str) -> None:
    assert_read_or_unreadable(text)
    assert_read_or_unreadable(f"create table t (a int default {text})")


@settings(max_examples=150, deadline=None)
@given(st.deferred(lambda: st.sampled_from(read_golden_sql())), st.data())
def test_a_damaged_golden_statement_is_read_or_unreadable(sql: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sql)))
    assert_read_or_unreadable(sql[:at])
    assert_read_or_unreadable(sql[:at] + data.draw(st.sampled_from(PIECES)) + sql[at:])
    until = data.draw(st.integers(at, len(sql)))
    assert_read_or_unreadable(sql[:at] + sql[until:])


DEEP = 10_000
MANY = 10_000
LONG = 2_000_000
TEN_MEGABYTES = 10_000_000


def column_default(text: str) -> str:
    return f"create table t (a int default {text})"


@pytest.mark.parametrize(
    "make",
    [
        lambda: column_default("(" * DEEP + "1" + ")" * DEEP),
        lambda: column_default("(" * DEEP),
        lambda: column_default("f(" * DEEP + "1" + ")" * DEEP),
        lambda: (
            "create table t (a int) partition by list (a) (partition p values in ("
            + "(" * DEEP
            + "1"
            + ")" * DEEP
            + "))"
        ),
        lambda: "create table t (a int, check (" + "(" * DEEP + "1" + ")" * DEEP + "))",
        lambda: "create table t (a varchar(9) comment '" + "x" * TEN_MEGABYTES + "')",
        lambda: "create table t (a varchar(9) comment '" + "x''" * MANY + "')",
        lambda: "create table t (a varchar(9) comment '" + "\\'" * MANY + "')",
        lambda: "create table t (a int) /* " + "x" * LONG,
        lambda: "create table t (a int) -- " + "x" * LONG,
        lambda: "drop table " + "`a`," * MANY + "b",
        lambda: "create table t (a int" + ", key (a)" * MANY + ")",
        lambda: "alter table t add (a enum('x'" + ",'y'" * MANY + ") default 'y')",
        lambda: column_default("9" * LONG),
        lambda: column_default("x'" + "f" * LONG + "'"),
        lambda: column_default("0b" + "1" * MANY),
        lambda: column_default("1e" + "9" * 50),
        lambda: "create table t (a decimal(" + "9" * MANY + "))",
        lambda: "/*!50100 " * MANY,
        lambda: "'" * MANY,
        lambda: "-" * MANY,
        lambda: ";" * MANY,
    ],
)
def test_reading_time_is_bounded_for_hostile_texts(make: Callable[[], str]) -> None:
    sql = make()
    start = time.process_time()
    assert_read_or_unreadable(sql)
    assert time.process_time() - start < 5


def test_nested_parentheses_around_a_literal_do_not_matter() -> None:
    (statement,) = read_ddl(column_default("(" * DEEP + "-1" + ")" * DEEP))
    assert isinstance(statement, ddl.CreateTable)
    assert statement.columns[0].default.text == "-1"
