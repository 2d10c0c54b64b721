"""The proofs of tables as `status` and `tables` print them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.cli import records, texts
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.duration import format_seconds
from ticdc_assets.resources.patience import PatientCaller
from ticdc_assets.store.lake import Lake
from ticdc_assets.views.proofs import (
    ProofSummary,
    ProvenTable,
    read_proof_summary,
    read_proven_tables,
)

_HEAD = ("changefeed", "proven", "old", "differ", "skipped", "never", "oldest proof", "last night")
_NUMBERS = frozenset(range(1, 6))


def read_summaries(
    feeds: Iterable[Changefeed], root: str, caller: PatientCaller
) -> dict[str, ProofSummary]:
    """Read the proofs of the changefeeds that declare a database; no error is raised."""
    calls = {
        ("proofs", feed.id): partial(read_proof_summary, Lake(root, feed.id), feed)
        for feed in feeds
        if feed.upstream is not None
    }
    found = caller.call_all(calls)
    return {id: each for (_, id), each in found.items() if not isinstance(each, ConfigError)}


def make_summary(found: ProofSummary | None) -> records.Proofs | None:
    """Make the record of a changefeed's proofs."""
    if found is None:
        return None
    states, night = found.by_state, found.last_night
    return records.Proofs(
        every_days=found.every_days,
        tables=found.tables,
        proven=states.get("proven", 0),
        old=states.get("old", 0),
        differs=states.get("differs", 0),
        skipped=states.get("skipped", 0),
        never=states.get("never", 0),
        late=found.late,
        oldest_seconds=round(found.ages[0][0], 1) if found.ages else None,
        verified_at=None if night is None else night.at,
        verified_tables=0 if night is None else night.tables,
        rows_read=0 if night is None else night.rows_read,
        rows_sent=0 if night is None else night.rows_sent,
        seconds=0.0 if night is None else night.seconds,
    )


def format_summaries(found: Iterable[records.Status]) -> list[str]:
    """Format the proofs of changefeeds in aligned columns; nothing if none declares a database."""
    rows = [list(_HEAD)]
    for record in found:
        if (proofs := record.proofs) is None:
            continue
        numbers = (proofs.proven, proofs.old, proofs.differs, proofs.skipped, proofs.never)
        oldest = "" if proofs.oldest_seconds is None else _format_age(proofs.oldest_seconds)
        counts = [f"{number:,}" for number in numbers]
        rows.append([record.changefeed, *counts, oldest, _format_night(proofs)])
    return texts.align_columns(rows, _NUMBERS) if len(rows) > 1 else []


def _format_night(proofs: records.Proofs) -> str:
    if proofs.verified_at is None:
        return ""
    tables = texts.format_count(proofs.verified_tables, "table")
    ago = _format_age((datetime.now(UTC) - proofs.verified_at).total_seconds())
    rows = f"{texts.format_count(proofs.rows_read, 'row')} read upstream, {proofs.rows_sent:,} sent"
    return f"{tables} {ago}: {rows}, {format_seconds(proofs.seconds)}"


def _format_age(seconds: float) -> str:
    return f"{format_seconds(max(seconds, 0.0))} ago"


def list_needs(record: records.Status, command: str) -> Iterator[str]:
    """Say what of a changefeed's proofs needs a person."""
    proofs = record.proofs
    if proofs is None:
        return
    if proofs.differs:
        tables = texts.format_count(proofs.differs, "table")
        yield f"differs: {record.changefeed}: {tables}, compared with TiDB: see {command}"
    if proofs.late:
        tables = texts.format_count(proofs.late, "table")
        days = texts.format_count(proofs.every_days or 0, "day")
        wanted = f"not proven equal to TiDB in the last {days}"
        yield f"proofs: {record.changefeed}: {tables} {wanted}: see {command}"


def read_table_proofs(lake: Lake, feed: Changefeed) -> Mapping[str, records.Proof]:
    """Read the proofs of a changefeed's tables by incarnation; none without a database."""
    if feed.upstream is None:
        return {}
    tables, _ = read_proven_tables(lake, feed)
    days, now = feed.upstream.prove_every_days, datetime.now(UTC)
    return {id: _make_proof(table, days, now) for id, table in tables.items()}


def _make_proof(table: ProvenTable, days: int | None, now: datetime) -> records.Proof:
    judged, equal = table.judge(days, now), table.proof.equal
    return records.Proof(
        state=judged.state,
        text=judged.text,
        proof_ts=None if equal is None else equal.ts,
        proof_at=None if equal is None else records.find_time(equal.ts),
        age_seconds=None if judged.age_seconds is None else round(judged.age_seconds, 1),
        is_late=judged.is_late,
    )
