"""A simulated changefeed: a small database, and its changes written byte for byte as TiCDC does.

Rules of this package: the upstream computes its truth with its own arithmetic, so that tests can
use it as an oracle; the formats are those of the new-architecture server; the same options give the
same bytes, but for a database on TiDB, which has a clock of its own.

    simulation = simulate(folder, SimulationOptions(protocol="csv", transactions=2000))
    for step in prepare(folder, SimulationOptions(rate=10.0)): ...  # a consistent prefix per step
    simulation.truth(simulation.checkpoints[3])
"""

from ticdc_assets.demo.change import encode_truth
from ticdc_assets.demo.declaration import TOPIC
from ticdc_assets.demo.simulation import (
    FULL_CSV,
    Simulation,
    SimulationOptions,
    SimulationStep,
    check_is_new,
    prepare,
    simulate,
)

__all__ = [
    "FULL_CSV",
    "TOPIC",
    "Simulation",
    "SimulationOptions",
    "SimulationStep",
    "check_is_new",
    "encode_truth",
    "prepare",
    "simulate",
]
