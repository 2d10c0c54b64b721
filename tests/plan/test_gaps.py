"""Records of topics that are gone: which tables are partial because of them, and for how long."""

from ticdc_assets.events import TableSchema
from ticdc_assets.plan.gaps import end_gap, mark_gaps
from ticdc_assets.plan.state import Gap, Incarnation, State


def state(*created: int) -> State:
    return State(
        incarnations={
            str(ts): Incarnation(id=str(ts), schema=TableSchema("d", f"t{ts}", ()), created_ts=ts)
            for ts in created
        }
    )


def partial(state: State) -> dict[int, str]:
    return {t.created_ts: t.partial_reason for t in state.incarnations.values() if t.partial_reason}


def test_a_gap_ends_at_the_first_watermark_behind_it_in_its_partition() -> None:
    gap = Gap("t", 1, 10, "gone")
    for place, seq in ((("t", 0), 11), (("u", 1), 11), (("t", 1), 9)):
        assert end_gap(gap, place, seq, 50) is gap
    ended = end_gap(gap, ("t", 1), 11, 50)
    assert ended.until == 51
    assert end_gap(ended, ("t", 1), 12, 60) is ended


def test_tables_created_behind_a_gap_lack_nothing() -> None:
    first, second = Gap("t", 0, 1, "one", until=20), Gap("t", 1, 2, "two", until=10)
    marked = mark_gaps(state(5, 15, 25), [first, second])
    assert partial(marked) == {5: "one; two", 15: "one"}
    assert marked.gaps == [first, second]
    # As often as it is done.
    assert mark_gaps(marked, marked.gaps) == marked


def test_until_its_partition_sends_a_watermark_a_gap_concerns_every_table() -> None:
    gap = Gap("t", 0, 1, "one")
    assert partial(mark_gaps(state(5, 1 << 60), [gap])) == {5: "one", 1 << 60: "one"}
    assert mark_gaps(state(5), []) == state(5)
