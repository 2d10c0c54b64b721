"""`verify`: compare the lake's current tables with the tables upstream."""

import argparse
from collections.abc import Iterator, Sequence

from ticdc_assets.cli import records, texts
from ticdc_assets.cli.lake import open_lake
from ticdc_assets.cli.output import print_records, say, warn
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.source import find_changefeed, open_reader
from ticdc_assets.cli.upstream_options import read_limits
from ticdc_assets.lake.log.verifications import TableVerification
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.resources.upstream import find_upstream
from ticdc_assets.safe_text import escape_control
from ticdc_assets.verify.night import Night
from ticdc_assets.verify.verify import Environment
from ticdc_assets.verify.verify import verify as verify_tables

# Rows of a table that are printed; the lake's table `differences` has more of them.
_PRINTED = 10


def verify(options: argparse.Namespace) -> int:
    """Verify tables, and print what was found."""
    feed = find_changefeed(options)
    database = find_upstream(feed, **read_limits(options))
    environment = Environment(
        open_reader(options),
        feed,
        lambda: open_lake(options),
        database.open_snapshot,
        with_values=read_preview_rows() > 0,
        wait_seconds=options.wait,
    )
    progress = Progress()
    code = 0

    def show(rows: int) -> None:
        progress("verify", rows, None)

    night = Night(environment, show) if options.share else None
    names = options.table or ()
    try:
        for found in night.verify() if night else verify_tables(environment, names, show):
            progress.end()
            print_records(options, [_make_record(feed.id, found)], format_verify)
            if found.verdict != "equal":
                code = 1
                warn(f"{found.verdict}: {found.name}: {_summarize(found)}")
    finally:
        progress.end()
    if options.format != "json":
        say(f"in {progress.seconds:.1f} s")
    if night is not None:
        _note_cost(night)
    return code


def _note_cost(night: Night) -> None:
    """Say what a night's share cost the database, and what is left of it."""
    read, sent = (texts.format_count(n, "row") for n in (night.rows_read, night.rows_sent))
    if not night.statements and not night.left:
        warn("tonight's share has been verified already", "info")
        return
    size, statements = texts.format_size(night.bytes_received), f"{night.statements:,} statements"
    warn(f"upstream read {read} and sent {sent}, {size} by {statements}", "info")
    if night.left:
        count = texts.format_count(len(night.left), "table")
        warn(f"prove-minutes are over: {count} of the share left for the next night", "info")


def _make_record(changefeed: str, found: TableVerification) -> records.Verify:
    return records.Verify(
        changefeed=changefeed,
        database=found.database,
        table=found.table,
        verdict=found.verdict,
        reason=found.reason,
        resolved_ts=found.resolved_ts or None,
        resolved_at=records.find_time(found.resolved_ts),
        lake_rows=found.lake_rows,
        upstream_rows=found.upstream_rows,
        different_rows=found.different_rows,
        is_complete=found.complete,
        in_flight=found.in_flight,
        ranges=found.spans,
        rows_sent=found.rows_sent,
        seconds=round(found.seconds, 1),
        left_out=list(found.left_out),
        differences=[
            records.Difference(
                what=each.what,
                key=each.key,
                copies=each.copies,
                columns=list(each.columns),
                cause=each.cause,
            )
            for each in found.differences[:_PRINTED]
        ],
    )


def format_verify(verified: Sequence[records.Verify]) -> Iterator[str]:
    """Format verifications, each with some of the rows that differ."""
    for found in verified:
        yield from _format(found)


def _format(found: records.Verify) -> Iterator[str]:
    name = escape_control(f"{found.database}.{found.table}")
    # A table that was never applied has no ts.
    at = f" at {texts.format_ts(found.resolved_ts)}" if found.resolved_ts else ""
    yield f"{name}: {found.verdict}{at}"
    if found.lake_rows is not None and found.upstream_rows is not None:
        rows = f"{texts.format_count(found.lake_rows, 'row')} in the lake"
        spans = texts.format_count(found.ranges, "range")
        cost = f"{found.rows_sent:,} sent, {spans}, {found.seconds:.1f} s"
        yield f"  {rows}, {found.upstream_rows:,} upstream; {cost}"
    if found.in_flight:
        in_flight = texts.format_count(found.in_flight, "row")
        yield f"  in flight: {in_flight}, equal after the next window"
    if found.left_out:
        yield f"  not compared: {', '.join(found.left_out)}"
    for difference in found.differences:
        yield f"  {_describe(difference)}"


def _describe(difference: records.Difference) -> str:
    where = difference.key or f"{difference.copies:,} of a row without a key"
    columns = f" in {', '.join(difference.columns)}" if difference.columns else ""
    return f"{difference.what}{columns}: {where} ({difference.cause})"


def _summarize(found: TableVerification) -> str:
    if found.reason is not None:
        return found.reason
    count = texts.format_count(found.different_rows, "row")
    at_least = "" if found.complete else "at least "
    return f"{at_least}{count}: see the lake's table differences"
