"""The promises: functions that return what breaks them, in Spark and without Dagster.

`rows`, `order` and `folder` are what TiCDC promises of its output, `books` and `current` what the
lake promises of itself.  What corrupts blocks, what only smells warns.
"""

from ticdc_assets.checks.invariants import accounting, current, folder, order, rows
from ticdc_assets.checks.invariants.context import CheckContext, SnapshotRange
from ticdc_assets.checks.invariants.invariant import (
    Found,
    Invariant,
    Layer,
    NotEvaluated,
    Severity,
    TableInvariant,
    Violations,
)

INVARIANTS: tuple[Invariant, ...] = (
    folder.data_file_numbers_have_no_gaps,
    folder.data_files_are_immutable,
    folder.data_files_are_readable,
    folder.schema_file_checksums_match,
    rows.inserts_have_no_old_value,
    rows.deletes_have_no_new_value,
    rows.updates_have_both_values,
    rows.handle_keys_are_present,
    rows.row_events_are_stored_once,
    rows.row_schemas_are_known,
    rows.row_checksums_match,
    order.no_new_rows_below_resolved_ts,
    order.commit_ts_is_monotonic_per_file,
    order.ddl_reaches_all_partitions,
    order.schema_versions_increase,
    order.resolved_ts_is_monotonic,
    accounting.quarantine_is_empty,
    accounting.ledger_balances,
)
TABLE_INVARIANTS: tuple[TableInvariant, ...] = (
    current.table_is_live,
    current.columns_match_schema_history,
    current.keys_are_unique,
    current.row_count_matches_events,
)

__all__ = [
    "INVARIANTS",
    "TABLE_INVARIANTS",
    "CheckContext",
    "Found",
    "Invariant",
    "Layer",
    "NotEvaluated",
    "Severity",
    "SnapshotRange",
    "TableInvariant",
    "Violations",
]
