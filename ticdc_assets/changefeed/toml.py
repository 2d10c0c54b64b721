"""The changefeed's own TOML, as it was given to `cdc cli changefeed create --config`.

`known_settings` lists every setting that TiCDC accepts there; any other name is an error, as there.
`ChangefeedToml` checks the types of values; `declaration` decides which settings are used and what
they mean.  No error of this module quotes a value.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ticdc_assets.changefeed.known_settings import FOREIGN, KAFKA_CONNECTION, KNOWN, LISTS
from ticdc_assets.changefeed.sink_uri import nearest
from ticdc_assets.errors import ConfigError


class ChangefeedToml:
    """The settings of one changefeed TOML by their dotted names; None for a setting it leaves out.

    It holds credentials and therefore never prints its content.
    """

    __slots__ = ("_content", "file")

    def __init__(self, content: Mapping[str, Any] | None = None, file: str | None = None) -> None:
        self._content = content or {}
        self.file = file
        self._check(self._content, "", "")

    def __repr__(self) -> str:
        return f"<changefeed TOML {self.file}>"

    def flag(self, name: str) -> bool | None:
        value = self._get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error("must be true or false", name)
        return value

    def integer(self, name: str) -> int | None:
        value = self._get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise self.error("must be a whole number", name)
        return value

    def text(self, name: str) -> str | None:
        value = self._get(name)
        if value is not None and not isinstance(value, str):
            raise self.error("must be a string", name)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error("must be a list of strings", name)
        return tuple(value)

    def is_set(self, name: str) -> bool:
        """Return whether a setting is there and neither false, 0 nor empty."""
        return bool(self._get(name))

    def rows(self, name: str) -> "Iterator[ChangefeedRow]":
        """Yield the tables of a list of tables, such as the dispatchers."""
        for number, row in enumerate(self._get(name) or ()):
            yield ChangefeedRow(row, f"{name}[{number}]", self.file)

    def connection(self) -> dict[str, str]:
        """Return the connection settings of `[sink.kafka-config]`, credentials included."""
        values = ((name, self._get(f"sink.kafka-config.{name}")) for name in KAFKA_CONNECTION)
        return {name: _as_text(value) for name, value in values if value is not None}

    def error(self, reason: str, name: str) -> ConfigError:
        return ConfigError(reason, file=self.file, setting=name)

    def _get(self, name: str) -> Any:
        value: Any = self._content
        for part in name.split("."):
            if (value := value.get(part)) is None:
                return None
        return value

    def _check(self, content: Mapping[str, Any], table: str, shown: str) -> None:
        for name, value in content.items():
            path = f"{table}.{name}" if table else name
            place = f"{shown}.{name}" if shown else name
            if name not in KNOWN[table]:
                raise self.error("is not a setting of TiCDC" + _hint(name, table), place)
            if path in LISTS:
                if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
                    raise self.error(f"must be a list of tables, written [[{path}]]", place)
                for number, row in enumerate(value):
                    self._check(row, path, f"{place}[{number}]")
            elif path in KNOWN or path in FOREIGN:
                if not isinstance(value, dict):
                    raise self.error(f"must be a table, written [{path}]", place)
                if path in KNOWN:
                    self._check(value, path, place)
            elif isinstance(value, dict):
                raise self.error("must be a value, not a table", place)


class ChangefeedRow(ChangefeedToml):
    """One table of a list of tables, checked with the whole file."""

    __slots__ = ("_place",)

    def __init__(self, content: Mapping[str, Any], place: str, file: str | None) -> None:
        self._content = content
        self._place = place
        self.file = file

    def error(self, reason: str, name: str) -> ConfigError:
        return super().error(reason, f"{self._place}.{name}")


def read_changefeed_toml(path: Path) -> ChangefeedToml:
    """Read the file given to `--config` and check that TiCDC knows every setting in it."""
    return ChangefeedToml(read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise a `ConfigError` with one sentence if that fails."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError("no such file", file=str(path)) from None
    except OSError as error:
        raise ConfigError(error.strerror or "cannot be read", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8: save it as UTF-8", file=str(path)) from None
    except ValueError as error:
        # The parser names positions and keys, never values.
        raise ConfigError(f"is not TOML: {error}", file=str(path)) from None
    except RecursionError:
        raise ConfigError("is nested too deeply", file=str(path)) from None


def _hint(name: str, table: str) -> str:
    """Return a hint: the table in which the setting belongs, else the most similar setting."""
    for home, names in KNOWN.items():
        if name in names:
            return f"; it belongs in [{home}]" if home else "; it belongs at the top of the file"
    return nearest(name, KNOWN[table])


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)
