"""The parser of the command line: its errors are one line, and name what was given and what to do.

A secret can be anywhere in a wrong command line, so what may hold one is not quoted.
"""

import argparse
import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from ticdc_assets.cli.output import say, warn
from ticdc_assets.safe_text import quote_given, redact
from ticdc_assets.version import VERSION

# How argparse quotes arguments: the value after these words, up to the choices that it lists.
_QUOTED_VALUE = re.compile(
    r"(invalid choice|invalid \w+ value|ignored explicit argument): .*?(?=( \(choose from .*)?$)",
    re.DOTALL,
)
_UNKNOWN_COMMAND = re.compile(r"argument COMMAND: invalid choice: (.*) \(choose from .*", re.DOTALL)
_AMBIGUOUS = re.compile(r"(?<=ambiguous option: )\S*?=.*(?= could match )", re.DOTALL)
_OPTION = re.compile(r"(--?[a-z][a-z-]*)(=.*)?", re.DOTALL)
_LEAST_RATIO = 0.7
# A value, not an option: `--at -10m`.
_BEGINS_AS_NUMBER = re.compile(r"-\.?[0-9]")


class Parser(argparse.ArgumentParser):
    """A parser of a command, or of all of them."""

    # Parameters: those of argparse.
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = _BEGINS_AS_NUMBER
        self._commands: dict[str, Parser] = {}

    def add_commands(self) -> "argparse._SubParsersAction[Parser]":
        """Add the argument that names a command; each has a parser of its own."""
        commands = self.add_subparsers(required=True, metavar="COMMAND")
        self._commands = commands.choices
        return commands

    # Parameters: those of argparse.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse a command line; report what is unknown under the name of its command."""
        given = list(args or ())
        # Before anything that only follows from it, such as a value in the wrong place.
        if not self._commands and (place := self._find_unknown_option(given)) is not None:
            self._report_unknown(given[place : place + 2])
        options, unknown = super().parse_known_args(given, namespace)
        if unknown:
            self._report_unknown(unknown)
        return options, []

    def _find_unknown_option(self, arguments: Sequence[str]) -> int | None:
        for place, word in enumerate(arguments):
            name = word.partition("=")[0]
            if name == "--":
                return None
            # Options can be abbreviated.
            if name.startswith("--") and not any(
                option.startswith(name) for option in self._option_string_actions
            ):
                return place
        return None

    def _report_unknown(self, unknown: Sequence[str]) -> NoReturn:
        """Report arguments that the command does not take."""
        names = [name.lstrip("-") for name in self._option_string_actions if name != "--help"]
        hints = [
            f"; did you mean --{near[0]}?"
            for word in unknown
            if (option := _OPTION.fullmatch(word))
            and (near := get_close_matches(option[1].lstrip("-"), names, 1, _LEAST_RATIO))
        ]
        self.error(f"unrecognized arguments: {_name_unknown(unknown)}{''.join(hints[:1])}")

    def error(self, message: str) -> NoReturn:
        """End the process with one line."""
        message = _AMBIGUOUS.sub("…", _QUOTED_VALUE.sub(_quote_value, message))
        if unknown := _UNKNOWN_COMMAND.fullmatch(message):
            message = f"there is no command {unknown[1]}"
            near = get_close_matches(unknown[1].strip("'"), self._commands, n=1)
            message += f"; did you mean {near[0]}?" if near else ""
        message = redact(" ".join(message.split()))
        see = " See" if message.endswith("?") else "; see"
        warn(f"{self.prog}: {message}{see} {self.prog} --help")
        self.exit(2)


class ShowVersion(argparse.Action):
    """`--version`."""

    # Parameters: those of argparse.
    def __call__(self, *_: Any) -> NoReturn:
        say(f"ticdc-assets {VERSION}")
        raise SystemExit(0)


def _quote_value(match: re.Match[str]) -> str:
    """Quote a value as argparse does, or hide it."""
    return match[0] if redact(match[0]) == match[0] else f"{match[1]}: …"


def _name_unknown(arguments: Sequence[str]) -> str:
    """Name arguments; what follows an unknown option may be its secret."""
    named = []
    follows_option = False
    for word in arguments:
        option = _OPTION.fullmatch(word)
        if option is not None:
            named.append(option[1])
        else:
            named.append("…" if follows_option else quote_given(word))
        follows_option = option is not None
    return " ".join(named)


def find_bytes_that_are_not_utf8(arguments: Sequence[str]) -> str | None:
    """Name what is not UTF-8 among arguments and settings: no Delta log could hold it."""
    for number, argument in enumerate(arguments, 1):
        if not _is_utf8(argument):
            return f"argument {number} of the command line"
    settings = (name for name in os.environ if name.startswith("TICDC_"))
    return next((name for name in settings if not _is_utf8(os.environ[name])), None)


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
