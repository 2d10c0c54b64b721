"""`decode` and `replay`: a changefeed read without a lake, and without Spark."""

import argparse
import sys
from collections.abc import Iterator

from ticdc_assets.cli.source import changefeed, events
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event, Quarantined
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.stream.event_lines import format_event


def decode(options: argparse.Namespace) -> int:
    """Print every event."""
    rejected = 0
    out = sys.stdout.buffer
    for event in events(changefeed(options)):
        rejected += isinstance(event, Quarantined)
        out.write(format_event(event))
    out.flush()
    return 1 if rejected else 0


def replay(options: argparse.Namespace) -> int:
    """Print tables as the reference model has them."""
    feed = changefeed(options)
    if options.table is not None and len(options.at or ()) > 1:
        raise ConfigError("takes one TSO with --table; use --out for several", setting="--at")
    replay = ModelReplay(feed)
    replay.add(_counted(events(feed)))
    tsos: list[int] = options.at or [replay.default_ts]
    replay.check(tsos)
    for ts in tsos:
        replay.advance(ts)
        if options.out is not None:
            replay.write(options.out / str(ts))
        else:
            sys.stdout.buffer.writelines(replay.lines(options.table))
    sys.stdout.flush()
    return replay.report(sys.stderr)


def _counted(events: Iterator[Event]) -> Iterator[Event]:
    """Show progress on a terminal."""
    terminal = sys.stderr.isatty()
    count = 0
    for count, event in enumerate(events, 1):
        if terminal and count % 20_000 == 0:
            print(f"\r{count:,} events read", end="", file=sys.stderr, flush=True)
        yield event
    if terminal and count >= 20_000:
        print(f"\r{count:,} events read", file=sys.stderr)
