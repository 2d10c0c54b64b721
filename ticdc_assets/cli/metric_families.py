"""The metrics of `ticdc-assets metrics`: their names, meanings and labels, and their values.

Names and units are as Prometheus recommends.  What is not known has no sample: a lake that cannot
be read has no number of tables, which is not the number 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ticdc_assets.cli.status import ReadStatus
from ticdc_assets.events.tso import physical_ms
from ticdc_assets.store.last_run import LastRun, RunResult, StageWork
from ticdc_assets.views.lake_sizes import LakeSizes
from ticdc_assets.views.proofs import ProofState, ProofSummary
from ticdc_assets.views.status import ChangefeedState

_FEED = ("changefeed",)
_TABLES_SHOWN = 20
# They exist from the start, so that an alert sees them grow.
_QUARANTINE_STAGES = ("decode", "apply", "load")


@dataclass(frozen=True)
class Definition:
    """A metric: its labels, and what it says."""

    help: str
    labels: tuple[str, ...] = _FEED
    kind: Literal["gauge", "counter"] = "gauge"


def _count(help: str, *labels: str) -> Definition:
    return Definition(help, (*_FEED, *labels), "counter")


def _gauge(help: str, *labels: str) -> Definition:
    return Definition(help, (*_FEED, *labels))


METRICS: Mapping[str, Definition] = {
    "ticdc_up": _gauge(
        "1 if this part could be read: declarations, source, lake, or metrics as a whole.", "part"
    ),
    "ticdc_collect_timestamp_seconds": Definition("When these values were read.", ()),
    "ticdc_collect_seconds": Definition("How long reading them took.", ()),
    "ticdc_changefeed_state": _gauge("1 for the state that status shows, 0 for others.", "state"),
    "ticdc_late": _gauge("1 if it lags beyond the limit, or cannot be shown not to."),
    "ticdc_max_lag_seconds": _gauge("The limit of the lag."),
    "ticdc_lag_seconds": _gauge("How far the resolved ts of the lake lies behind now."),
    "ticdc_checkpoint_lag_seconds": _gauge("How far the checkpoint of the source lies behind now."),
    "ticdc_lake_lag_seconds": _gauge("How far the lake lies behind the checkpoint of the source."),
    "ticdc_resolved_timestamp_seconds": _gauge("The resolved ts of the lake, as Unix time."),
    "ticdc_checkpoint_timestamp_seconds": _gauge("The checkpoint of the source, as Unix time."),
    "ticdc_newest_input_timestamp_seconds": _gauge("When TiCDC wrote last."),
    "ticdc_applied_timestamp_seconds": _gauge("When the newest snapshot was written."),
    "ticdc_records_behind": _gauge("Records of topics that the lake does not have yet."),
    "ticdc_tables": _gauge("Tables by status: live, partial, waiting or paused.", "status"),
    "ticdc_quarantined": _gauge("Input and rows in quarantine that tables may lack.", "stage"),
    "ticdc_catalog_problems": _gauge("What the last run found wrong in catalogs."),
    "ticdc_last_run_result": _gauge("1 for how the last run ended.", "command", "result"),
    "ticdc_last_run_start_timestamp_seconds": _gauge("When the last run began."),
    "ticdc_last_run_end_timestamp_seconds": _gauge("When it ended; none while it goes on."),
    "ticdc_last_run_stage_seconds": _gauge("How long its stages took, in all windows.", "stage"),
    "ticdc_runs_total": _count("Runs that have ended.", "command", "result"),
    "ticdc_windows_total": _count("How often runs went through all stages."),
    "ticdc_stage_seconds_total": _count("How long stages took, in all runs that ended.", "stage"),
    "ticdc_stage_rows_total": _count("Inputs that were ingested, and row changes.", "stage"),
    "ticdc_stage_bytes_total": _count("Bytes that were ingested and decoded.", "stage"),
    "ticdc_source_files_listed_total": _count(
        "Files of the folder that runs listed: a request per 1,000 in an object store."
    ),
    "ticdc_lake_files": _gauge("Data files of the newest versions.", "layer"),
    "ticdc_lake_bytes": _gauge("Bytes of the newest versions.", "layer"),
    "ticdc_lake_rows": _gauge("Rows of the newest versions.", "layer"),
    "ticdc_lake_delta_tables": _gauge("Delta tables of current rows, histories and changes."),
    "ticdc_lake_delta_tables_measured": _gauge("Those of them whose size is known by now."),
    "ticdc_table_files": _gauge(
        f"Data files of a current table: the {_TABLES_SHOWN} that have most.", "database", "table"
    ),
    "ticdc_table_bytes": _gauge("Bytes of the same tables.", "database", "table"),
    "ticdc_proof_tables": _gauge(
        "Tables by their newest proof: proven, old, differs, skipped or never.", "proof"
    ),
    "ticdc_proof_late": _gauge("Tables not proven for longer than prove-every-days."),
    "ticdc_proof_interval_seconds": _gauge("The setting prove-every-days."),
    "ticdc_proof_rows_read": _gauge("Rows that upstream read in the last night that verified."),
    "ticdc_proof_rows_sent": _gauge("Rows, or hashes of rows, that it sent then."),
    "ticdc_table_proof_age_seconds": _gauge(
        f"How long ago a table was proven: the {_TABLES_SHOWN} whose proof is oldest.",
        *("database", "table"),
    ),
}


class Families:
    """Collects samples into metric families."""

    def __init__(self) -> None:
        self._families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """Add a sample; nothing if the value is not known."""
        if value is None:
            return
        if name not in self._families:
            definition = METRICS[name]
            kind = GaugeMetricFamily if definition.kind == "gauge" else CounterMetricFamily
            self._families[name] = kind(name, definition.help, labels=definition.labels)
        self._families[name].add_metric([_clean(label) for label in labels], value)

    def __iter__(self) -> Iterator[Metric]:
        """Yield the families in the order of `METRICS`."""
        return (self._families[name] for name in METRICS if name in self._families)


def _clean(label: str) -> str:
    """Return a label's value with what is not UTF-8 escaped; the library quotes the rest."""
    return label.encode(errors="backslashreplace").decode()


def add_changefeed(families: Families, status: ReadStatus, sizes: LakeSizes | None) -> None:
    """Add what is known of a changefeed; without sizes, its lake cannot be read."""
    record, lake = status.record, status.lake
    id = record.changefeed
    is_readable = lake.reason is None and sizes is not None
    families.add("ticdc_up", float(status.source.is_readable), id, "source")
    families.add("ticdc_up", float(is_readable), id, "lake")
    for state in get_args(ChangefeedState):
        families.add("ticdc_changefeed_state", float(state == record.state), id, state)
    families.add("ticdc_late", float(record.is_late), id)
    families.add("ticdc_max_lag_seconds", record.max_lag_seconds, id)
    families.add("ticdc_lag_seconds", record.lag_seconds, id)
    families.add("ticdc_checkpoint_lag_seconds", record.checkpoint_lag_seconds, id)
    families.add("ticdc_lake_lag_seconds", record.lake_lag_seconds, id)
    families.add("ticdc_resolved_timestamp_seconds", _find_seconds(record.resolved_ts), id)
    families.add("ticdc_checkpoint_timestamp_seconds", _find_seconds(record.checkpoint_ts), id)
    families.add("ticdc_newest_input_timestamp_seconds", _find_moment(record.newest_input_at), id)
    families.add("ticdc_applied_timestamp_seconds", _find_moment(record.applied_at), id)
    families.add("ticdc_records_behind", record.records_behind, id)
    families.add("ticdc_catalog_problems", len(record.catalog_problems), id)
    if lake.reason is None:
        stopped = {"partial": lake.partial, "waiting": lake.waiting, "paused": lake.paused}
        families.add("ticdc_tables", lake.tables - sum(stopped.values()), id, "live")
        for name, number in stopped.items():
            families.add("ticdc_tables", number, id, name)
        for stage in dict.fromkeys((*_QUARANTINE_STAGES, *sorted(lake.quarantined_by_stage))):
            families.add("ticdc_quarantined", lake.quarantined_by_stage.get(stage, 0), id, stage)
    if lake.last_run is not None:
        _add_runs(families, id, lake.last_run)
    if sizes is not None:
        _add_sizes(families, id, sizes)
    if status.proofs is not None:
        _add_proofs(families, id, status.proofs)


def _add_runs(families: Families, id: str, run: LastRun) -> None:
    for result in get_args(RunResult):
        families.add("ticdc_last_run_result", float(result == run.result), id, run.command, result)
    families.add("ticdc_last_run_start_timestamp_seconds", _find_moment(run.started_at), id)
    families.add("ticdc_last_run_end_timestamp_seconds", _find_moment(run.ended_at), id)
    for stage, work in sorted(run.work.items()):
        families.add("ticdc_last_run_stage_seconds", work.seconds, id, stage)
    for kind, number in sorted(run.runs.items()):
        command, _, result = kind.partition(" ")
        families.add("ticdc_runs_total", number, id, command, result)
    families.add("ticdc_windows_total", run.total_work.get("apply", StageWork()).times, id)
    for stage, work in sorted(run.total_work.items()):
        families.add("ticdc_stage_seconds_total", work.seconds, id, stage)
        families.add("ticdc_stage_rows_total", work.rows, id, stage)
        families.add("ticdc_stage_bytes_total", work.bytes, id, stage)
    if (listed := sum(work.listed for work in run.total_work.values())) > 0:
        families.add("ticdc_source_files_listed_total", listed, id)


def _add_sizes(families: Families, id: str, sizes: LakeSizes) -> None:
    for layer, size in sorted(sizes.layers.items()):
        families.add("ticdc_lake_files", size.files, id, layer)
        families.add("ticdc_lake_bytes", size.bytes, id, layer)
        families.add("ticdc_lake_rows", size.rows, id, layer)
    families.add("ticdc_lake_delta_tables", sizes.known, id)
    families.add("ticdc_lake_delta_tables_measured", sizes.measured, id)
    largest = sorted(sizes.tables.items(), key=lambda each: (each[1].files, each[1].bytes, each[0]))
    for (database, table), size in reversed(largest[-_TABLES_SHOWN:]):
        families.add("ticdc_table_files", size.files, id, database, table)
        families.add("ticdc_table_bytes", size.bytes, id, database, table)


def _add_proofs(families: Families, id: str, proofs: ProofSummary) -> None:
    for state in get_args(ProofState):
        families.add("ticdc_proof_tables", proofs.by_state.get(state, 0), id, state)
    if proofs.every_days is not None:
        families.add("ticdc_proof_late", proofs.late, id)
        families.add("ticdc_proof_interval_seconds", proofs.every_days * 86_400, id)
    if proofs.last_night is not None:
        families.add("ticdc_proof_rows_read", proofs.last_night.rows_read, id)
        families.add("ticdc_proof_rows_sent", proofs.last_night.rows_sent, id)
    for age, database, table in proofs.ages[:_TABLES_SHOWN]:
        families.add("ticdc_table_proof_age_seconds", age, id, database, table)


def _find_seconds(ts: int | None) -> float | None:
    return None if ts is None else physical_ms(ts) / 1000


def _find_moment(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
