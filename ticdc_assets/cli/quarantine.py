"""`quarantine`: what could not be decoded or applied, and why."""

import argparse
from collections.abc import Iterator, Sequence

from ticdc_assets.cli import records, texts
from ticdc_assets.cli.output import print_records, say, warn
from ticdc_assets.cli.source import format_command, open_names
from ticdc_assets.lake.quarantine import Fault, list_faults, select_of_table
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.problem import describe_place


def quarantine(options: argparse.Namespace) -> int:
    """List the reasons, with the most frequent first; what no table lacks comes last."""
    names = open_names(options)
    faults = list_faults(names.reader)
    if options.table is not None:
        faults = select_of_table(faults, options.table)
        if not faults:
            names.require_known(options.table)
    if options.format != "json":
        say(_summarize(faults))
    ordered = sorted(faults, key=lambda fault: not fault.is_open)[: options.limit]
    found = [_make_record(names.reader.location.changefeed, fault) for fault in ordered]
    print_records(options, found, format_quarantine)
    return 0


def _summarize(faults: Sequence[Fault]) -> str:
    if not faults:
        return "nothing is in the quarantine"
    reasons = texts.format_count(len(faults), "reason")
    return f"{_format_count(faults)} in the quarantine, for {reasons}"


def _make_record(changefeed: str, fault: Fault) -> records.Quarantine:
    return records.Quarantine(
        changefeed=changefeed,
        stage=fault.stage,
        database=fault.database,
        table=fault.table,
        reason=fault.reason,
        count=fault.count,
        commit_ts=fault.commit_ts,
        commit_at=records.find_time(fault.commit_ts),
        position=str(fault.position),
        is_open=fault.is_open,
    )


def format_quarantine(found: Sequence[records.Quarantine]) -> Iterator[str]:
    """Format each reason on a line."""
    for record in found:
        more = f" (and {record.count - 1:,} more)" if record.count > 1 else ""
        closed = "" if record.is_open else " (no table lacks it any more)"
        table = f"{record.database}.{record.table}" if record.table else ""
        place = describe_place(table, record.commit_ts, record.position)
        yield f"quarantined: {place}: {record.reason}{more}{closed}"


def warn_of_quarantine(options: argparse.Namespace, reader: LakeReader) -> None:
    """Say that tables may lack what is in the quarantine, if anything is."""
    faults = [fault for fault in list_faults(reader) if fault.is_open]
    if faults:
        command = format_command(options, "quarantine")
        warn(f"{_format_count(faults)} in the quarantine, which tables may lack: see {command}")


def _format_count(faults: Sequence[Fault]) -> str:
    count = sum(fault.count for fault in faults)
    return texts.format_count(count, "input or row", "inputs and rows")
