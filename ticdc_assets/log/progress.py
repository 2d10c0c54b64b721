"""What a comparison has done, until it ends: one that was killed continues from it."""

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from ticdc_assets.events.written import read_json
from ticdc_assets.store.arrow import make_table
from ticdc_assets.store.contracts import VERIFICATION_PROGRESS
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter

_Run = TypeVar("_Run", bound=msgspec.Struct)
_Table = TypeVar("_Table", bound=msgspec.Struct)
# Where the run is, which is of no incarnation.
_OF_RUN = ""


class Progress(Generic[_Run, _Table]):
    """A table of the lake with a run and the tables that it is comparing; each has its struct."""

    def __init__(self, location: Lake, name: str, run: type[_Run], table: type[_Table]) -> None:
        self._reader = LakeReader(location)
        self._writer = LakeWriter(location)
        self._name, self._run, self._table = name, run, table

    def read(self) -> tuple[_Run | None, dict[str, _Table]]:
        """Read what a run that was killed had done."""
        opened = self._reader.find(self._name)
        if opened is None:
            return None, {}
        rows = self._reader.read(opened, ["incarnation", "state"]).to_pylist()
        states = {row["incarnation"]: row["state"] for row in rows}
        run = states.pop(_OF_RUN, None)
        tables = {id: read_json(state, self._table) for id, state in states.items()}
        return (None if run is None else read_json(run, self._run)), tables

    def keep(self, run: _Run, tables: Mapping[str, _Table]) -> None:
        """Replace the progress."""
        self._replace({_OF_RUN: run, **tables})

    def end(self) -> None:
        """Forget the progress of a run that has ended."""
        self._replace({})

    def _replace(self, states: Mapping[str, msgspec.Struct]) -> None:
        rows = [(id, msgspec.json.encode(state).decode()) for id, state in states.items()]
        self._writer.replace(self._name, make_table(VERIFICATION_PROGRESS, rows))
