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
    folder.data_file_number_follows,
    folder.data_file_is_never_rewritten,
    folder.data_file_can_be_read,
    folder.schema_file_has_its_checksum,
    rows.insert_has_no_old,
    rows.delete_has_no_new,
    rows.update_has_old_and_new,
    rows.handle_key_is_there_and_not_null,
    rows.row_event_is_in_the_lake_once,
    rows.row_schema_is_known,
    rows.row_checksum_is_right,
    order.no_new_row_at_or_below_resolved_ts,
    order.commit_ts_never_falls_in_a_file,
    order.ddl_is_in_all_partitions,
    order.table_version_grows,
    order.resolved_ts_only_grows,
    accounting.nothing_is_in_quarantine_since,
    accounting.ledger_adds_up,
)
TABLE_INVARIANTS: tuple[TableInvariant, ...] = (
    current.table_goes_on,
    current.columns_are_those_of_the_schema_history,
    current.keys_are_unique,
    current.row_count_is_inserts_less_deletes,
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
