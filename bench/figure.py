"""What a benchmark returns: one figure beside its baseline, both measured in the same run."""

import os
from dataclasses import dataclass, field

from bench.processes import Usage


def read_load() -> str:
    """Return the load averages of the last 1, 5 and 15 minutes."""
    return " ".join(f"{load:.2f}" for load in os.getloadavg())


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure and its baseline, in the same unit: seconds, or work per second, of a core or all.

    `jobs` are Spark jobs; None if no Spark, or one in another process, did the work.
    """

    group: str
    name: str
    value: float
    unit: str
    baseline_name: str
    baseline: float
    usage: Usage
    jobs: int | None = None
    load: str = field(default_factory=read_load)

    @property
    def ratio(self) -> float:
        """How many times as long as the baseline the same work takes."""
        if "/" in self.unit:
            return self.baseline / self.value
        return self.value / self.baseline
