"""The options of `load`, named as Dumpling names its own."""

import argparse

from ticdc_assets.cli.option_values import parse_table


def add_load_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `load`."""
    command.add_argument(
        "dir", metavar="DIR", help="the export: a folder, or a URI like a sink URI"
    )
    command.add_argument(
        "--table",
        metavar="DB.TABLE",
        action="append",
        default=[],
        type=parse_table,
        help="load this table; may be repeated (default: all tables of the export)",
    )
    command.add_argument(
        "--time-zone",
        metavar="ZONE",
        help="the zone in which Dumpling read TIMESTAMPs: the server's, or its --params time_zone",
    )
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
