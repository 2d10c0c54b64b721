"""The topics that a changefeed may write to, among those that the brokers have."""

from dataclasses import replace

from ticdc_assets.changefeed import Changefeed, Dispatcher, changefeed_from_uri
from ticdc_assets.stream.routing import find_topic, list_topics

FEED = changefeed_from_uri("kafka://h:9092/main?protocol=simple")


def with_topics(*expressions: str) -> Changefeed:
    return replace(FEED, dispatchers=tuple(Dispatcher(("*.*",), topic=one) for one in expressions))


def test_the_default_topic_is_among_them_whether_it_exists_or_not() -> None:
    assert list_topics(FEED, []) == ["main"]
    assert list_topics(FEED, ["other", "main"]) == ["main"]


def test_every_topic_that_an_expression_can_name_is_found() -> None:
    feed = with_topics("p.{schema}-{table}", "", "fixed")
    names = [("shop", "orders"), ("s-x", "a.b"), ("数据", "表"), ("d" * 200, "t" * 200)]
    topics = [find_topic(feed, *name) or "" for name in names]
    strangers = ["p.shop_orders", "q.shop-orders", "pxshop-orders", "fixed2", "p.", "xp.a-b"]
    found = list_topics(feed, [*topics, *strangers, "fixed"])
    assert found == sorted([*topics, "fixed", "main"])


def test_topics_of_kafka_itself_are_never_read() -> None:
    feed = with_topics("{schema}_{table}")
    assert list_topics(feed, ["__consumer_offsets", "__transaction_state", "a_b"]) == [
        *("a_b", "main")
    ]
