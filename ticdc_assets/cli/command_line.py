"""Define all commands and their options."""

import argparse
from functools import partial
from pathlib import Path

from ticdc_assets.cli import texts
from ticdc_assets.cli.engines import ENGINES
from ticdc_assets.cli.log_options import add_log_options
from ticdc_assets.cli.metrics_options import add_metrics_options
from ticdc_assets.cli.option_values import (
    parse_count,
    parse_days,
    parse_duration,
    parse_pattern,
    parse_table,
    parse_tso,
    parse_tsos,
)
from ticdc_assets.cli.parser import Parser, ShowVersion
from ticdc_assets.cli.simulation_options import add_simulations
from ticdc_assets.cli.upstream_options import add_load_options, add_verify_options
from ticdc_assets.lake.kept_days import RETAIN_DAYS


def make_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="ticdc-assets",
        description=texts.ALL,
        epilog=texts.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", nargs=0, action=ShowVersion, help="print the version")
    commands = parser.add_commands()
    _add_reading(commands)
    _add_running(commands)
    _add_monitoring(commands)
    _add_listing(commands)
    _add_showing(commands)
    _add_repairing(commands)
    add_simulations(partial(_add_command, commands))
    add_log_options(commands.choices)
    return parser


def _add_reading(commands: "argparse._SubParsersAction[Parser]") -> None:
    decode = _add_command(commands, "read", "decode", "print events as JSON lines")
    _add_changefeed(decode)
    replay = _add_command(commands, "read", "replay", "print tables as they were at a TSO")
    _add_changefeed(replay)
    _add_at(replay, "print tables as of this TSO, inclusive (default: the resolved ts)")
    output = replay.add_mutually_exclusive_group(required=True)
    output.add_argument(
        "--table", metavar="DB.TABLE", type=parse_table, help="print this table's rows"
    )
    _add_out(output)
    setup = _add_command(commands, "setup", "setup", "download what Spark needs")
    setup.add_argument(
        "store",
        metavar="STORE",
        nargs="?",
        choices=("s3", "azure", "gcs"),
        help="the object store that a lake is in: s3, azure or gcs (default: none)",
    )
    tso = _add_command(commands, "tso", "tso", "convert TSOs to times, and times to TSOs")
    tso.add_argument("tsos", metavar="TSO", nargs="+", type=parse_tso, help=texts.TSO_FORMS)


def _add_running(commands: "argparse._SubParsersAction[Parser]") -> None:
    advance = _add_command(commands, "lake", "advance", "bring the lake to the newest checkpoint")
    _add_lake(advance)
    advance.add_argument(
        "--accept-gap",
        action="store_true",
        help="go on without records of topics that are gone; tables that may lack them are partial",
    )
    _add_format(advance, ("text", "json"))
    load = _add_command(commands, "load", "load", "start tables from an export, or from upstream")
    _add_lake(load)
    add_load_options(load)
    _add_format(load, ("text", "json"))
    maintain = _add_command(commands, "lake", "maintain", "compact small files, remove old data")
    _add_lake(maintain)
    maintain.add_argument(
        "--retain-days",
        metavar="N",
        type=parse_days,
        default=RETAIN_DAYS,
        help=f"keep what versions of so many days need, at least 7 (default: {RETAIN_DAYS})",
    )
    maintain.add_argument(
        "--expire-days",
        metavar="N",
        type=parse_days,
        help="delete older decoded records of topics from `raw` (default: keep all)",
    )
    _add_format(maintain, ("text", "json"))
    backup = _add_command(commands, "backup", "backup", "copy the lake while runs go on")
    _add_lake(backup)
    backup.add_argument("--into", metavar="DIR", required=True, help="the copy: a path or URI")


def _add_monitoring(commands: "argparse._SubParsersAction[Parser]") -> None:
    check = _add_command(commands, "check", "check", "find what is wrong, without running anything")
    _add_lake(check, "default: all that FILE declares")
    _add_format(check, ("text", "json"))
    status = _add_command(commands, "status", "status", "show how far changefeeds have got")
    _add_lake(status, "default: all that FILE declares")
    status.add_argument(
        "--max-lag",
        metavar="DURATION",
        type=parse_duration,
        help="exit code 1 if one lags further behind, such as 10m (default: $TICDC_MAX_LAG, else"
        " 10m, and no such exit code)",
    )
    status.add_argument(
        "--sizes",
        action="store_true",
        help="list all files, and show bytes by layer and what maintain would free",
    )
    _add_format(status, ("text", "json"))
    metrics = _add_command(commands, "metrics", "metrics", "serve metrics for Prometheus")
    _add_lake(metrics, "default: all that FILE declares")
    add_metrics_options(metrics)


def _add_listing(commands: "argparse._SubParsersAction[Parser]") -> None:
    tables = _add_command(commands, "show", "tables", "list tables with their rows, age and status")
    _add_lake(tables)
    _add_patterns(tables, "list")
    tables.add_argument("--all", action="store_true", help="include dropped tables")
    tables.add_argument("--paths", action="store_true", help="list Delta tables and versions")
    _add_format(tables, ("text", "json"))
    sql = _add_command(commands, "sql", "sql", "print statements for engines that read the tables")
    _add_lake(sql)
    _add_patterns(sql, "print")
    sql.add_argument(
        "--for",
        metavar="ENGINE",
        dest="engine",
        choices=tuple(ENGINES),
        required=True,
        help=f"one of {', '.join(ENGINES)}",
    )


def _add_showing(commands: "argparse._SubParsersAction[Parser]") -> None:
    show = _add_command(commands, "show", "show", "print or write tables as of any TSO")
    _add_lake(show)
    _add_at(show, "print tables as of this TSO (default: the newest applied one)")
    output = show.add_mutually_exclusive_group(required=True)
    output.add_argument(
        "table", metavar="DB.TABLE", nargs="?", type=parse_table, help="print this table's rows"
    )
    _add_out(output)
    _add_format(show, ("table", "json", "csv"))
    _add_limit(show, "print at most N rows")
    snapshot = _add_command(commands, "snapshot", "snapshot", "write all tables as of any TSO")
    _add_lake(snapshot)
    _add_at(snapshot, "write tables as of this TSO (default: the newest applied one)")
    snapshot.add_argument(
        "--into", metavar="DIR", required=True, help="a path or URI: nothing may be there yet"
    )
    _add_format(snapshot, ("delta", "parquet", "shallow"))
    dbt = _add_command(commands, "dbt", "dbt-sources", "print the tables as sources of dbt")
    _add_lake(dbt)
    _add_patterns(dbt, "describe")
    dbt.add_argument(
        "--into", metavar="FILE", type=Path, help="write FILE, or overwrite what this wrote before"
    )
    events = _add_command(commands, "events", "events", "print the events of a table by commit ts")
    _add_lake(events)
    events.add_argument("table", metavar="DB.TABLE", type=parse_table)
    _add_format(events, ("text", "json"))
    _add_limit(events, "print only the last N events")
    why = _add_command(commands, "why", "why", "print how a row came to be")
    _add_lake(why)
    why.add_argument("table", metavar="DB.TABLE", type=parse_table)
    why.add_argument(
        "key", metavar="KEY", nargs="+", help="COLUMN=VALUE, as show prints it, or the only value"
    )
    _add_format(why, ("text", "json"))
    schema = _add_command(commands, "show", "schema", "print the schema history of a table")
    _add_lake(schema)
    schema.add_argument("table", metavar="DB.TABLE", type=parse_table)
    _add_format(schema, ("text", "json"))
    quarantine = _add_command(
        commands, "quarantine", "quarantine", "list what could not be decoded or applied, and why"
    )
    _add_lake(quarantine)
    quarantine.add_argument("table", metavar="DB.TABLE", nargs="?", type=parse_table)
    _add_limit(quarantine, "print at most N reasons")
    _add_format(quarantine, ("text", "json"))
    ledger = _add_command(commands, "ledger", "ledger", "account for every input")
    _add_lake(ledger)
    _add_format(ledger, ("text", "json"))
    verify = _add_command(commands, "verify", "verify", "compare tables with the database upstream")
    _add_lake(verify)
    add_verify_options(verify)
    _add_format(verify, ("text", "json"))


def _add_repairing(commands: "argparse._SubParsersAction[Parser]") -> None:
    resume = _add_command(commands, "lake", "resume", "resume a paused table")
    _add_lake(resume)
    resume.add_argument("table", metavar="DB.TABLE", type=parse_table)
    mode = resume.add_mutually_exclusive_group()
    mode.add_argument("--skip-ddl", action="store_true", help="skip the DDL at which it stopped")
    mode.add_argument("--rebuild", action="store_true", help="rebuild it from its first event")
    rebuild = _add_command(commands, "lake", "rebuild", "rebuild tables from all their events")
    _add_lake(rebuild)
    rebuild.add_argument("tables", metavar="DB.TABLE", nargs="*", type=parse_table)
    rebuild.add_argument("--all", action="store_true", help="rebuild every table")
    rebuild.add_argument(
        "--from-raw",
        action="store_true",
        help="decode their input again first, and whatever is quarantined",
    )

    erase = _add_command(
        commands, "erase", "erase", "erase a row for good, from all that is stored"
    )
    _add_lake(erase)
    erase.add_argument("table", metavar="DB.TABLE", type=parse_table)
    erase.add_argument(
        "key",
        metavar="KEY",
        nargs="+",
        help="COLUMN=VALUE, as show prints it, or the only value; a column again: another row",
    )
    erase.add_argument("--dry-run", action="store_true", help="say what it is, and change nothing")
    _add_format(erase, ("text", "json"))


def _add_command(
    commands: "argparse._SubParsersAction[Parser]", module: str, name: str, summary: str
) -> Parser:
    command = commands.add_parser(
        name,
        help=summary,
        description=texts.DESCRIPTIONS[name],
        epilog=texts.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(module=module, command=name)
    return command


def _add_changefeed(command: Parser, which: str = "required if FILE declares several") -> None:
    source = command.add_argument_group("changefeed")
    source.add_argument(
        "--changefeeds",
        metavar="FILE",
        type=Path,
        help="declarations (default: $TICDC_CHANGEFEEDS, else ./changefeeds.toml)",
    )
    source.add_argument("--changefeed", metavar="ID", help=which)
    source.add_argument("--sink-uri", metavar="URI", help="a sink URI, instead of FILE and ID")


def _add_lake(command: Parser, which: str = "required if FILE declares several") -> None:
    _add_changefeed(command, which)
    lake = command.add_argument_group("lake")
    lake.add_argument(
        "--lake", metavar="DIR", help="path or URI (default: $TICDC_LAKE, else ./lake)"
    )


def _add_patterns(command: Parser, verb: str) -> None:
    command.add_argument(
        "patterns",
        metavar="PATTERN",
        nargs="*",
        type=parse_pattern,
        help=f"{verb} these tables only, such as 'shop.*' or '!shop.tmp*' (default: all)",
    )


def _add_at(command: Parser, help_text: str) -> None:
    command.add_argument(
        "--at",
        metavar="TSO[,TSO...]",
        type=parse_tsos,
        action="extend",
        help=f"{help_text}; {texts.TSO_FORMS}",
    )


def _add_out(group: "argparse._MutuallyExclusiveGroup") -> None:
    group.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="write every table to DIR/<tso>/<database>/<table>.jsonl, names percent-encoded",
    )


def _add_format(command: Parser, formats: tuple[str, ...]) -> None:
    listed = "json: one object per line; default" if "json" in formats else "default"
    command.add_argument(
        "--format",
        choices=formats,
        default=formats[0],
        help=f"{listed}: %(default)s",
    )


def _add_limit(command: Parser, help_text: str) -> None:
    command.add_argument("--limit", metavar="N", type=parse_count, help=help_text)
