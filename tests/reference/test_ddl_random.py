"""Random workloads: what a naive upstream has in the end, the model has too, in every manner."""

from random import Random

import pytest

from tests.reference.changefeeds import MANNERS, Teller
from tests.reference.model_runs import played, tables
from tests.reference.random_upstream import World


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("seed", range(15))
def test_a_random_workload_ends_as_upstream(seed: int, manner: str) -> None:
    world = World(Random(seed))
    world.run()
    expected = world.states[len(world.steps)]
    events = Teller(manner).tell(world.steps)
    # In whichever order they arrive.
    for _ in range(2):
        model = played(events)
        assert [p.describe() for p in model.problems] == []
        assert {name: sorted(rows, key=str) for name, rows in tables(model).items()} == expected
        world.random.shuffle(events)
