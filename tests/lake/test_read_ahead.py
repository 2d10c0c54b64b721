"""Items are made one ahead of the caller, in order, and the source is always closed."""

import threading
from collections.abc import Generator
from contextlib import closing

import pytest

from ticdc_assets.load.read_ahead import read_ahead


class Maker:
    """Makes numbers, and says how far it is."""

    def __init__(self, count: int, *, fails: bool = False) -> None:
        self.count = count
        self.fails = fails
        self.made = [threading.Event() for _ in range(count)]
        self.is_closed = False

    def make(self) -> Generator[int]:
        try:
            for number in range(self.count):
                self.made[number].set()
                yield number
            if self.fails:
                raise OSError("lost")
        finally:
            self.is_closed = True


@pytest.mark.parametrize("count", [0, 1, 5])
def test_all_items_come_in_order(count: int) -> None:
    maker = Maker(count)
    assert list(read_ahead(maker.make())) == list(range(count))
    assert maker.is_closed


def test_one_item_more_is_made_than_the_caller_has() -> None:
    maker = Maker(3)
    with closing(read_ahead(maker.make())) as items:
        assert next(items) == 0
        assert maker.made[1].wait(10)
        assert not maker.made[2].wait(0.05)
    assert maker.is_closed


def test_an_error_comes_behind_the_items_before_it() -> None:
    items = read_ahead(Maker(2, fails=True).make())
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(OSError, match="lost"):
        next(items)


def test_a_caller_that_fails_hears_its_own_error_alone() -> None:
    maker = Maker(1, fails=True)

    def fail() -> None:
        with closing(read_ahead(maker.make())) as items:
            raise ZeroDivisionError(next(items))

    with pytest.raises(ZeroDivisionError):
        fail()
    assert maker.is_closed
