"""The promises: functions that return what violates them.

Rules of this room: Spark, never Dagster; an invariant queries the rows of its `CheckContext`, few
or many, in the same SQL, and counts before it scans; what corrupts tables blocks, what is only
suspicious warns.
`folder`, `rows` and `order` hold what TiCDC promises of its output, `accounting` and `current` what
the lake promises of itself.
"""

from ticdc_assets.checks.invariants import accounting, current, folder, order, rows
from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import (
    Invariant,
    Layer,
    NotEvaluated,
    Result,
    Severity,
    TableInvariant,
)
from ticdc_assets.checks.invariants.queries import KnownRows
from ticdc_assets.checks.invariants.range_log import SnapshotRange

INVARIANTS: tuple[Invariant, ...] = (
    folder.data_file_numbers_have_no_gaps,
    folder.data_files_are_immutable,
    folder.data_files_are_readable,
    folder.schema_file_checksums_match,
    rows.inserts_have_no_old_value,
    rows.deletes_have_no_new_value,
    rows.updates_have_both_values,
    rows.handle_keys_are_present,
    rows.rows_are_not_marked_corrupted,
    rows.row_events_are_stored_once,
    rows.row_schemas_are_known,
    order.no_new_rows_below_resolved_ts,
    order.commit_ts_is_monotonic_per_file,
    order.ddl_reaches_all_partitions,
    order.schema_versions_increase,
    order.resolved_ts_is_monotonic,
    accounting.quarantine_is_empty,
    accounting.tables_lack_nothing,
    accounting.ledger_balances,
)
TABLE_INVARIANTS: tuple[TableInvariant, ...] = (
    current.table_is_live,
    current.columns_match_schema_history,
    current.keys_are_unique,
    current.row_count_matches_events,
    current.row_checksums_match,
)

__all__ = [
    "INVARIANTS",
    "TABLE_INVARIANTS",
    "CheckContext",
    "Invariant",
    "KnownRows",
    "Layer",
    "NotEvaluated",
    "Result",
    "Severity",
    "SnapshotRange",
    "TableInvariant",
]
