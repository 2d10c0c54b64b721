"""All commands and their options on one screen; what a command does is loaded when it runs."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, cast

from ticdc_assets.cli import texts
from ticdc_assets.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """A parser whose errors are a line, and never repeat the secrets of a URI out of its place."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {texts.safe(message)}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    options = parser().parse_args(arguments)
    try:
        # Spark is loaded only by commands that need it.
        room = importlib.import_module(f"ticdc_assets.cli.{options.room}")
        run = cast(Callable[[argparse.Namespace], int], getattr(room, options.command))
        code = run(options)
        sys.stdout.flush()
    except ConfigError as error:
        print(f"ticdc-assets: {texts.safe(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output (head, less) has had enough.
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        print("ticdc-assets: interrupted; run it again to go on", file=sys.stderr)
        return 130
    except OSError as error:
        # What cannot be read was said as a ConfigError or an event; this is our own output.
        sys.stdout = None
        print(f"ticdc-assets: standard output: {error.strerror or error}", file=sys.stderr)
        return 2
    except Exception as error:
        reason = _spark_failure(error)
        if reason is None:
            raise
        print(f"ticdc-assets: Spark failed: {texts.safe(reason)}", file=sys.stderr)
        print(f"ticdc-assets: {texts.AFTER_SPARK}", file=sys.stderr)
        return 2
    return code


def _spark_failure(error: Exception) -> str | None:
    """What Spark failed at; None for an error of ours, or where Spark's log was asked for."""
    from resources.spark import LOG, describe_failure

    return None if os.environ.get(LOG) else describe_failure(error)


def parser() -> Parser:
    """The whole command line."""
    whole = Parser(
        prog="ticdc-assets",
        description=texts.ALL,
        epilog=texts.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    _reading(commands)
    _running(commands)
    _showing(commands)
    _mending(commands)
    demo = _command(commands, "demo", "demo", "a simulated changefeed through the whole lake")
    demo.add_argument("--protocol", choices=texts.DEMO_PROTOCOLS, default="csv")
    demo.add_argument("--dir", metavar="DIR", type=Path, help="where to (default: a new folder)")
    simulate = _command(commands, "dev", "simulate", "a simulated changefeed that keeps writing")
    simulate.add_argument("dir", metavar="DIR", type=Path, help="where to: a new folder")
    _of_simulation(simulate)
    dev = _command(commands, "dev", "dev", "the same, with Dagster's UI beside it")
    dev.add_argument("--dir", metavar="DIR", type=Path, help="where to (default: a new folder)")
    dev.add_argument("--port", metavar="N", type=int, default=3000, help="the UI's (default: 3000)")
    _of_simulation(dev)
    return whole


def _of_simulation(command: Parser) -> None:
    command.add_argument("--protocol", choices=texts.DEMO_PROTOCOLS, default="csv")
    command.add_argument(
        "--rate", metavar="N", type=float, default=4.0, help="transactions a second (default: 4)"
    )


def _reading(commands: "argparse._SubParsersAction[Parser]") -> None:
    decode = _command(commands, "read", "decode", "print events as JSON lines")
    _of_changefeed(decode)
    replay = _command(commands, "read", "replay", "print tables as they were at a TSO")
    _of_changefeed(replay)
    _at(replay, "the commit ts to show tables at, itself included (default: the resolved ts)")
    what = replay.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", metavar="DB.TABLE", help="print this table's rows")
    _out(what)


def _running(commands: "argparse._SubParsersAction[Parser]") -> None:
    advance = _command(commands, "lake", "advance", "bring the lake to the newest checkpoint")
    _of_lake(advance)
    maintain = _command(commands, "lake", "maintain", "join small files, remove what is not needed")
    _of_lake(maintain)
    maintain.add_argument(
        "--retain-days",
        metavar="N",
        type=_days,
        help="give up pictures that are older, 7 days at least (default: keep all)",
    )
    maintain.add_argument(
        "--expire-days",
        metavar="N",
        type=_days,
        help="delete decoded records of topics from `raw` that are older (default: keep all)",
    )


def _showing(commands: "argparse._SubParsersAction[Parser]") -> None:
    tables = _command(commands, "show", "tables", "the lake's tables: rows, lag, state")
    _of_lake(tables)
    tables.add_argument("--all", action="store_true", help="dropped tables too")
    show = _command(commands, "show", "show", "the rows of a table, or of all, at any TSO")
    _of_lake(show)
    _at(show, "the commit ts to show tables at (default: the newest that is applied)")
    what = show.add_mutually_exclusive_group(required=True)
    what.add_argument("table", metavar="DB.TABLE", nargs="?", help="print this table's rows")
    _out(what)
    _format(show, ("table", "jsonl", "csv"))
    _limit(show, "print so many rows at most")
    events = _command(commands, "show", "events", "what has come of a table, by commit ts")
    _of_lake(events)
    events.add_argument("table", metavar="DB.TABLE")
    _format(events, ("text", "jsonl"))
    _limit(events, "the last N only")
    schema = _command(commands, "show", "schema", "the history of a table's schema")
    _of_lake(schema)
    schema.add_argument("table", metavar="DB.TABLE")
    ledger = _command(commands, "show", "ledger", "account for every input")
    _of_lake(ledger)


def _mending(commands: "argparse._SubParsersAction[Parser]") -> None:
    resume = _command(commands, "lake", "resume", "let a paused table go on")
    _of_lake(resume)
    resume.add_argument("table", metavar="DB.TABLE")
    how = resume.add_mutually_exclusive_group()
    how.add_argument("--skip-ddl", action="store_true", help="without the DDL it stopped at")
    how.add_argument("--rebuild", action="store_true", help="from its first event on")
    rebuild = _command(commands, "lake", "rebuild", "make a table anew from all its events")
    _of_lake(rebuild)
    rebuild.add_argument("table", metavar="DB.TABLE")


def _command(
    commands: "argparse._SubParsersAction[Parser]", room: str, name: str, summary: str
) -> Parser:
    command = commands.add_parser(
        name,
        help=summary,
        description=texts.OF[name],
        epilog=texts.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(room=room, command=name)
    return command


def _of_changefeed(command: Parser) -> None:
    source = command.add_argument_group("which changefeed")
    source.add_argument(
        "--changefeeds",
        metavar="FILE",
        type=Path,
        help="the declarations (default: $TICDC_CHANGEFEEDS, else ./changefeeds.toml)",
    )
    source.add_argument("--changefeed", metavar="ID", help="optional where FILE has only one")
    source.add_argument("--sink-uri", metavar="URI", help="a sink URI alone, not FILE and ID")


def _of_lake(command: Parser) -> None:
    _of_changefeed(command)
    lake = command.add_argument_group("which lake")
    lake.add_argument(
        "--lake", metavar="DIR", help="path or URI (default: $TICDC_LAKE, else ./lake)"
    )


def _at(command: Parser, what: str) -> None:
    command.add_argument("--at", metavar="TSO[,TSO...]", type=_tsos, help=what)


def _out(what: "argparse._MutuallyExclusiveGroup") -> None:
    what.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="write every table to DIR/<tso>/<database>/<table>.jsonl, names percent-encoded",
    )


def _format(command: Parser, formats: tuple[str, ...]) -> None:
    command.add_argument(
        "--format", choices=formats, default=formats[0], help="default: %(default)s"
    )


def _limit(command: Parser, what: str) -> None:
    command.add_argument("--limit", metavar="N", type=_count, help=what)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise argparse.ArgumentTypeError("must be a number from 1 on")
    return int(text)


def _days(text: str) -> int:
    days = _count(text)
    if days > 36_500:
        raise argparse.ArgumentTypeError("must be at most 36500")
    return days


def _tsos(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        raise argparse.ArgumentTypeError("must be a TSO, or several with commas in between")
    tsos = sorted({int(part) for part in parts})
    if tsos[-1] >= 1 << 63:
        raise argparse.ArgumentTypeError("a TSO has 63 bits")
    return tsos
