"""Define an invariant: a promise, and the function that returns what violates it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.queries import KnownRows
from ticdc_assets.plan.state import Incarnation

Layer = Literal["raw", "events", "quarantine", "checkpoints"]
Severity = Literal["ERROR", "WARN"]


@dataclass(frozen=True)
class NotEvaluated:
    """Why the checked range does not show whether a promise was kept."""

    reason: str


# One row per violation; a DataFrame where there may be many.
Result = DataFrame | KnownRows
Find = Callable[[CheckContext], Result]
# Evaluates several tables at once, by incarnation, so that they can share a Spark job.
FindPerTable = Callable[[CheckContext, Sequence[Incarnation]], Mapping[str, Result | NotEvaluated]]
AppliesTo = Callable[[Changefeed], bool]


@dataclass(frozen=True)
class Invariant:
    """A promise about a whole layer; `applies_to` selects changefeeds by their settings."""

    name: str
    promise: str
    layer: Layer
    severity: Severity
    blocking: bool
    applies_to: AppliesTo
    find: Find


@dataclass(frozen=True)
class TableInvariant:
    """A promise about one current table; `applies_to` selects changefeeds by their settings."""

    name: str
    promise: str
    severity: Severity
    blocking: bool
    applies_to: AppliesTo
    find: FindPerTable


def _every_changefeed(feed: Changefeed) -> bool:
    return True


def promise(
    layer: Layer,
    severity: Severity,
    *,
    blocking: bool = False,
    applies_to: AppliesTo = _every_changefeed,
) -> Callable[[Find], Invariant]:
    """Make an invariant from a function: its name is the check's, its docstring the promise."""

    def make(find: Find) -> Invariant:
        return Invariant(
            find.__name__, _read_promise(find), layer, severity, blocking, applies_to, find
        )

    return make


def promise_per_table(
    severity: Severity, *, blocking: bool = False, applies_to: AppliesTo = _every_changefeed
) -> Callable[[FindPerTable], TableInvariant]:
    """Make an invariant of every current table from a function, as `promise` does."""

    def make(find: FindPerTable) -> TableInvariant:
        text = _read_promise(find)
        return TableInvariant(find.__name__, text, severity, blocking, applies_to, find)

    return make


def _read_promise(find: Callable[..., object]) -> str:
    return inspect.getdoc(find) or ""
