"""The check that a current table equals the one upstream: the result is a verification's."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks.results import format_cell
from ticdc_assets.checks.specs import EQUALS_COPY, EQUALS_UPSTREAM
from ticdc_assets.events.tso_text import format_time
from ticdc_assets.log.verifications import Results, TableVerification
from ticdc_assets.naming import table_asset_key
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.safe_text import escape_markdown
from ticdc_assets.store.lake import LakeSession

_MOST_CHARACTERS = 2000
_SAMPLE_ROWS = 10


def evaluate_newest_verifications(lake: LakeSession) -> Iterator[dg.AssetCheckEvaluation]:
    """Make the results of the newest verification of every table, and of its copy, whoever ran it.

    A table that was renamed since has its result under its new name; one that is gone has none.
    """
    results = Results(lake.location)
    named = read_catalog(lake.location).named()
    for newest in (results.read_newest(), results.read_newest_of_copies()):
        for (database, table), known in named.items():
            if (found := newest.get(known.incarnation)) is not None:
                yield make_equality_evaluation(
                    lake.feed, replace(found, database=database, table=table)
                )


def make_equality_evaluation(feed: Changefeed, found: TableVerification) -> dg.AssetCheckEvaluation:
    """Make the check result of a verification."""
    # What is wrong may be the copy.
    is_error = found.verdict == "differs" and found.against is None
    return dg.AssetCheckEvaluation(
        asset_key=table_asset_key(feed, naming.CURRENT, found.database, found.table),
        check_name=EQUALS_UPSTREAM if found.against is None else EQUALS_COPY,
        passed=found.verdict == "equal",
        severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
        description=_describe(found),
        metadata=_list_metadata(found),
    )


def _describe(found: TableVerification) -> str:
    if found.verdict == "equal":
        other = "TiDB" if found.against is None else "the copy"
        return f"equal to {other} at {format_time(found.resolved_ts)}"
    least = "" if found.complete else "at least "
    counted = f"{least}{found.different_rows:,} in the lake's table differences"
    text = found.reason or counted
    return escape_markdown(f"{found.verdict}: {text}"[:_MOST_CHARACTERS])


def _list_metadata(found: TableVerification) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "ticdc/verdict": found.verdict,
        "ticdc/resolved_ts": dg.MetadataValue.text(str(found.resolved_ts)),
        "ticdc/different_rows": found.different_rows,
        "ticdc/rows_in_flight": found.in_flight,
        "ticdc/rows_sent": found.rows_sent,
        "ticdc/seconds": found.seconds,
    }
    if found.lake_rows is not None and found.upstream_rows is not None:
        metadata["ticdc/rows_compared"] = found.lake_rows
        metadata["ticdc/rows_upstream"] = found.upstream_rows
    if found.against is not None:
        metadata["ticdc/against"] = format_cell(found.against)
        metadata["ticdc/share_compared"] = found.share
    if found.left_out:
        metadata["ticdc/columns_left_out"] = format_cell(", ".join(found.left_out))
    if found.differences:
        # Positions and faults, never values: those are in the lake's table `differences`.
        records = [
            dg.TableRecord(
                {
                    "what": each.what,
                    "columns": format_cell(", ".join(each.columns)),
                    "cause": each.cause,
                    "copies": each.copies,
                }
            )
            for each in found.differences[:_SAMPLE_ROWS]
        ]
        metadata["ticdc/sample"] = dg.MetadataValue.table(records)
    return metadata
