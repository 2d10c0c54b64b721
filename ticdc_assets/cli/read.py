"""`decode` and `replay`: read a changefeed without a lake and without Spark."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.cli import texts
from ticdc_assets.cli.output import show_live, warn, write_data
from ticdc_assets.cli.source import find_changefeed, read_events, recognize_protocol
from ticdc_assets.cli.table_files import write_tables
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event, Ordering, Quarantined, RowChange, TableSchema
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.stream.event_lines import format_event
from ticdc_assets.stream.limits import describe_limits
from ticdc_assets.stream.recognition import describe_protocol


def decode(options: argparse.Namespace) -> int:
    """Print every event."""
    feed = find_changefeed(options)
    kinds: Counter[type[Event]] = Counter()

    def lines() -> Iterator[bytes]:
        for event in read_events(feed):
            kinds[type(event)] += 1
            yield format_event(event)

    write_data(lines())
    quarantined = kinds[Quarantined]
    if not quarantined:
        return 0
    count = texts.format_count(quarantined, "input")
    warn(f'{count} could not be decoded: see the lines with "event":"quarantined"')
    if not kinds[RowChange]:
        _question_protocol(feed, is_sure=kinds.total() == quarantined)
    return 1


def _question_protocol(feed: Changefeed, *, is_sure: bool) -> None:
    """Say that the declared protocol is probably wrong, and which one fits, as far as it shows."""
    found, declared = recognize_protocol(feed), describe_protocol(feed)
    if found not in (None, declared):
        warn(f"the declared {declared} is probably wrong: the output is written with {found}")
    elif is_sure and found is None:
        warn(f"the declared {declared} is probably wrong: nothing could be decoded")


def replay(options: argparse.Namespace) -> int:
    """Print or write tables as the reference model computes them."""
    feed = find_changefeed(options)
    if options.table is not None and len(options.at or ()) > 1:
        raise ConfigError("takes one TSO with --table; use --out for several", setting="--at")
    model_replay = ModelReplay(feed)
    seen: set[Ordering] = set()
    model_replay.add(_note_orderings(_show_progress(read_events(feed)), seen))
    tsos: list[int] = options.at or [model_replay.default_ts]
    model_replay.check_range(tsos)
    notes = [f"note: {limit}" for limit in describe_limits(feed, seen)]
    unwritten: list[str] = []
    for ts in tsos:
        model_replay.advance(ts)
        if options.out is not None:
            unwritten += write_replay(model_replay, options.out / str(ts))
        else:
            lines = model_replay.encode_table(model_replay.find_table(options.table))
            write_data(lines or [])
    problems = model_replay.problems()
    partial = [f"partial: {name}: {reason}" for name, reason in model_replay.partial_tables()]
    for line in [*notes, *partial, *(problem.describe() for problem in problems), *unwritten]:
        warn(line)
    return 1 if unwritten or any(problem.data_may_differ for problem in problems) else 0


def write_replay(replay: ModelReplay, folder: Path) -> list[str]:
    """Write every table that is not paused; return a message for each one not written."""

    def tables() -> Iterator[tuple[TableSchema, list[bytes]]]:
        for table in replay.model.tables:
            lines = replay.encode_table(table)
            if lines is not None:
                yield table.schema, lines

    return write_tables(folder, tables())


def _note_orderings(events: Iterator[Event], seen: set[Ordering]) -> Iterator[Event]:
    """Note how the order of rows is known."""
    for event in events:
        if isinstance(event, RowChange):
            seen.add(event.ordering)
        yield event


def _show_progress(events: Iterator[Event]) -> Iterator[Event]:
    """Show on a terminal how many events have been read."""
    is_terminal = sys.stderr.isatty()
    count = 0
    for count, event in enumerate(events, 1):
        if is_terminal and count % 20_000 == 0:
            show_live(f"{count:,} events read")
        yield event
    if is_terminal and count >= 20_000:
        show_live(f"{count:,} events read\n")
