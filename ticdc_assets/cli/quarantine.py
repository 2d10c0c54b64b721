"""`quarantine`: what could not be decoded or applied, and why."""

import argparse

from ticdc_assets.cli import texts
from ticdc_assets.cli.output import say, warn
from ticdc_assets.cli.source import format_command, open_reader
from ticdc_assets.lake.store.delta_log import count_newest_rows
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.views.quarantine import list_faults, select_of_table


def quarantine(options: argparse.Namespace) -> int:
    """List the reasons, with the most frequent first."""
    faults = list_faults(open_reader(options))
    if options.table is not None:
        faults = select_of_table(faults, options.table)
    if not faults:
        say("nothing is in the quarantine")
        return 0
    reasons = texts.format_count(len(faults), "reason")
    say(f"{_format_count(sum(fault.count for fault in faults))} in the quarantine, for {reasons}")
    for fault in faults[: options.limit]:
        say(fault.as_problem().describe())
    return 0


def warn_of_quarantine(options: argparse.Namespace, reader: LakeReader) -> None:
    """Say that tables may lack what is in the quarantine, if anything is."""
    count = count_newest_rows(reader, "quarantine")
    if count:
        command = format_command(options, "quarantine")
        warn(f"{_format_count(count)} in the quarantine, which tables may lack: see {command}")


def _format_count(count: int) -> str:
    return texts.format_count(count, "input or row", "inputs and rows")
