"""The option `--log` of commands that run for long, which logs collect."""

import argparse
from collections.abc import Mapping

_COMMANDS = ("advance", "load", "maintain", "verify", "resume", "rebuild", "erase")


def add_log_options(commands: Mapping[str, argparse.ArgumentParser]) -> None:
    """Add the option to the commands that have it."""
    for name in _COMMANDS:
        commands[name].add_argument(
            "--log",
            choices=("text", "json"),
            default="text",
            help="what standard error has: json is one object per line; default: %(default)s",
        )
