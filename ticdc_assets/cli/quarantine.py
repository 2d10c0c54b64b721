"""`quarantine`: what could not be decoded or applied, and why."""

import argparse
from collections.abc import Sequence

from ticdc_assets.cli import texts
from ticdc_assets.cli.output import say, warn
from ticdc_assets.cli.source import format_command, open_names
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.views.quarantine import Fault, list_faults, select_of_table


def quarantine(options: argparse.Namespace) -> int:
    """List the reasons, with the most frequent first; what no table lacks comes last."""
    names = open_names(options)
    faults = list_faults(names.reader)
    if options.table is not None:
        faults = select_of_table(faults, options.table)
        if not faults:
            names.require_known(options.table)
    if not faults:
        say("nothing is in the quarantine")
        return 0
    reasons = texts.format_count(len(faults), "reason")
    say(f"{_format_count(faults)} in the quarantine, for {reasons}")
    for fault in sorted(faults, key=lambda fault: not fault.is_open)[: options.limit]:
        closed = "" if fault.is_open else " (no table lacks it any more)"
        say(fault.as_problem().describe() + closed)
    return 0


def warn_of_quarantine(options: argparse.Namespace, reader: LakeReader) -> None:
    """Say that tables may lack what is in the quarantine, if anything is."""
    faults = [fault for fault in list_faults(reader) if fault.is_open]
    if faults:
        command = format_command(options, "quarantine")
        warn(f"{_format_count(faults)} in the quarantine, which tables may lack: see {command}")


def _format_count(faults: Sequence[Fault]) -> str:
    count = sum(fault.count for fault in faults)
    return texts.format_count(count, "input or row", "inputs and rows")
