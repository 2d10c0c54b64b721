"""A small shop's lake, made without Spark, as it is after each run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.demo import Simulation, SimulationOptions, encode_truth, prepare
from ticdc_assets.lake.advance import advance
from ticdc_assets.resources.reading import open_source
from ticdc_assets.store.lake import Lake, LakeSession


def _never() -> None:
    pytest.fail("Spark starts")


@dataclass
class Shop:
    """A simulated shop, and a lake of its changefeed."""

    simulation: Simulation
    root: Path
    feed: Changefeed

    def advance(self) -> Iterator[int]:
        """Bring the lake to each checkpoint, one after the other."""
        source = None
        for step in self.simulation:
            if step.transactions:
                source = source or open_source(self.feed)
                lake = LakeSession(_never, Lake(str(self.root), self.feed.id), self.feed)
                yield advance(lake, source).applied.resolved_ts

    def truth(self, ts: int) -> dict[str, list[bytes]]:
        """Return the rows of all tables at a ts, as `show` prints them."""
        tables = encode_truth(self.simulation.truth(ts))
        return {".".join(name): lines for name, lines in tables.items()}


def make_shop(folder: Path) -> Shop:
    """Simulate a shop, whose lake is empty yet."""
    options = SimulationOptions(transactions=89, flush_every=30)
    simulation = prepare(folder / "upstream", options)
    (feed,) = load_changefeeds(simulation.changefeeds).values()
    feed = replace(feed, history=("shop.orders",), changes=("shop.orders",))
    return Shop(simulation, folder / "lake", feed)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    made = make_shop(tmp_path_factory.mktemp("shop"))
    assert len(list(made.advance())) > 2
    return made
