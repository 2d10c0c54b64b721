"""The resolved ts: as far as everything that can still speak has spoken, and no further."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden import records
from tests.reference.golden_feeds import feed_of
from tests.truth import truth
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.events import (
    Event,
    FilePosition,
    Op,
    RowChange,
    SchemaChange,
    TopicPosition,
    Watermark,
)
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker

WITHOUT_EXTENSION = "kafka://h:9092/main?protocol=canal-json"


def mark(ts: int, topic: str = "main", partition: int = 0) -> Watermark:
    return Watermark(ts=ts, position=TopicPosition(topic, partition, ts))


def row(ts: int, table: str, topic: str = "main", partition: int = 0) -> RowChange:
    position = TopicPosition(topic, partition, ts)
    return RowChange(
        op=Op.INSERT, commit_ts=ts, database="d", table=table, position=position, after="{}"
    )


def ddl(ts: int, sql: str, table: str, topic: str, database: str = "d") -> SchemaChange:
    position = TopicPosition(topic, 0, ts)
    return SchemaChange(commit_ts=ts, database=database, table=table, sql=sql, position=position)


def create(ts: int, table: str, topic: str = "") -> SchemaChange:
    sql = f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY)"
    return ddl(ts, sql, table, topic or f"d.{table}")


def resolved(feed: Changefeed, *events: Event) -> int | None:
    progress = ResolvedTsTracker(feed)
    progress.observe(events)
    return progress.resolved_ts


class TestOneTopic:
    feed = changefeed_from_uri("kafka://h:9092/main?protocol=simple")

    def test_a_partition_that_brokers_have_and_that_says_nothing_holds_it_back(self) -> None:
        for declared, expected in (("", 0), ("&partition-num=2", 5)):
            feed = changefeed_from_uri(f"kafka://h:9092/main?protocol=simple{declared}")
            progress = ResolvedTsTracker(feed)
            progress.observe([mark(5), mark(7, partition=1)])
            progress.expect_partitions({("main", number): False for number in range(3)})
            assert progress.resolved_ts == expected
            assert progress.find_lagging_partitions(5) == (["main-2"] if not declared else [])
            assert progress.find_silent_partitions() == (["main-2"] if not declared else [])
            restored = ResolvedTsTracker(feed)
            restored.restore(progress.state())
            assert restored.resolved_ts == expected

    def test_a_partition_that_is_gone_holds_nothing_back(self) -> None:
        progress = ResolvedTsTracker(self.feed)
        progress.observe([mark(5), mark(9, partition=1)])
        progress.expect_partitions({("main", 1): False})
        assert progress.resolved_ts == 9
        assert progress.watermarks == {"main-1": 9}

    def test_it_is_the_least_of_what_the_partitions_said(self) -> None:
        assert resolved(self.feed, mark(5), mark(7, partition=1), mark(9, partition=2)) == 5

    def test_a_watermark_that_goes_back_takes_nothing_back(self) -> None:
        assert resolved(self.feed, mark(5), mark(8), mark(6)) == 8

    @pytest.mark.parametrize("event", [row(3, "t", partition=1), ddl(3, "x", "t", "main")])
    def test_a_partition_that_has_stated_no_watermark_holds_all_back(self, event: Event) -> None:
        events = (mark(5), event) if event.position.partition else (mark(5, partition=1), event)
        assert resolved(self.feed, *events) == 0

    def test_a_declared_partition_that_is_silent_holds_all_back(self) -> None:
        feed = changefeed_from_uri("kafka://h:9092/main?protocol=simple&partition-num=3")
        events = [mark(5), mark(7, partition=1)]
        assert resolved(feed, *events) == 0
        assert resolved(feed, *events, mark(6, partition=2)) == 5

    def test_what_is_missing_is_named(self) -> None:
        feed = changefeed_from_uri("kafka://h:9092/main?protocol=simple&partition-num=3")
        progress = ResolvedTsTracker(feed)
        progress.observe([mark(5), mark(9, partition=1)])
        assert progress.find_lagging_partitions(7) == ["main-0", "main-2"]
        assert progress.find_lagging_partitions(1) == ["main-2"]

    def test_nothing_is_resolved_before_the_first_watermark(self) -> None:
        for protocol in ("simple", "open-protocol", "canal-json&enable-tidb-extension=true"):
            feed = changefeed_from_uri(f"kafka://h:9092/main?protocol={protocol}")
            assert resolved(feed) == 0
            assert resolved(feed, row(3, "t")) == 0

    def test_canal_json_without_extension_states_none_at_all(self) -> None:
        feed = changefeed_from_uri(WITHOUT_EXTENSION)
        assert resolved(feed) is None
        assert resolved(feed, row(3, "t")) is None

    def test_a_watermark_counts_even_where_none_was_declared(self) -> None:
        assert resolved(changefeed_from_uri(WITHOUT_EXTENSION), mark(5)) == 5

    def test_several_topics_without_declared_dispatchers_all_hold_each_other_back(self) -> None:
        feed = changefeed_from_uri("dump:///records.jsonl?protocol=simple")
        assert resolved(feed, mark(5, "d.a"), mark(9, "main")) == 5


class TestFolder:
    feed = changefeed_from_uri("file:///data?protocol=canal-json")

    def test_it_is_the_checkpoint(self) -> None:
        file = FilePosition("metadata")
        marks = [Watermark(ts=ts, position=file) for ts in (5, 8, 7)]
        assert resolved(self.feed, *marks) == 8

    def test_without_metadata_nothing_is_resolved(self) -> None:
        change = row(3, "t")
        assert resolved(self.feed, change) == 0


class TestTopicsOfTables:
    def test_a_topic_holds_back_while_its_table_is_there(self, declare) -> None:
        events = [create(2, "a"), mark(5, "d.a"), mark(9)]
        assert resolved(declare(), *events) == 5

    def test_the_default_topic_always_holds_back(self, declare) -> None:
        assert resolved(declare(), create(2, "a"), mark(9, "d.a")) == 0
        assert resolved(declare(), create(2, "a"), mark(9, "d.a"), mark(5)) == 5
        of_a_dump = declare(uri="dump:///records.jsonl?protocol=simple")
        assert resolved(of_a_dump, create(2, "a"), mark(9, "d.a"), mark(5)) == 5

    def test_a_topic_whose_last_table_was_dropped_holds_nothing_back_from_then_on(
        self, declare
    ) -> None:
        drop = ddl(7, "DROP TABLE `d`.`a`", "a", "d.a")
        events = [create(2, "a"), mark(5, "d.a"), drop]
        assert resolved(declare(), *events, mark(6)) == 5
        assert resolved(declare(), *events, mark(7)) == 7
        assert resolved(declare(), *events, mark(9)) == 9

    def test_a_dropped_database_takes_its_topics_with_it(self, declare) -> None:
        drop = ddl(7, "DROP DATABASE `d`", "", "main")
        events = [create(2, "a"), create(3, "b"), mark(5, "d.a"), mark(4, "d.b"), drop]
        assert resolved(declare(), *events, mark(6)) == 4
        assert resolved(declare(), *events, mark(9)) == 9

    def test_a_topic_with_a_table_left_goes_on(self, declare) -> None:
        feed = declare('[{matcher = ["*.*"], topic = "{schema}"}]')
        events = [create(2, "a", "d"), create(3, "b", "d"), mark(5, "d"), mark(9)]
        assert resolved(feed, *events, ddl(7, "DROP TABLE `d`.`a`", "a", "d")) == 5
        assert resolved(feed, *events, ddl(7, "DROP TABLE `d`.`a`, `d`.`b`", "a", "d")) == 9

    def test_a_table_that_comes_back_holds_back_again(self, declare) -> None:
        drop = ddl(7, "DROP TABLE `d`.`a`", "a", "d.a")
        events = [create(2, "a"), mark(5, "d.a"), drop, mark(20)]
        assert resolved(declare(), *events, create(10, "a")) == 9
        assert resolved(declare(), *events, create(10, "a"), mark(12, "d.a")) == 12

    def test_a_rename_goes_to_a_topic_that_holds_back_until_it_has_spoken(self, declare) -> None:
        rename = ddl(7, "RENAME TABLE `d`.`a` TO `d`.`b`", "b", "d.a")
        events = [create(2, "a"), mark(6, "d.a"), rename, mark(9)]
        assert resolved(declare(), *events) == 6
        assert resolved(declare(), *events, row(8, "b", "d.b")) == 6
        assert resolved(declare(), *events, mark(8, "d.b")) == 8

    def test_tables_swap_their_names_in_any_order_of_arrival(self, declare) -> None:
        steps = (("a", "x"), ("b", "a"), ("x", "b"))
        swap = [ddl(7, f"RENAME TABLE `d`.`{o}` TO `d`.`{n}`", n, f"d.{o}") for o, n in steps]
        for order in permutations(swap):
            events = [create(2, "a"), create(3, "b"), *order, mark(9)]
            assert resolved(declare(), *events, mark(6, "d.a"), mark(9, "d.b")) == 6
            assert resolved(declare(), *events, mark(9, "d.a"), mark(9, "d.b")) == 9

    def test_a_new_topic_holds_nothing_back_before_its_table_was_created(self, declare) -> None:
        assert resolved(declare(), mark(9), create(7, "a")) == 6
        assert resolved(declare(), mark(9), mark(7, "d.a"), create(7, "a")) == 7
        assert resolved(declare(), mark(9), mark(7, "d.a")) == 7

    @pytest.mark.parametrize("partitions", [1, 2, 3])
    def test_its_partitions_are_those_that_brokers_have(self, declare, partitions: int) -> None:
        feed = declare(uri="kafka://h:9092/main?protocol=simple&partition-num=2")
        progress = ResolvedTsTracker(feed)
        progress.observe([mark(9), mark(9, partition=1), mark(7, "d.a")])
        existing = [("main", 0), ("main", 1), *(("d.a", number) for number in range(partitions))]
        progress.expect_partitions(dict.fromkeys(existing, False))
        assert progress.resolved_ts == (7 if partitions == 1 else 6)
        progress.observe(mark(7, "d.a", partition) for partition in range(partitions))
        assert progress.resolved_ts == 7

    def test_a_topic_of_which_nothing_was_read_holds_back_while_it_has_records(
        self, declare
    ) -> None:
        progress = ResolvedTsTracker(declare())
        progress.observe([create(2, "a"), mark(7, "d.a"), mark(9)])
        partitions = {("main", 0): False, ("d.a", 0): False, ("d.b", 0): True}
        progress.expect_partitions(partitions)
        assert progress.resolved_ts == 0
        progress.observe([create(3, "b"), mark(5, "d.b")])
        assert progress.resolved_ts == 5
        # One that has nothing to read may be of another changefeed, or of no table any more.
        progress = ResolvedTsTracker(declare())
        progress.observe([create(2, "a"), mark(7, "d.a"), mark(9)])
        progress.expect_partitions(dict.fromkeys(partitions, False))
        assert progress.resolved_ts == 7

    def test_a_topic_that_was_deleted_holds_nothing_back_until_it_is_made_again(
        self, declare
    ) -> None:
        progress = ResolvedTsTracker(declare())
        progress.observe([create(2, "a"), mark(7, "d.a"), mark(9)])
        progress.expect_partitions({("main", 0): False})
        restored = ResolvedTsTracker(declare())
        restored.restore(progress.state())
        assert restored.resolved_ts == 9
        restored.expect_partitions({("main", 0): False, ("d.a", 0): False})
        restored.observe([mark(12)])
        assert restored.resolved_ts == 1
        restored.observe([mark(11, "d.a")])
        assert restored.resolved_ts == 11

    def test_a_table_from_before_the_changefeed_holds_back_from_its_first_word(
        self, declare
    ) -> None:
        assert resolved(declare(), mark(4, "d.a"), mark(9)) == 4
        assert resolved(declare(), row(6, "a", "d.a"), mark(9)) == 5
        drop = ddl(7, "DROP TABLE `d`.`a`", "a", "d.a")
        assert resolved(declare(), row(6, "a", "d.a"), drop, mark(9)) == 9

    def test_topics_of_views_never_hold_back(self, declare) -> None:
        sql = "CREATE VIEW `d`.`v` AS SELECT 1"
        assert resolved(declare(), ddl(3, sql, "v", "d.v"), mark(3, "d.v"), mark(9)) == 9

    def test_tables_without_a_key_hold_back_only_where_they_are_replicated(self, declare) -> None:
        nokey = ddl(3, "CREATE TABLE `n` (`id` INT)", "n", "d.n")
        assert resolved(declare(), nokey, mark(9)) == 9
        assert resolved(declare(more="force-replicate = true"), nokey, mark(9)) == 2
        # Whatever was declared: rows have come.
        assert resolved(declare(), nokey, row(4, "n", "d.n"), mark(9)) == 2

    def test_a_table_that_lost_its_last_key_holds_nothing_back(self, declare) -> None:
        made = ddl(2, "CREATE TABLE `a` (`id` INT NOT NULL, UNIQUE KEY `k` (`id`))", "a", "d.a")
        lost = ddl(7, "ALTER TABLE `d`.`a` DROP INDEX `k`", "a", "d.a")
        events = [made, row(3, "a", "d.a"), mark(5, "d.a"), lost]
        assert resolved(declare(), *events, mark(6)) == 5
        assert resolved(declare(), *events, mark(9)) == 9
        assert resolved(declare(more="force-replicate = true"), *events, mark(9)) == 5

    def test_tables_of_the_default_topic_by_rule_have_no_topic_of_their_own(self, declare) -> None:
        feed = declare('[{matcher = ["d.a"], partition = "table"}, {matcher = ["*.*"], topic="x"}]')
        assert resolved(feed, ddl(2, "CREATE TABLE `a` (`id` INT)", "a", "main"), mark(9)) == 9


def events_of(dataset: str) -> list[Event]:
    return list(read_topic_events(feed_of(dataset), records(dataset), None))


def first_hearings(events: Iterable[Event]) -> Iterator[tuple[int, bool] | None]:
    """Of each event: commit ts and whether it is a DDL, where it says something new."""
    known = set()
    for event in events:
        if isinstance(event, RowChange):
            yield event.commit_ts, False
        elif isinstance(event, SchemaChange):
            name = (event.commit_ts, event.sql, event.database, event.table)
            yield None if name in known else (event.commit_ts, True)
            known.add(name)
        else:
            yield None


def assert_never_too_much(feed: Changefeed, events: list[Event], every: int = 1) -> None:
    """What comes later is above what was said to be resolved; a DDL may be of that very ts."""
    least_later = [
        2 * ts + is_ddl if news is not None else 1 << 65
        for news in first_hearings(events)
        for ts, is_ddl in [news or (0, False)]
    ]
    later = [*accumulate(reversed(least_later), min)][::-1]
    progress = ResolvedTsTracker(feed)
    last = 0
    for number, event in enumerate(events):
        progress.observe((event,))
        if number % every == 0 and number + 1 < len(events):
            now = progress.resolved_ts
            assert now is not None
            assert last <= now
            assert 2 * now < later[number + 1]
            last = now


@pytest.mark.parametrize(
    "dataset", ["lifecycle/simple-json-topic-per-table", "types/canal-json-ext-topic-per-table"]
)
def test_a_topic_per_table_is_resolved_up_to_its_watermarks(dataset: str) -> None:
    feed = feed_of(dataset)
    events = events_of(dataset)
    assert_never_too_much(feed, events, every=31)
    assert resolved(feed, *events) == max(truth(dataset.split("/")[0]))


@settings(max_examples=12)
@given(data=st.data())
def test_partitions_may_arrive_in_any_order(data: st.DataObject) -> None:
    dataset = data.draw(
        st.sampled_from(
            ["lifecycle/simple-json", "types/newarch-open-protocol", "lifecycle/canal-json-ext"]
        )
    )
    feed = feed_of(dataset)
    partitions: dict[int, list[Event]] = {}
    for event in events_of(dataset):
        assert isinstance(event.position, TopicPosition)
        partitions.setdefault(event.position.partition, []).append(event)
    left = {number: iter(events) for number, events in partitions.items()}
    mixed: list[Event] = []
    random = data.draw(st.randoms(use_true_random=False))
    while left:
        number = random.choice(sorted(left))
        for _ in range(random.choice([1, 1, 3, 40])):
            if (event := next(left[number], None)) is None:
                del left[number]
                break
            mixed.append(event)
    assert_never_too_much(feed, mixed)
    assert resolved(feed, *mixed) == max(truth(dataset.split("/")[0]))
