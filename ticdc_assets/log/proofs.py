"""The newest verifications of every table, read from the lake without its older ones.

A proof is a verification that found a table equal to the one upstream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.log.verifications import Verdict
from ticdc_assets.store.reader import LakeReader

NIGHT = timedelta(days=1)
_COLUMNS = (
    *("incarnation", "verified_at", "resolved_ts", "verdict", "reason", "different_rows"),
    *("complete", "left_out", "lake_rows", "rows_summed", "rows_sent", "duration_ms"),
)


@dataclass(frozen=True)
class Verified:
    """What one verification found of a table."""

    at: datetime
    ts: int
    verdict: Verdict
    reason: str | None = None
    different_rows: int = 0
    complete: bool = True
    left_out: tuple[str, ...] = ()
    rows: int | None = None


@dataclass(frozen=True)
class TableProof:
    """The newest verification of a table, the newest that compared it, and the newest proof."""

    newest: Verified | None = None
    compared: Verified | None = None
    equal: Verified | None = None


@dataclass(frozen=True)
class NightCost:
    """What the verifications of one night cost the database."""

    at: datetime
    tables: int
    rows_read: int
    rows_sent: int
    seconds: float


@dataclass(frozen=True)
class Proofs:
    """The newest verifications of a lake's tables by incarnation, and what the last night cost."""

    tables: Mapping[str, TableProof] = field(default_factory=dict)
    last_night: NightCost | None = None

    def of(self, incarnation: str | None) -> TableProof:
        return self.tables.get(incarnation or "", TableProof())


def count_nights(since: datetime, until: datetime) -> int:
    """Count the nights between two times: what is less than half a day apart is of one night."""
    return max(0, round((until - since) / NIGHT))


def read_proofs(reader: LakeReader) -> Proofs:
    """Read them; a lake that was never verified has none.

    All rows are read, but only the newest of each table become Python objects.
    """
    opened = reader.find("verifications")
    if opened is None:
        return Proofs()
    # Lakes of before copies were compared have no such column.
    knows_copies = any(column.name == "against" for column in opened.schema().fields)
    of_upstream = pc.field("against").is_null() if knows_copies else None
    rows = reader.read(opened, _COLUMNS, of_upstream).sort_by("verified_at")
    if not rows.num_rows:
        return Proofs()
    newest = _choose_newest(rows)
    compared = _choose_newest(rows.filter(pc.field("verdict") != "skipped"))
    equal = _choose_newest(rows.filter(pc.field("verdict") == "equal"))
    tables = {
        id: TableProof(found, compared.get(id), equal.get(id)) for id, found in newest.items()
    }
    return Proofs(tables, _sum_last_night(rows))


def _choose_newest(rows: pa.Table) -> dict[str, Verified]:
    """Return the last row of every incarnation."""
    numbered = rows.append_column("number", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by("incarnation").aggregate([("number", "max")])["number_max"]
    return {
        row["incarnation"]: Verified(
            at=row["verified_at"],
            ts=row["resolved_ts"],
            verdict=row["verdict"],
            reason=row["reason"],
            different_rows=row["different_rows"],
            complete=row["complete"],
            left_out=tuple(row["left_out"]),
            rows=row["lake_rows"],
        )
        for row in rows.take(last).to_pylist()
    }


def _sum_last_night(rows: pa.Table) -> NightCost:
    at: datetime = pc.max(rows["verified_at"]).as_py()
    night = rows.filter(pc.field("verified_at") > pa.scalar(at - NIGHT / 2))
    read, sent, duration = (
        pc.sum(night[name]).as_py() for name in ("rows_summed", "rows_sent", "duration_ms")
    )
    return NightCost(at, night.num_rows, read, sent, duration / 1000)
