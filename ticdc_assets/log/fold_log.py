"""State folds, under the run lock: a row for each step."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ticdc_assets.log.folds import TABLE, Fold, FoldedRows, Step
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.store.arrow import arrow_schema, make_table
from ticdc_assets.store.contracts import FOLDS
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stage_commits import StageMark, commit_rows
from ticdc_assets.store.writer import LakeWriter


def state_choice(lake: LakeSession, snapshot: Snapshot) -> None:
    """State that the rows of a snapshot are kept, so that a later fold can begin with them."""
    _append(lake, "chosen", (snapshot.snapshot_id, snapshot.ts), (None,) * 3, ())


def state_fold(
    lake: LakeSession, fold: Fold, counts: Iterable[FoldedRows], step: Step = "folded"
) -> None:
    """State a fold, or how far it has got."""
    covered = fold.through_ts, fold.batch, fold.applied_batch
    _append(lake, step, (fold.snapshot_id, fold.ts), covered, [each._asdict() for each in counts])


# Parameters: one per group of columns of `folds`.
def _append(
    lake: LakeSession,
    step: Step,
    place: tuple[int, int],
    covered: Sequence[int | None],
    counts: Sequence[Mapping[str, Any]],
) -> None:
    LakeWriter(lake.location).create(TABLE, arrow_schema(FOLDS), {})
    reader = LakeReader(lake.location)
    id = reader.max_of(reader.open(TABLE), "id") + 1
    row = (id, step, *place, datetime.now(UTC), *covered, list(counts))
    check_lock(lake.location)
    commit_rows(lake, TABLE, make_table(FOLDS, [row]), StageMark("fold", id))
