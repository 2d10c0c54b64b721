"""`tso`: TSOs as times, and times as TSOs."""

import argparse

from ticdc_assets.cli.output import say
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso_text import describe_unix_time, format_exact_time


def tso(options: argparse.Namespace) -> int:
    """Print each TSO with its time."""
    for ts in options.tsos:
        if reason := describe_unix_time(ts):
            raise ConfigError(reason, setting="TSO")
    for ts in options.tsos:
        say(f"{ts}  {format_exact_time(ts)}")
    return 0
