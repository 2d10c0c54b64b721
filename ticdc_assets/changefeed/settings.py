"""The settings of a changefeed's sink URI and of its TOML, read as one.

A setting has the name of its place in the TOML; in the URI it has the last part of that name, and
the URI wins.  This module only reads; `declaration` decides which settings there are and which
contradict each other.  No error quotes a value.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ticdc_assets.changefeed.sink_uri import SinkUri, list_choices
from ticdc_assets.changefeed.toml import ChangefeedToml
from ticdc_assets.errors import ConfigError

L = TypeVar("L", bound=str)
T = TypeVar("T")


class Settings:
    """The settings of URI and TOML together; a setting in neither has its default."""

    __slots__ = ("_toml", "_uri")

    def __init__(self, uri: SinkUri, toml: ChangefeedToml) -> None:
        self._uri = uri
        self._toml = toml

    def flag(self, name: str, default: bool = False) -> bool:
        in_uri, in_toml = self._uri.flag(_last(name)), self._toml.flag(name)
        return next((value for value in (in_uri, in_toml) if value is not None), default)

    def integer(self, name: str, least: int, most: int, reason: str) -> int | None:
        in_uri, in_toml = self._uri.integer(_last(name)), self._toml.integer(name)
        value = in_toml if in_uri is None else in_uri
        if value is not None and not least <= value <= most:
            raise self.error(reason, name)
        return value

    def text(self, name: str, default: str = "") -> str:
        return self._uri.text(_last(name)) or self._toml.text(name) or default

    def raw_text(self, name: str, default: str) -> str:
        """Read a text that may be set to the empty text."""
        value = self._toml.text(name)
        return default if value is None else value

    def one_of(self, name: str, allowed: Sequence[L], *, fold: bool = False) -> L:
        """Read a text that must be one of these, the first being the default; `fold` its case."""
        value = self.text(name, allowed[0])
        value = value.lower() if fold else value
        for known in allowed:
            if value == known:
                return known
        raise self.error(f"must be {list_choices(allowed)}", name)

    def read(self, name: str, read: Callable[[str], T], default: T) -> T:
        """Read a text with a function that raises ValueError."""
        try:
            return read(value) if (value := self.text(name)) else default
        except ValueError as error:
            raise self.error(str(error), name) from None

    def error(self, reason: str, name: str) -> ConfigError:
        """Make an error that names the place of the setting: the URI if it is there."""
        if _last(name) in self._uri.parameters:
            return self._uri.error(reason, _last(name))
        return self._toml.error(reason, name)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
