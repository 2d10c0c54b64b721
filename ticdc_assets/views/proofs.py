"""How long ago each table was proven equal to the database upstream: as a state, and in words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.archive import find_kept_deletes
from ticdc_assets.events.duration import format_seconds
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.events.tso_text import format_time
from ticdc_assets.log.proofs import (
    NIGHT,
    NightCost,
    TableProof,
    Verified,
    count_nights,
    read_proofs,
)
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeNotFound, LakeReader

ProofState = Literal["proven", "old", "differs", "skipped", "never"]
_NEVER = "not compared with TiDB yet"


@dataclass(frozen=True)
class ProvenTable:
    """A table by its present name, and what verifications found of it."""

    database: str
    table: str
    proof: TableProof
    created_ts: int
    # Whether it keeps rows that upstream deletes: no verification compares these.
    is_archived: bool = False

    def judge(self, every_days: int | None, now: datetime) -> "JudgedProof":
        """Judge the newest proof by how often the owner wants one."""
        equal, newest = self.proof.equal, self.proof.newest
        since = equal.at if equal is not None else _find_moment(self.created_ts)
        is_old = every_days is not None and (since is None or count_nights(since, now) > every_days)
        # What cannot be compared has its own state and reason.
        is_late = is_old and (equal is not None or newest is None or newest.verdict == "differs")
        age = None if equal is None else max((now - equal.at).total_seconds(), 0.0)
        return JudgedProof(self._find_state(is_old), self._describe(now), age, is_late)

    def _find_state(self, is_old: bool) -> ProofState:
        if self.proof.compared is not None and self.proof.compared.verdict == "differs":
            return "differs"
        if self.proof.equal is not None:
            return "old" if is_old else "proven"
        return "never" if self.proof.newest is None else "skipped"

    def _describe(self, now: datetime) -> str:
        newest, compared, equal = self.proof.newest, self.proof.compared, self.proof.equal
        texts = []
        if compared is not None and compared.verdict == "differs":
            texts.append(_describe_difference(compared, now))
        if equal is not None:
            texts.append(self._describe_equality(equal, now))
        if newest is not None and newest.verdict == "skipped":
            texts.append(f"skipped {_format_age(newest.at, now)}: {newest.reason}")
        return "; ".join(texts) or _NEVER

    def _describe_equality(self, equal: Verified, now: datetime) -> str:
        left_out = list(equal.left_out) + (["kept rows"] if self.is_archived else [])
        but = f", but for {', '.join(left_out)}" if left_out else ""
        shown = f"equal to TiDB at {format_time(equal.ts)}{but}"
        moment = _find_moment(equal.ts)
        # A table that stands still is compared as it was when it stopped.
        stands = "" if moment is None or equal.at - moment < NIGHT else "compared "
        return f"{shown}, {stands}{_format_age(equal.at, now)}"


@dataclass(frozen=True)
class JudgedProof:
    """What to say of a table's newest proof."""

    state: ProofState
    text: str
    # How long ago the table was found equal; None if it never was.
    age_seconds: float | None
    # Whether it should have been proven since.
    is_late: bool


@dataclass(frozen=True)
class ProofSummary:
    """The proofs of a changefeed's tables at one moment."""

    every_days: int | None
    tables: int = 0
    by_state: Mapping[ProofState, int] = field(default_factory=dict)
    late: int = 0
    # The tables that were ever proven, by how long ago that was, the oldest proof first.
    ages: Sequence[tuple[float, str, str]] = ()
    last_night: NightCost | None = None


def read_proven_tables(
    lake: Lake, feed: Changefeed
) -> tuple[dict[str, ProvenTable], NightCost | None]:
    """Read the tables that have a name now, by incarnation, and what the last night cost."""
    reader = LakeReader(lake)
    columns = ("incarnation", "database", "table", "status", "created_ts")
    try:
        rows = reader.read(reader.open("tables"), columns).to_pylist()
    except LakeNotFound:
        return {}, None
    # Should two tables have one name, the younger one has it.
    rows.sort(key=lambda row: (row["created_ts"], row["incarnation"]))
    named = {
        (fold_name(row["database"]), fold_name(row["table"])): row
        for row in rows
        if row["status"] != "dropped" and row["table"]
    }
    proofs = read_proofs(reader)
    tables = {
        row["incarnation"]: ProvenTable(
            row["database"],
            row["table"],
            proofs.of(row["incarnation"]),
            row["created_ts"],
            bool(find_kept_deletes(feed.archives, row["database"], row["table"])),
        )
        for row in named.values()
    }
    return tables, proofs.last_night


def read_proof_summary(lake: Lake, feed: Changefeed, now: datetime | None = None) -> ProofSummary:
    """Read the proofs of a changefeed's tables, and sum them up."""
    now = now or datetime.now(UTC)
    days = None if feed.upstream is None else feed.upstream.prove_every_days
    tables, night = read_proven_tables(lake, feed)
    judged = {id: table.judge(days, now) for id, table in tables.items()}
    ages = [
        (judged[id].age_seconds or 0.0, table.database, table.table)
        for id, table in tables.items()
        if judged[id].age_seconds is not None
    ]
    return ProofSummary(
        days,
        len(tables),
        Counter(each.state for each in judged.values()),
        sum(each.is_late for each in judged.values()),
        sorted(ages, key=lambda each: (-each[0], *each[1:])),
        night,
    )


def _describe_difference(found: Verified, now: datetime) -> str:
    least = "" if found.complete else "at least "
    rows = f"{least}{found.different_rows:,} {'row' if found.different_rows == 1 else 'rows'}"
    what = found.reason or rows
    return f"differed from TiDB at {format_time(found.ts)}, {_format_age(found.at, now)} ({what})"


def _format_age(moment: datetime, now: datetime) -> str:
    return f"{format_seconds(max((now - moment).total_seconds(), 0.0))} ago"


def _find_moment(ts: int) -> datetime | None:
    try:
        return to_datetime(ts) if ts else None
    except OverflowError:
        return None
