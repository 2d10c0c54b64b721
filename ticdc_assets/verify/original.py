"""What a copy is compared with, at one ts: the lake, or the database upstream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.verify.canonical import ComparedColumn
from ticdc_assets.verify.columns import NotComparable
from ticdc_assets.verify.lake_rows import LakeRows
from ticdc_assets.verify.side import Comparison, UnitSide
from ticdc_assets.views.asof import AsOfView


class OriginalTable(Protocol):
    """A table that a copy should equal, before it is known what is compared."""

    @property
    def schema(self) -> TableSchema:
        """Its columns and key, as the privacy of the changefeed leaves them."""

    def count(self) -> int:
        """Return about how many rows it has."""

    def read_as(self, column: Column, type: ColumnType, alias: str) -> Any:
        """Choose how a column is read as a type; raise `Incomparable` if it cannot be."""

    def open(self, comparison: Comparison, read: Mapping[ComparedColumn, Any]) -> UnitSide:
        """Open the rows; `read` has what `read_as` has chosen."""


class Original(Protocol):
    """The tables that a copy should equal."""

    @property
    def ts(self) -> int:
        """As of which ts they are compared."""

    @property
    def cause(self) -> str:
        """Say of a row that differs what tells more."""

    def open(self, table: Incarnation, *, by_server: bool) -> OriginalTable | None:
        """Open a table; None if it has none of this name.

        `by_server` is whether the server of the copy writes the texts that are compared.  Raise
        `NotComparable`, or `TableUnreadable`, if it cannot be read.
        """

    def explain(self, table: Incarnation) -> str | None:
        """Say why a table may differ although the copy is right, if there is a reason."""


@dataclass(frozen=True)
class LakeOriginal:
    """The current tables of the lake."""

    view: AsOfView
    cause = "`why` shows how the lake came to have its row"

    @property
    def ts(self) -> int:
        return self.view.ts

    def open(self, table: Incarnation, *, by_server: bool) -> LakeRows:
        if table.is_stopped:
            at = describe_ts(self.ts)
            raise NotComparable(f"it is {table.status}, so the lake lacks rows of {at}")
        return LakeRows(self.view, table)

    def explain(self, table: Incarnation) -> None:
        return None
