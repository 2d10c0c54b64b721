"""The topic of a table: matchers, the order of dispatchers, and the names Kafka allows."""

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.stream.routing import find_topic

# Matchers, and the tables that they take of these.
TABLES = ["db.t", "db.tx", "db.t1", "DB2.T", "a.b.c", "ws 数据.t 1", '`."']
MATCHERS: list[tuple[list[str], list[str]]] = [
    (["*.*"], TABLES),
    (["db.*"], ["db.t", "db.tx", "db.t1"]),
    (["DB.T"], ["db.t"]),
    (["db?.t"], ["DB2.T"]),
    (["*.t?"], ["db.tx", "db.t1"]),
    (["db.t[0-9]"], ["db.t1"]),
    (["db.t[!0-9]"], ["db.tx"]),
    (["db.*", "!db.t"], ["db.tx", "db.t1"]),
    (["!db.t", "db.*"], ["db.t", "db.tx", "db.t1"]),
    (["*.*", "!db*.*", "db.tx"], ["db.tx", "a.b.c", "ws 数据.t 1", '`."']),
    (["db2.t", "ws 数据.*"], ["DB2.T", "ws 数据.t 1"]),
    (["`a.b`.c"], ["a.b.c"]),
    (['"a.b".`c`'], ["a.b.c"]),
    ([r"a\.b.c"], ["a.b.c"]),
    (['"`".`"`'], ['`."']),
    (['````.""""'], ['`."']),
    ([r"/^db\d?$/./^t$/"], ["db.t", "DB2.T"]),
    (["/b/.*"], ["db.t", "db.tx", "db.t1", "DB2.T", "a.b.c"]),
    ([], []),
]


@pytest.mark.parametrize(("matcher", "taken"), MATCHERS, ids=lambda value: " ".join(value))
def test_matchers_are_read_as_tidb_reads_table_filters(
    declare, matcher: list[str], taken: list[str]
) -> None:
    feed = declare(f'[{{matcher = [{", ".join(map(toml, matcher))}], topic = "x"}}]')
    found = [name for name in TABLES if find_topic(feed, *name.rsplit(".", 1)) == "x"]
    assert found == taken


def toml(text: str) -> str:
    return "'''" + text + "'''"


@pytest.mark.parametrize(
    "matcher", ["", "db", "db.", ".t", "a.b.c", "!", "[a.b", "/(/.*", "/x/y.t"]
)
def test_a_matcher_that_tidb_could_not_read_either_is_an_error(declare, matcher: str) -> None:
    feed = declare(f'[{{matcher = [{toml(matcher)}], topic = "x"}}]')
    with pytest.raises(ConfigError) as caught:
        find_topic(feed, "db", "t")
    assert caught.value.setting == "sink.dispatchers"


def test_the_first_rule_that_takes_a_table_counts(declare) -> None:
    rules = [
        '{matcher = ["a.x"], topic = "one"}',
        '{matcher = ["a.*"]}',
        '{matcher = ["*.x", "a.y"], topic = "two"}',
    ]
    feed = declare(f"[{', '.join(rules)}]")
    names = [("a", "x"), ("A", "X"), ("a", "y"), ("b", "x"), ("b", "y")]
    assert [find_topic(feed, *name) for name in names] == ["one", "one", "main", "two", "main"]


@pytest.mark.parametrize(
    ("expression", "topic"),
    [
        ("fixed", "fixed"),
        ("{schema}", "ws___"),
        ("p_{schema}.{table}-s", "p_ws___.t_table_-s"),
        ("{table}", "t_table_"),
        ("x" * 245 + "{schema}", "x" * 245 + "ws__"),
    ],
)
def test_a_topic_has_the_names_with_what_kafka_forbids_replaced(
    declare, expression: str, topic: str
) -> None:
    feed = declare(f'[{{matcher = ["*.*"], topic = "{expression}"}}]')
    assert find_topic(feed, "ws 数据", "t{table}") == topic


@pytest.mark.parametrize(("name", "topic"), [(".", "_"), ("..", "__"), ("...", "...")])
def test_names_that_kafka_has_no_topics_of_are_replaced(declare, name: str, topic: str) -> None:
    feed = declare('[{matcher = ["*.*"], topic = "{schema}"}]')
    assert find_topic(feed, name, "t") == topic
