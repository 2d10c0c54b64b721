"""The options of `load` and `verify`; those of an export are named as Dumpling names them."""

import argparse

from ticdc_assets.cli import texts
from ticdc_assets.cli.option_values import (
    parse_count,
    parse_percent,
    parse_seconds,
    parse_table,
    parse_tso,
)


def add_load_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `load`."""
    command.add_argument(
        "dir", metavar="DIR", nargs="?", help="the export: a folder, or a URI like a sink URI"
    )
    command.add_argument(
        "--from-upstream",
        action="store_true",
        help="read the database that [changefeed.upstream] declares, in place of an export",
    )
    command.add_argument(
        "--table",
        metavar="DB.TABLE",
        action="append",
        default=[],
        type=parse_table,
        help="load this table; may be repeated (default: all tables)",
    )
    command.add_argument(
        "--time-zone",
        metavar="ZONE",
        help="the zone in which Dumpling read TIMESTAMPs: the server's, or its --params time_zone",
    )
    upstream = command.add_argument_group("with --from-upstream")
    upstream.add_argument(
        "--at",
        metavar="TSO",
        type=parse_tso,
        help="load the rows as of this TSO (default: the newest); not TiDB: what TSO it is now; "
        + texts.TSO_FORMS,
    )
    _add_limits(upstream)
    given = command.add_argument_group("as given to dumpling")
    given.add_argument(
        "--escape-backslash", choices=("true", "false"), default="true", help="default: %(default)s"
    )
    given.add_argument("--csv-separator", metavar="TEXT", default=",", help="default: %(default)s")
    given.add_argument("--csv-delimiter", metavar="TEXT", default='"', help="default: %(default)s")
    given.add_argument(
        "--csv-null-value", metavar="TEXT", default="\\N", help="default: %(default)s"
    )
    given.add_argument(
        "--csv-line-terminator", metavar="TEXT", help=r"\r\n or \n (default: as rows end)"
    )
    given.add_argument(
        "--csv-output-dialect",
        choices=("snowflake", "redshift", "bigquery"),
        default="",
        help="how bytes are written (default: as they are)",
    )
    given.add_argument("--no-header", action="store_true", help="CSV files have no header")


def add_verify_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `verify`."""
    chosen = command.add_mutually_exclusive_group()
    chosen.add_argument(
        "--table",
        metavar="DB.TABLE",
        action="append",
        type=parse_table,
        help="compare this table only; may be given several times (default: all)",
    )
    chosen.add_argument(
        "--share",
        action="store_true",
        help="compare tonight's share of the tables, by the setting prove-every-days",
    )
    limits = command.add_argument_group("load on the database")
    _add_limits(limits)
    limits.add_argument(
        "--wait",
        metavar="SECONDS",
        type=parse_seconds,
        help="not with TiDB: how long a difference may last before it counts (default: 60)",
    )
    _add_copy_options(
        command.add_argument_group("a copy of another pipeline, in place of the database")
    )


def _add_copy_options(copy: "argparse._ArgumentGroup") -> None:
    """Add the options that name a copy, and what it is compared with."""
    copy.add_argument(
        "--against",
        metavar="URI",
        help="compare this copy: delta:PATH, parquet:PATH, iceberg:PATH, duckdb:FILE,"
        " mysql://USER@HOST:PORT/DATABASE or postgresql://USER@HOST:PORT/DATABASE",
    )
    copy.add_argument(
        "--upstream",
        action="store_true",
        default=None,
        help="compare it with the TiDB that [changefeed.upstream] declares, in place of the lake",
    )
    copy.add_argument(
        "--at",
        metavar="TSO",
        type=parse_tso,
        help="the TSO that the copy has reached (default: the newest applied one; with --upstream,"
        " the newest of TiDB); " + texts.TSO_FORMS,
    )
    copy.add_argument(
        "--table-name",
        metavar="TEMPLATE",
        help="how the copy names tables, such as '{schema}_{table}' (default: {schema}/{table} or"
        " {schema}.{table})",
    )
    copy.add_argument(
        "--sample",
        metavar="PERCENT",
        type=parse_percent,
        help="compare so many percent of the keys, chosen by chance (default: 100)",
    )
    copy.add_argument(
        "--password-env", metavar="NAME", help="the environment variable with the password"
    )
    copy.add_argument("--password-file", metavar="FILE", help="the file with the password")
    copy.add_argument(
        "--ca", metavar="FILE", help="use TLS; the server's certificate must be of this authority"
    )
    copy.add_argument("--cert", metavar="FILE", help="with --ca: the client's own certificate")
    copy.add_argument("--key", metavar="FILE", help="the private key of --cert")


def _add_limits(group: "argparse._ArgumentGroup") -> None:
    """Add the options that bound the load on the database upstream."""
    group.add_argument(
        "--max-connections",
        metavar="N",
        type=parse_count,
        help="tables read at a time, TiDB only (default: 4)",
    )
    group.add_argument("--rows-per-second", metavar="N", type=parse_count, help="default: no limit")


def read_limits(options: argparse.Namespace) -> dict[str, int]:
    """Return the bounds on the load on the database that were given."""
    names = ("max_connections", "rows_per_second")
    return {name: value for name in names if (value := getattr(options, name)) is not None}
