"""Rows that were decoded and cannot be applied: the quarantine keeps them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ticdc_assets.lake.apply.table_outcome import TableOutcome
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import QUARANTINE
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import can_hold
from ticdc_assets.store.sql import quote_literal
from ticdc_assets.store.writer import LakeWriter

_NAMES = arrow_schema(QUARANTINE).names
# What tells whether a row of the quarantine is known, or replaced.
_PLACE = ["stage", "seq", "index", "commit_ts", "database", "table"]


def write_quarantined_rows(
    lake: LakeSession, outcomes: Sequence[TableOutcome], replayed: "Replayed | None"
) -> None:
    """Write the quarantined rows of a window, each once.

    A replay from a ts on also removes those of its tables that are not quarantined any more.

    The commit has no transaction id: a killed run may have written rows for the same snapshot,
    and fewer than now.
    """
    found = [_complete(rows) for outcome in outcomes for rows in outcome.quarantined]
    if not found and replayed is None:
        return
    reader = LakeReader(lake.location)
    stored = reader.open("quarantine")
    replaced = replayed and _find_replaced(reader, stored, replayed)
    if not found and replaced is None:
        return
    rows = pa.concat_tables(found) if found else arrow_schema(QUARANTINE).empty_table()
    if can_hold(reader, stored):
        _write_here(reader, stored, rows, replaced)
    else:
        _write_many(lake, rows, replaced)


class LifeOfName(NamedTuple):
    """A name under which a table gets rows, and the time in which the table is there."""

    database: str
    table: str
    created_ts: int
    # None: to this day.
    dropped_ts: int | None

    def has(self, row: Mapping[str, Any]) -> bool:
        ts = row["commit_ts"]
        is_then = self.created_ts <= ts and (self.dropped_ts is None or ts <= self.dropped_ts)
        return is_then and (row["database"], row["table"]) == (self.database, self.table)

    @property
    def sql(self) -> str:
        named = (
            f"database = {quote_literal(self.database)} AND `table` = {quote_literal(self.table)}"
        )
        dropped = "" if self.dropped_ts is None else f" AND commit_ts <= {self.dropped_ts}"
        return f"({named} AND commit_ts >= {self.created_ts}{dropped})"


class Replayed(NamedTuple):
    """The rows that a replay of tables from a ts on replaces: those of their lives.

    Another table that had a name before, or has it since, keeps its own.
    """

    lives: frozenset[LifeOfName]
    after_ts: int

    def has(self, row: Mapping[str, Any]) -> bool:
        is_later = row["stage"] == "apply" and (row["commit_ts"] or 0) > self.after_ts
        return is_later and any(life.has(row) for life in self.lives)

    @property
    def sql(self) -> str:
        of_tables = " OR ".join(life.sql for life in sorted(self.lives, key=str))
        return f"stage = 'apply' AND commit_ts > {self.after_ts} AND ({of_tables})"


def _complete(rows: pa.Table) -> pa.Table:
    """Return the events that the engine left out as rows of the quarantine."""
    stage = pa.repeat(pa.scalar("apply", pa.string()), rows.num_rows)
    return rows.append_column("stage", stage).select(_NAMES)


def _write_here(
    reader: LakeReader, stored: DeltaTable, new: pa.Table, replaced: Replayed | None
) -> None:
    present = reader.read(stored, _NAMES)
    places = present.select(_PLACE).to_pylist()
    goes = [replaced is not None and replaced.has(row) for row in places]
    # A replay quarantines the same rows again.
    known = {
        (row["seq"], row["index"])
        for row, is_gone in zip(places, goes, strict=True)
        if row["stage"] == "apply" and not is_gone
    }
    new = new.cast(arrow_schema(QUARANTINE))
    numbers = zip(new["seq"].to_pylist(), new["index"].to_pylist(), strict=True)
    new = new.filter(pa.array([number not in known for number in numbers], pa.bool_()))
    writer = LakeWriter(reader.location)
    if any(goes):
        kept = present.filter(pa.array([not is_gone for is_gone in goes]))
        writer.rewrite(stored, pa.concat_tables([kept, new]))
    elif new.num_rows:
        writer.append(stored, new)


def _write_many(lake: LakeSession, rows: pa.Table, replaced: Replayed | None) -> None:
    stored = lake.read("quarantine")
    known = stored.where("stage = 'apply'" + (f" AND NOT ({replaced.sql})" if replaced else ""))
    found = lake.make_frame(rows, stored.schema)
    new = found.join(known.select("seq", "index"), ["seq", "index"], "left_anti").select(*_NAMES)
    writer = new.coalesce(1).write.format("delta")
    if replaced is None:
        writer.mode("append").save(lake.path("quarantine"))
    else:
        writer = writer.mode("overwrite").option("replaceWhere", replaced.sql)
        writer.save(lake.path("quarantine"))


def _find_replaced(reader: LakeReader, stored: DeltaTable, replayed: Replayed) -> Replayed | None:
    """Find the quarantined rows that a replay replaces, if there are any."""
    where = (pc.field("stage") == "apply") & (pc.field("commit_ts") > replayed.after_ts)
    rows = reader.read(stored, ["database", "table", "commit_ts"], where).to_pylist()
    lives = frozenset(life for life in replayed.lives if any(map(life.has, rows)))
    return Replayed(lives, replayed.after_ts) if lives else None
