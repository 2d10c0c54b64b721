"""How old a table's proof is: as a state and in words, of all that verifications found."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from ticdc_assets.events.tso_text import from_datetime
from ticdc_assets.log.proofs import (
    NightCost,
    Proofs,
    TableProof,
    Verified,
    count_nights,
    read_proofs,
)
from ticdc_assets.log.verifications import Results, TableVerification
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.proofs import ProvenTable

NOW = datetime(2026, 11, 28, 1, 30, tzinfo=UTC)
VERDICTS = ("equal", "differs", "skipped")


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def test_the_newest_of_each_kind_is_read_and_the_cost_of_the_last_night(tmp_path: Path) -> None:
    random, lake = Random(7), Lake(str(tmp_path), "f")
    assert read_proofs(LakeReader(lake)) == Proofs()
    results = Results(lake)
    results.prepare()
    assert read_proofs(LakeReader(lake)) == Proofs()
    added = []
    for number in range(30):
        days = 0.3 * random.random() if number < 5 else 1 + 80 * random.random()
        found = TableVerification(
            run=f"r{number}",
            incarnation=f"t{random.randrange(9)}",
            database="d",
            table="t",
            resolved_ts=number,
            verdict=random.choice(VERDICTS),  # type: ignore[arg-type]
            rows_summed=random.randrange(1000),
            rows_sent=random.randrange(10),
            seconds=2.5,
            left_out=("c",) * random.randrange(2),
            verified_at=ago(days),
        )
        results.add(found)
        added.append(found)
        # A comparison with a copy says nothing of upstream.
        results.add(replace(found, run=f"c{number}", verdict="equal", against="parquet:/old"))
    proofs = read_proofs(LakeReader(lake))

    def newest(id: str, *verdicts: str) -> tuple[datetime, int] | None:
        chosen = [f for f in added if f.incarnation == id and f.verdict in verdicts]
        last = max(chosen, key=lambda each: each.verified_at, default=None)
        return None if last is None else (last.verified_at, last.resolved_ts)

    def read(found: Verified | None) -> tuple[datetime, int] | None:
        return None if found is None else (found.at, found.ts)

    assert set(proofs.tables) == {found.incarnation for found in added}
    for id, proof in proofs.tables.items():
        assert read(proof.newest) == newest(id, *VERDICTS)
        assert read(proof.compared) == newest(id, "equal", "differs")
        assert read(proof.equal) == newest(id, "equal")
    night = added[:5]
    assert proofs.last_night == NightCost(
        max(found.verified_at for found in night),
        5,
        sum(found.rows_summed for found in night),
        sum(found.rows_sent for found in night),
        12.5,
    )


def test_nights_are_counted_whenever_their_runs_begin_and_end() -> None:
    hours = {0: 0, 11: 0, 13: 1, 24: 1, 35: 1, 37: 2, 24 * 7 - 11: 7, 24 * 7 + 11: 7}
    found = {hour: count_nights(NOW, NOW + timedelta(hours=hour)) for hour in hours}
    assert found == hours


def verified(verdict: str, days: float, *, stood: float = 0.0, **more: object) -> Verified:
    at = ago(days)
    ts = from_datetime(at - timedelta(days=stood))
    return Verified(at, ts, verdict, **more)  # type: ignore[arg-type]


EQUAL = verified("equal", 3)
DIFFERS = verified("differs", 2, different_rows=12)
SKIPPED = verified("skipped", 1, reason="no right")
AT = "equal to TiDB at 2026-11-25 01:30:00 UTC"


@pytest.mark.parametrize(
    ("found", "created", "state", "is_late", "text"),
    [
        ([EQUAL], 90, "proven", False, f"{AT}, 3 d ago"),
        (
            [verified("equal", 3, left_out=("v", "w"))],
            *(90, "proven", False, f"{AT}, but for v, w, 3 d ago"),
        ),
        (
            [verified("equal", 2, stood=30)],
            *(90, "proven", False),
            "equal to TiDB at 2026-10-27 01:30:00 UTC, compared 2 d ago",
        ),
        ([verified("equal", 7.4)], 90, "proven", False, None),
        ([verified("equal", 7.6)], 90, "old", True, None),
        (
            [EQUAL, DIFFERS],
            *(90, "differs", False),
            f"differed from TiDB at 2026-11-26 01:30:00 UTC, 2 d ago (12 rows); {AT}, 3 d ago",
        ),
        ([verified("equal", 20), DIFFERS], 90, "differs", True, None),
        ([DIFFERS], 3, "differs", False, None),
        (
            [DIFFERS, EQUAL, SKIPPED],
            *(90, "differs", False),
            "differed from TiDB at 2026-11-26 01:30:00 UTC, 2 d ago (12 rows);"
            f" {AT}, 3 d ago; skipped 24 h ago: no right",
        ),
        ([EQUAL, SKIPPED], 90, "proven", False, f"{AT}, 3 d ago; skipped 24 h ago: no right"),
        ([verified("equal", 8), SKIPPED], 90, "old", True, None),
        # No night can change that.
        ([SKIPPED], 90, "skipped", False, "skipped 24 h ago: no right"),
        ([], 3, "never", False, "not compared with TiDB yet"),
        ([], 90, "never", True, "not compared with TiDB yet"),
    ],
)
def test_a_proof_in_words(
    found: Sequence[Verified], created: float, state: str, is_late: bool, text: str | None
) -> None:
    def newest(*verdicts: str) -> Verified | None:
        chosen = (each for each in found if each.verdict in verdicts)
        return max(chosen, key=lambda each: each.at, default=None)

    proof = TableProof(newest(*VERDICTS), newest("equal", "differs"), newest("equal"))
    table = ProvenTable("d", "t", proof, from_datetime(ago(created)))
    judged = table.judge(7, NOW)
    assert (judged.state, judged.is_late) == (state, is_late)
    if text is not None:
        assert judged.text == text
    # Without a wish of the owner's, nothing is late.
    assert not table.judge(None, NOW).is_late


def test_rows_that_only_the_lake_keeps_are_named() -> None:
    table = ProvenTable("d", "t", TableProof(EQUAL, EQUAL, EQUAL), 1, is_archived=True)
    assert table.judge(7, NOW).text == f"{AT}, but for kept rows, 3 d ago"
