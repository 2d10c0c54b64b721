"""What a comparison with a copy has done, until it ends: one that was killed continues from it."""

from collections.abc import Sequence

import msgspec

from ticdc_assets.events.written import read_json
from ticdc_assets.store.arrow import make_table
from ticdc_assets.store.contracts import VERIFICATION_PROGRESS
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter

_TABLE = "copy_progress"


class CopyRun(msgspec.Struct):
    """A run that has not ended: what it compares with what."""

    run: str
    against: str
    ts: int
    tables: list[str]
    # Which of `SLICES` ranges of hashes are compared; None for all.
    slices: list[int] | None
    # The templates of the names of the copy's tables.
    names: list[str] = []


class SideProgress(msgspec.Struct):
    """The units of one side that are summed up, and their sums by range."""

    state: str | None = None
    units: int = 0
    # The first hash, the rows, and the sum as a decimal text: JSON has no integers of this size.
    sums: list[tuple[int, int, str]] = []


class CopyTableProgress(msgspec.Struct):
    """A table that is being compared."""

    parts: int
    ours: SideProgress
    theirs: SideProgress


class CopyProgress:
    """The table `copy_progress` of a lake."""

    def __init__(self, location: Lake) -> None:
        self._reader = LakeReader(location)
        self._writer = LakeWriter(location)

    def read(self) -> tuple[CopyRun | None, dict[str, CopyTableProgress]]:
        """Read what a run that was killed had done."""
        table = self._writer.find(_TABLE)
        if table is None:
            return None, {}
        rows = self._reader.read(table, ["incarnation", "state"]).to_pylist()
        states = {row["incarnation"]: row["state"] for row in rows}
        run = states.pop("", None)
        tables = {id: read_json(state, CopyTableProgress) for id, state in states.items()}
        return (None if run is None else read_json(run, CopyRun)), tables

    def keep(self, run: CopyRun, id: str | None, table: CopyTableProgress | None) -> None:
        """Replace the progress by that of a run and the table that it compares now."""
        rows = [("", msgspec.json.encode(run).decode())]
        if id is not None and table is not None:
            rows.append((id, msgspec.json.encode(table).decode()))
        self._replace(rows)

    def end(self) -> None:
        """Forget the progress of a run that has ended."""
        self._replace(())

    def _replace(self, rows: Sequence[tuple[str, str]]) -> None:
        self._writer.replace(_TABLE, make_table(VERIFICATION_PROGRESS, rows))
