"""`ledger`: every input of a lake, and what became of it."""

import argparse
from collections.abc import Sequence

from ticdc_assets.cli import records, texts
from ticdc_assets.cli.output import print_records
from ticdc_assets.cli.source import open_reader
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.safe_text import escape_control
from ticdc_assets.views.ledger import Ledger, build_ledger

_Record = records.LedgerSource | records.LedgerTable | records.LedgerPartial


def ledger(options: argparse.Namespace) -> int:
    """Print the ledger."""
    reader = open_reader(options)
    totals = build_ledger(reader, read_existing_snapshot(reader))
    print_records(options, _make_records(reader.location.changefeed, totals), format_ledger)
    return 0 if totals.adds_up else 1


def _make_records(changefeed: str, totals: Ledger) -> list[_Record]:
    source = totals.source
    return [
        records.LedgerSource(
            changefeed=changefeed,
            what=source.what,
            input=source.input,
            decoded=source.decoded,
            waiting=source.waiting,
            quarantined=source.quarantined,
            balances=source.adds_up,
            faults=list(source.faults),
        ),
        *(
            records.LedgerTable(
                changefeed=changefeed,
                table=table.name,
                input=table.input,
                applied=table.applied,
                superseded=table.superseded,
                quarantined=table.quarantined,
                waiting=table.waiting,
                repeated=table.repeated,
                erased=table.erased,
                missing=table.missing,
                balances=table.adds_up,
            )
            for table in totals.tables
        ),
        *(
            records.LedgerPartial(changefeed=changefeed, table=name, reason=reason)
            for name, reason in totals.partial
        ),
    ]


def format_ledger(found: Sequence[_Record]) -> list[str]:
    """Format the ledger as aligned text, with the verdict in the last line."""
    lines: list[str] = []
    faults: list[str] = []
    head = ["row events of", "input =", "applied +", "superseded +", "quarantined +"]
    rows = [[*head, "waiting +", "repeated +", "erased", ""]]
    partial: list[str] = []
    missing = 0
    for record in found:
        match record:
            case records.LedgerSource():
                lines.append(
                    f"{record.changefeed}: {record.input:,} {record.what} = {record.decoded:,}"
                    f" decoded + {record.waiting:,} waiting; {record.quarantined:,} inputs"
                    " quarantined"
                )
                faults += record.faults
            case records.LedgerTable():
                numbers = (record.input, record.applied, record.superseded, record.quarantined)
                verdict = "" if record.balances else f"missing: {record.missing:,}"
                others = record.waiting, record.repeated, record.erased
                counts = [f"{n:,}" for n in (*numbers, *others)]
                rows.append([escape_control(record.table), *counts, verdict])
                missing += not record.balances
            case records.LedgerPartial():
                name, reason = escape_control(record.table), escape_control(record.reason)
                partial.append(f"partial: {name}: {reason}")
    lines += [*texts.align_columns(rows, frozenset(range(1, 8))), *partial]
    lines += [f"does not balance: {fault}" for fault in faults]
    if missing:
        lines.append(f"does not balance: {texts.format_count(missing, 'table')}")
    return lines if faults or missing else [*lines, "the ledger balances"]
