"""A record is read once, and a wrong offset hides no other record."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.protocols.message import Message
from ticdc_assets.stream.offsets import _MAX_RANGES, ReadOffsets
from ticdc_assets.stream.reading import read_topic_events


@given(st.lists(st.integers(0, 40) | st.just(2**63 - 1)), st.integers(0, 40))
def test_every_offset_is_new_once(offsets: list[int], cut: int) -> None:
    seen, read = set[int](), ReadOffsets()
    for number, offset in enumerate(offsets):
        if number == cut:
            read = ReadOffsets(read.state())
        assert read.add("t", 0, offset) == (offset not in seen)
        seen.add(offset)
    ranges = read.state().get("t-0", [])
    assert {n for first, last in ranges for n in range(first, last + 1)} == seen
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ranges))


def test_partitions_and_topics_have_their_own_offsets() -> None:
    read = ReadOffsets()
    assert [read.add(*place, 7) for place in [("t", 0), ("t", 1), ("u", 0), ("t", 0)]] == [
        *(True, True, True),
        False,
    ]


def test_the_ranges_stay_few_and_only_the_lowest_gaps_are_forgotten() -> None:
    read = ReadOffsets()
    for offset in range(0, 10_000, 2):
        assert read.add("t", 0, offset)
    assert len(read.state()["t-0"]) == _MAX_RANGES
    assert read.add("t", 0, 9_999)
    assert read.add("t", 0, 9_997)
    assert not read.add("t", 0, 1)


def test_a_record_with_a_wrong_offset_hides_no_later_record() -> None:
    feed = changefeed_from_uri("dump:///d?protocol=open-protocol")
    offsets = [0, 2**63 - 1, 1, 2, 1]
    records = [Message("t", 0, offset, None, b"x", None) for offset in offsets]
    found = [event.position.offset for event in read_topic_events(feed, records, None)]
    assert found == [0, 2**63 - 1, 1, 2]


def test_the_epoch_of_the_last_record_is_kept_as_long_as_it_is_the_last_one() -> None:
    read = ReadOffsets()
    for offset, epoch in ((0, 2), (1, 4)):
        read.set_epoch("t", 0, offset, epoch)
        # A commit may come before the record is added.
        assert read.get_epoch("t", 0) is None
        assert read.add("t", 0, offset)
        assert read.get_epoch("t", 0) == epoch
        assert read.state() == {"t-0": [[0, offset, epoch]]}
        read = ReadOffsets(read.state())
    assert read.get_epoch("t", 0) == 4
    assert read.get_epoch("t", 1) is None
    # What follows may be the marker of a transaction, of an epoch that nobody knows.
    read.read_up_to("t", 0, 3)
    assert read.state() == {"t-0": [[0, 2]]}
    assert ReadOffsets(read.state()).get_epoch("t", 0) is None
