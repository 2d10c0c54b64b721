"""What an invariant is: a promise, and the function that returns what breaks it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame, Row

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.plan.state import Incarnation

Layer = Literal["raw", "events", "quarantine", "checkpoints"]
Severity = Literal["ERROR", "WARN"]


@dataclass(frozen=True)
class NotEvaluated:
    """Why the window does not tell whether a promise was kept."""

    reason: str


@dataclass(frozen=True)
class Violations:
    """What breaks a promise, where the driver has found it out: no Spark job is run for it."""

    columns: tuple[str, ...]
    lines: Sequence[tuple[object, ...]] = ()

    def collect(self) -> list[Row]:
        return [Row(*self.columns)(*line) for line in self.lines]

    def count(self) -> int:
        return len(self.lines)


# What breaks a promise, one line each; a frame where there may be many.
Found = DataFrame | Violations
Find = Callable[[CheckContext], Found]
# Of several tables at once, by incarnation: what they have in common is then one Spark job.
FindOfTables = Callable[[CheckContext, Sequence[Incarnation]], Mapping[str, Found | NotEvaluated]]
HoldsFor = Callable[[Changefeed], bool]


@dataclass(frozen=True)
class Invariant:
    """A promise about a whole layer; what it says of a changefeed depends on its settings."""

    name: str
    promise: str
    layer: Layer
    severity: Severity
    blocking: bool
    holds_for: HoldsFor
    find: Find


@dataclass(frozen=True)
class TableInvariant:
    """A promise about one current table."""

    name: str
    promise: str
    severity: Severity
    blocking: bool
    find: FindOfTables


def _always(feed: Changefeed) -> bool:
    return True


def promise(
    layer: Layer, severity: Severity, *, blocking: bool = False, of: HoldsFor = _always
) -> Callable[[Find], Invariant]:
    """Make an invariant of a function: its name is the check's, its docstring the promise."""

    def make(find: Find) -> Invariant:
        return Invariant(find.__name__, _promise(find), layer, severity, blocking, of, find)

    return make


def promise_of_tables(
    severity: Severity, *, blocking: bool = False
) -> Callable[[FindOfTables], TableInvariant]:
    """Likewise for a promise about each current table."""

    def make(find: FindOfTables) -> TableInvariant:
        return TableInvariant(find.__name__, _promise(find), severity, blocking, find)

    return make


def _promise(find: Callable[..., object]) -> str:
    return inspect.getdoc(find) or ""
