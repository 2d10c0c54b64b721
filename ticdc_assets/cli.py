"""The command line: `ticdc-assets decode` and `ticdc-assets replay`.

Commands only wire rooms together: they find the changefeed, open its output for reading, and print.
Results go to standard output, everything about the run to standard error.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from resources.dump import read_dump
from resources.storage import claim_check_folder, sink_folder
from ticdc_assets.changefeed import (
    Changefeed,
    changefeed_from_uri,
    find_changefeeds_file,
    load_changefeeds,
)
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event, Rejected
from ticdc_assets.reference.output import event_line
from ticdc_assets.reference.reading import folder_events, topic_events
from ticdc_assets.reference.replay import Replay

EXIT_CODES = """\
exit codes:
  0  everything was read and honoured
  1  done, but something could not be honoured: each such thing is a line on standard error
  2  nothing was done: a wrong command line, changefeed declaration or --at
"""

DECODE = """\
Print every event of a changefeed as a JSON line, in the order it was read.

Row changes carry their row images, schema changes their SQL, watermarks their ts; input that cannot
be decoded is a line of its own, "event": "rejected", with its position and the reason.
"""

REPLAY = """\
Run the reference model over a changefeed's whole output and print a table as TiDB had it.

Rows are JSON lines {column: text or null}: texts as MySQL prints them, binary as lower-case
hexadecimal, TIMESTAMP in UTC.  Virtual generated columns never travel and are left out.
"""


# What looks like a URI may hold credentials in front of its host and behind its question mark; a
# path made of it has lost a slash.
_USER = re.compile(r"(?<=:/)\S*@")
_PARAMETERS = re.compile(r"(:/[^?]*\?).*")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are a line, and never repeat the secrets of a URI out of its place."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {_safe(message)}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        feed = _changefeed(options)
        code: int = options.run(feed, options)
    except ConfigError as error:
        print(f"ticdc-assets: {_safe(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output (head, less) has had enough.
        sys.stdout = None
        return 0
    except OSError as error:
        # What cannot be read was said as a ConfigError or an event; this is our own output.
        sys.stdout = None
        print(f"ticdc-assets: standard output: {error.strerror or error}", file=sys.stderr)
        return 2
    return code


def _safe(message: str) -> str:
    """A message on one line, without the credentials that a misplaced URI may hold."""
    return _PARAMETERS.sub(r"\1…", _USER.sub("", " ".join(message.split())))


def _parser() -> _Parser:
    parser = _Parser(
        prog="ticdc-assets",
        description="Read what TiCDC wrote: decode a changefeed's events, replay its tables.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    decode = _command(commands, "decode", "print events as JSON lines", DECODE)
    decode.set_defaults(run=_decode)
    replay = _command(commands, "replay", "print tables as they were at a TSO", REPLAY)
    replay.add_argument(
        "--at",
        metavar="TSO[,TSO...]",
        type=_tsos,
        help="the commit ts to show tables at, itself included (default: the resolved ts)",
    )
    what = replay.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", metavar="DB.TABLE", help="print this table's rows")
    what.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="write every table to DIR/<tso>/<database>/<table>.jsonl, names percent-encoded",
    )
    replay.set_defaults(run=_replay)
    return parser


def _command(
    commands: "argparse._SubParsersAction[_Parser]",
    name: str,
    summary: str,
    description: str,
) -> _Parser:
    command = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source = command.add_argument_group("which changefeed")
    source.add_argument(
        "--changefeeds",
        metavar="FILE",
        type=Path,
        help="the declarations (default: $TICDC_CHANGEFEEDS, else ./changefeeds.toml)",
    )
    source.add_argument("--changefeed", metavar="ID", help="optional where FILE has only one")
    source.add_argument("--sink-uri", metavar="URI", help="a sink URI alone, not FILE and ID")
    return command


def _tsos(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        raise argparse.ArgumentTypeError("must be a TSO, or several with commas in between")
    tsos = sorted({int(part) for part in parts})
    if tsos[-1] >= 1 << 63:
        raise argparse.ArgumentTypeError("a TSO has 63 bits")
    return tsos


def _changefeed(options: argparse.Namespace) -> Changefeed:
    if options.sink_uri is not None:
        if options.changefeeds is not None or options.changefeed is not None:
            raise ConfigError("goes without --changefeeds and --changefeed", setting="--sink-uri")
        return changefeed_from_uri(options.sink_uri)
    file = find_changefeeds_file(options.changefeeds)
    feeds = load_changefeeds(file)
    if options.changefeed is None:
        if len(feeds) != 1:
            raise ConfigError(
                f"declares {', '.join(feeds)}: name one with --changefeed", file=str(file)
            )
        return next(iter(feeds.values()))
    if options.changefeed not in feeds:
        raise ConfigError(f"declares no changefeed {options.changefeed!r}", file=str(file))
    return feeds[options.changefeed]


def _decode(feed: Changefeed, options: argparse.Namespace) -> int:
    rejected = 0
    out = sys.stdout.buffer
    for event in _events(feed):
        rejected += isinstance(event, Rejected)
        out.write(event_line(event))
    out.flush()
    return 1 if rejected else 0


def _replay(feed: Changefeed, options: argparse.Namespace) -> int:
    if options.table is not None and len(options.at or ()) > 1:
        raise ConfigError("takes one TSO with --table; use --out for several", setting="--at")
    replay = Replay(feed)
    replay.add(_counted(_events(feed)))
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


def _events(feed: Changefeed) -> Iterator[Event]:
    """Open a changefeed's output and decode all of it."""
    match feed.transport:
        case "dump":
            return topic_events(feed, read_dump(Path(feed.location)), claim_check_folder(feed))
        case "storage":
            folder = sink_folder(feed)
            if not folder.exists():
                raise ConfigError(f"no such folder: {feed.location}", setting="sink-uri")
            return folder_events(feed, folder.paths(), folder.read)
        case _:
            raise ConfigError(
                "reading from a broker is not there yet: dump the topic to a file"
                " (kcat -C -J) and declare it as dump:///path/records.jsonl",
                setting="sink-uri",
            )


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


if __name__ == "__main__":
    sys.exit(main())
