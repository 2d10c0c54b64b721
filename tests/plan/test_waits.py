"""What a changefeed on topics waits for: silent partitions, and schemas that nothing repeats."""

from msgspec.structs import replace

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import TableSchema, TopicPosition, Watermark
from ticdc_assets.events.tso import compose
from ticdc_assets.plan.state import Incarnation, State, UnknownTable
from ticdc_assets.plan.waits import describe_waits
from ticdc_assets.stream.resolved_ts import ResolvedTsTracker

SIMPLE = changefeed_from_uri("kafka://h:9092/t?protocol=simple")


def at(minutes: float) -> int:
    return compose(1_773_475_200_000 + int(minutes * 60_000))


def state(minutes: float, silent: int | None = None) -> State:
    """Make the state of a changefeed that began at minute 0; `silent` has no watermark."""
    tracker = ResolvedTsTracker(SIMPLE)
    for partition in range(2):
        position = TopicPosition("t", partition, 0)
        tracker.observe([Watermark(ts=at(0), position=position)])
        if partition != silent:
            tracker.observe([Watermark(ts=at(minutes), position=position)])
    if silent is not None:
        tracker.expect_partitions({("t", number): False for number in range(3)})
    return State(ts=at(minutes), watermarks=tracker.state())


def test_a_table_without_a_schema_for_ten_minutes_names_the_setting_that_repeats_it() -> None:
    unknown = UnknownTable("shop", "orders", 7, stopped_ts=0, stopped_snapshot_id=0)
    early = replace(state(9.9), unknown_tables=[unknown])
    assert describe_waits(SIMPLE, early) == []
    (wait,) = describe_waits(SIMPLE, replace(state(12), unknown_tables=[unknown]))
    assert wait.startswith("shop.orders has had no schema for 12 minutes: ")
    assert "send-bootstrap-interval-in-sec" in wait
    # The time counts from when it began to wait.
    later = replace(unknown, stopped_ts=at(5))
    assert describe_waits(SIMPLE, replace(state(12), unknown_tables=[later])) == []


def test_a_known_table_whose_new_schema_is_missing_is_named_too() -> None:
    table = Incarnation(
        id="a",
        schema=TableSchema("shop", "a", ()),
        created_ts=1,
        status="waiting",
        stopped_ts=at(1),
    )
    live = replace(table, id="b", status="live")
    tables = {"a": table, "b": live}
    (wait,) = describe_waits(SIMPLE, replace(state(30), incarnations=tables))
    assert wait.startswith("shop.a has had no schema for 29 minutes: ")


def test_partitions_without_a_watermark_are_named() -> None:
    assert describe_waits(SIMPLE, state(1)) == []
    assert describe_waits(SIMPLE, state(1, silent=1)) == ["waiting for the first watermark of t-2"]


def test_a_folder_has_no_partitions_and_states_its_schemas_in_files() -> None:
    folder = changefeed_from_uri("file:///data?protocol=csv")
    unknown = UnknownTable("shop", "orders", 7, stopped_ts=at(0), stopped_snapshot_id=0)
    assert describe_waits(folder, replace(state(60), unknown_tables=[unknown])) == []
