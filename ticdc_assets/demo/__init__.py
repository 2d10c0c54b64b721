"""A simulated changefeed: a database at work, and its output written byte for byte as TiCDC would.

Rules of this room: the upstream computes its truth with its own arithmetic, so that it can be an
oracle; conventions are those of the new-architecture server; the same options give the same bytes.

    simulation = simulate(folder, Options(protocol="csv", transactions=2000))
    for step in prepare(folder, Options(rate=10.0)): ...   # a consistent prefix after each step
    simulation.truth(simulation.checkpoints[3])
"""

from ticdc_assets.demo.change import encode_truth
from ticdc_assets.demo.simulation import (
    FULL_CSV,
    Options,
    Simulation,
    SimulationStep,
    prepare,
    simulate,
)

__all__ = [
    "FULL_CSV",
    "Options",
    "Simulation",
    "SimulationStep",
    "encode_truth",
    "prepare",
    "simulate",
]
