"""The check that a current table was proven equal to the one upstream as often as wanted."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.specs import PROOF_IS_RECENT
from ticdc_assets.naming import table_asset_key
from ticdc_assets.safe_text import escape_markdown
from ticdc_assets.store.lake import Lake
from ticdc_assets.views.proofs import ProvenTable, read_proven_tables

_MOST_CHARACTERS = 2000


def evaluate_proofs(
    feed: Changefeed, lake: Lake, now: datetime | None = None
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluate the newest proof of every table; nothing where the owner wants none."""
    days = None if feed.upstream is None else feed.upstream.prove_every_days
    if days is None:
        return
    tables, _ = read_proven_tables(lake, feed)
    for table in tables.values():
        yield _evaluate(feed, table, days, now or datetime.now(UTC))


def _evaluate(
    feed: Changefeed, table: ProvenTable, days: int, now: datetime
) -> dg.AssetCheckEvaluation:
    judged, equal = table.judge(days, now), table.proof.equal
    metadata: dict[str, Any] = {"ticdc/proof": judged.state, "ticdc/prove_every_days": days}
    if equal is not None and judged.age_seconds is not None:
        metadata["ticdc/proof_ts"] = dg.MetadataValue.text(str(equal.ts))
        metadata["ticdc/proof_age_seconds"] = round(judged.age_seconds, 1)
    return dg.AssetCheckEvaluation(
        asset_key=table_asset_key(feed, naming.CURRENT, table.database, table.table),
        check_name=PROOF_IS_RECENT,
        passed=not judged.is_late,
        severity=dg.AssetCheckSeverity.WARN,
        description=escape_markdown(judged.text[:_MOST_CHARACTERS]),
        metadata=metadata,
    )
