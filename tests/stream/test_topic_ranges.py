"""What is read of topics: everything new, and an error for what has gone unread."""

import pytest

from tests.stream.ends import topic
from ticdc_assets.errors import LostRecords
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.topic_ranges import (
    OffsetRange,
    find_ranges,
    limit_ranges,
    require_same_topics,
)


def read(known: ReadOffsets, *offsets: int, partition: int = 0) -> None:
    for offset in offsets:
        known.read_up_to("t", partition, offset)
        assert known.add("t", partition, offset)


def again(known: ReadOffsets) -> ReadOffsets:
    return ReadOffsets(known.state(), known.topic_ids)


def test_a_partition_is_read_from_its_oldest_record_and_then_from_where_it_was_read() -> None:
    known = ReadOffsets()
    first = find_ranges(known, topic({0: (0, 3), 1: (7, 9), 2: (0, 0)}))
    assert first.ranges == [("t", 0, 0, 3), ("t", 1, 7, 9)]
    # A lake begins with what there is; what there was is stated all the same.
    assert [str(gap) for gap in first.gaps] == [
        "topic t, partition 1, offsets 0 to 6: the lake begins behind these records"
    ]
    read(known, 0, 1, 2)
    read(known, 7, partition=1)
    later = find_ranges(again(known), topic({0: (0, 5), 1: (8, 9), 2: (0, 6), 3: (0, 1)}))
    assert later == ([("t", 0, 3, 5), ("t", 1, 8, 9), ("t", 2, 0, 6), ("t", 3, 0, 1)], [])


def test_a_new_lake_begins_where_it_is_said_to_and_no_other() -> None:
    known = ReadOffsets()
    starts = {("t", 0): 2, ("t", 1): 0, ("t", 2): 9}
    there = topic({0: (0, 3), 1: (1, 4), 2: (0, 9), 3: (0, 1)})
    found = find_ranges(known, there, starts=starts)
    assert found.ranges == [("t", 0, 2, 3), ("t", 1, 1, 4), ("t", 3, 0, 1)]
    assert [gap.offsets for gap in found.gaps] == [(0, 1), (0, 0), (0, 8)]
    later = find_ranges(again(known), topic({2: (0, 10)}), starts={("t", 2): 10})
    assert later == ([("t", 2, 9, 10)], [])


def test_a_limit_shortens_every_partition_in_proportion() -> None:
    ranges = [OffsetRange("t", 0, 10, 110), OffsetRange("t", 1, 0, 10), OffsetRange("u", 0, 5, 6)]
    assert limit_ranges(ranges, 111) == ranges
    assert limit_ranges(ranges, 55) == [("t", 0, 10, 59), ("t", 1, 0, 4), ("u", 0, 5, 6)]
    assert limit_ranges(ranges, 1) == [("t", 0, 10, 11), ("t", 1, 0, 1), ("u", 0, 5, 6)]
    assert limit_ranges([], 1) == []


def test_offsets_without_a_record_are_no_gap() -> None:
    known = ReadOffsets()
    find_ranges(known, topic({0: (0, 9)}))
    read(known, 2, 5)
    known.read_up_to("t", 0, 9)
    assert known.state() == {"t-0": [[0, 8]]}
    assert find_ranges(again(known), topic({0: (6, 9)})) == ([], [])


@pytest.mark.parametrize(
    ("later", "id", "message", "ranges"),
    [
        ((6, 9), "a", "partition 0, offsets 3 to 5: the brokers removed these", [("t", 0, 6, 9)]),
        (
            *((0, 2), "a"),
            "partition 0, offsets 2 to 2: the partition ends before what was read of it: it was"
            " truncated, and records that were written below offset 2 since then are skipped",
            [],
        ),
        ((0, 9), "b", "partition 0: the topic was deleted and made again", [("t", 0, 0, 9)]),
        (None, "a", "partition 0: the topic was deleted", []),
    ],
)
def test_what_has_gone_unread_is_an_error_until_the_gap_is_accepted(
    later: tuple[int, int] | None, id: str, message: str, ranges: list[OffsetRange]
) -> None:
    known = ReadOffsets()
    find_ranges(known, topic({0: (0, 3)}))
    read(known, 0, 1, 2)
    there = {} if later is None else topic({0: later}, id)
    with pytest.raises(LostRecords) as raised:
        find_ranges(again(known), there)
    assert str(raised.value).startswith(f"topic t, {message}")
    assert "--accept-gap" in str(raised.value)

    accepting = again(known)
    accepted = find_ranges(accepting, there, accept_gaps=True)
    assert accepted.ranges == ranges
    assert [str(gap).startswith(f"topic t, {message}") for gap in accepted.gaps] == [True]
    # It is accepted once: the next run finds nothing wrong.
    for _, partition, start, end in ranges:
        read(accepting, *range(start, end), partition=partition)
    assert find_ranges(again(accepting), there).gaps == []


def test_records_removed_from_a_partition_that_was_empty_are_missed() -> None:
    known = ReadOffsets()
    find_ranges(known, topic({0: (0, 0)}))
    with pytest.raises(LostRecords, match="offsets 0 to 4"):
        find_ranges(again(known), topic({0: (5, 9)}))


def test_a_topic_that_is_another_one_after_it_was_read_is_an_error() -> None:
    known = ReadOffsets()
    find_ranges(known, topic({0: (0, 3)}))
    require_same_topics(known, {"t": "a", "other": "x"})
    with pytest.raises(LostRecords, match=r"^topic t: the topic was deleted and made again; to go"):
        require_same_topics(known, {"t": "b"})
    with pytest.raises(LostRecords, match=r"^topic t: the topic was deleted; to go"):
        require_same_topics(known, {})
