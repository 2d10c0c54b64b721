"""`verify`: compare the lake's current tables with the tables upstream, or with a copy."""

import argparse
from collections.abc import Iterator, Sequence

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.copy import OF_SERVERS, ONLY_SERVERS, is_server
from ticdc_assets.changefeed.upstream import make_tls
from ticdc_assets.cli import records, texts
from ticdc_assets.cli.lake import open_lake
from ticdc_assets.cli.output import print_records, say, warn
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.source import find_changefeed, open_reader
from ticdc_assets.cli.upstream_options import read_limits
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.verifications import TableVerification
from ticdc_assets.resources.copies import open_copy
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.resources.upstream import find_upstream
from ticdc_assets.safe_text import escape_control
from ticdc_assets.verify.against import AgainstEnvironment, verify_copy
from ticdc_assets.verify.night import Night
from ticdc_assets.verify.verify import Environment
from ticdc_assets.verify.verify import verify as verify_tables

# Rows of a table that are printed; the lake's table `differences` has more of them.
_PRINTED = 10
# The options that only a copy has.
_OF_COPIES = (
    *("upstream", "at", "table_name", "sample", "password_env", "password_file"),
    *("ca", "cert", "key"),
)
_NEXT = {
    "lake": "next: verify without --against compares the lake with TiDB, and why TABLE KEY shows"
    " how the lake came to have a row",
    "upstream": "next: let the copy reach a newer TSO and run it again: rows that were on their way"
    " are equal then",
}


def verify(options: argparse.Namespace) -> int:
    """Verify tables, and print what was found."""
    feed = find_changefeed(options)
    progress = Progress()
    code = 0

    def show(rows: int) -> None:
        progress("verify", rows, None)

    night = None
    if options.against is not None:
        results = verify_copy(_open_copy(options, feed), options.table or (), show)
    else:
        environment = _open_upstream(options, feed)
        night = Night(environment, show) if options.share else None
        results = night.verify() if night else verify_tables(environment, options.table or (), show)
    try:
        for found in results:
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


def _open_upstream(options: argparse.Namespace, feed: Changefeed) -> Environment:
    """Open the comparison with the database upstream."""
    for name in _OF_COPIES:
        if getattr(options, name) is not None:
            raise ConfigError("needs --against", setting=_name_option(name))
    database = find_upstream(feed, **read_limits(options))
    return Environment(
        open_reader(options),
        feed,
        lambda: open_lake(options),
        database.open_snapshot,
        with_values=read_preview_rows() > 0,
        wait_seconds=Environment.wait_seconds if options.wait is None else options.wait,
    )


def _open_copy(options: argparse.Namespace, feed: Changefeed) -> AgainstEnvironment:
    """Open the comparison with a copy."""
    if options.share:
        raise ConfigError("cannot be combined with --against", setting="--share")
    limits = read_limits(options)
    for name in () if options.upstream else limits:
        raise ConfigError("needs --upstream with --against", setting=_name_option(name))
    if options.wait is not None:
        raise ConfigError("cannot be combined with --against", setting="--wait")
    for name in () if is_server(options.against) else OF_SERVERS:
        if getattr(options, name.replace("-", "_")) is not None:
            raise ConfigError(ONLY_SERVERS, setting=f"--{name}")
    if options.password_env is not None and options.password_file is not None:
        raise ConfigError("cannot be combined with --password-env", setting="--password-file")
    password = None
    if options.password_env is not None:
        password = Reference("env", options.password_env)
    elif options.password_file is not None:
        password = Reference("file", options.password_file)
    try:
        tls = make_tls(options.ca, options.cert, options.key)
    except ValueError as error:
        raise ConfigError(f"needs --ca, --cert and --key: {error}", setting="--cert") from None
    copy = open_copy(options.against, table_name=options.table_name, password=password, tls=tls)
    return AgainstEnvironment(
        open_lake(options),
        copy,
        options.at,
        share=1.0 if options.sample is None else options.sample,
        with_values=read_preview_rows() > 0,
        open_upstream=find_upstream(feed, **limits).open_snapshot if options.upstream else None,
    )


def _name_option(name: str) -> str:
    return "--" + name.replace("_", "-")


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
        against=found.against,
        compared_with=found.compared_with,
        share=found.share,
        bytes_read=found.bytes_read,
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
    sampled = f", {found.share:.1%} of its keys" if (found.share or 1) < 1 else ""
    partly = ", in the columns that can be compared" if found.left_out else ""
    yield f"{name}: {found.verdict}{at}{partly}{sampled}"
    if found.lake_rows is not None and found.upstream_rows is not None:
        place = "upstream" if found.compared_with == "upstream" else "in the lake"
        rows = f"{texts.format_count(found.lake_rows, 'row')} {place}"
        spans = texts.format_count(found.ranges, "range")
        cost = f"{found.rows_sent:,} sent, {spans}, {found.seconds:.1f} s"
        where = "upstream" if found.against is None else "in the copy"
        if found.bytes_read is not None:
            cost = f"{texts.format_size(found.bytes_read)} read, {spans}, {found.seconds:.1f} s"
        yield f"  {rows}, {found.upstream_rows:,} {where}; {cost}"
    if found.in_flight:
        in_flight = texts.format_count(found.in_flight, "row")
        yield f"  in flight: {in_flight}, equal after the next window"
    if found.left_out and found.against is None:
        yield f"  not compared: {', '.join(found.left_out)}"
    elif found.against is not None:
        yield from (f"  not compared: {column}" for column in found.left_out)
    for difference in found.differences:
        yield f"  {_describe(difference)}"
    if found.compared_with is not None and found.verdict == "differs":
        yield f"  {_NEXT[found.compared_with]}"


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
