"""The table `[changefeed.upstream]`: the database whose changes the changefeed carries.

Connections only read: those of `verify` and `load`, and those that fetch rows whose messages have
a key only, and definitions of tables that are older than the changefeed.  The password is never in
the file: `password-env` names a variable of the environment, `password-file` a file.  It is read
when a client connects.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.sink_uri import nearest

_NAMES = (
    *("host", "port", "user", "password-env", "password-file", "ca", "cert", "key"),
    *("prove-every-days", "prove-minutes"),
)
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_PORT = 4000
# What verifications found is kept for as long: the choice of a night counts what the last ones did.
_MOST_DAYS = 90
_MOST_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a connection with TLS.

    The server's certificate must be of the authority in `ca`, and for its host; `cert` and `key`
    are the client's own certificate and its private key.
    """

    ca: str
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the database is, who connects, and where the password is."""

    host: str
    user: str
    port: int = _PORT
    password: Reference | None = None
    tls: Tls | None = None
    # Every table is verified once in so many nights, each of which has so many minutes.
    prove_every_days: int | None = None
    prove_minutes: int | None = None

    @property
    def address(self) -> str:
        """The server as people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_upstream(table: Mapping[str, Any], folder: Path) -> Upstream:
    """Read the table; raise a ValueError that begins with the name and quotes no value."""
    for name in table:
        if name not in _NAMES:
            hint = "; write password-env or password-file" if name == "password" else ""
            raise ValueError(f"{name} is not one of its settings{hint or nearest(name, _NAMES)}")
    host, user = read_text(table, "host"), read_text(table, "user")
    if host is None or not _HOST.fullmatch(host):
        raise ValueError("host must be the name or the address of the database, without its port")
    if user is None:
        raise ValueError("user is missing: name one that may only read")
    port = table.get("port", _PORT)
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 1 << 16:
        raise ValueError("port must be a number from 1 to 65535")
    password = read_password(table, folder)
    tls = read_tls(table, folder)
    days = _read_number(table, "prove-every-days", _MOST_DAYS)
    minutes = _read_number(table, "prove-minutes", _MOST_MINUTES)
    if minutes is not None and days is None:
        raise ValueError("prove-minutes bounds what prove-every-days begins: set that, too")
    return Upstream(host, user, port, password, tls, days, minutes)


def read_password(table: Mapping[str, Any], folder: Path) -> Reference | None:
    """Read where the password is."""
    variable, file = read_text(table, "password-env"), read_text(table, "password-file")
    if variable and file:
        raise ValueError("password-env and password-file are both set: remove one")
    if file:
        return Reference("file", find_path(file, folder))
    return Reference("env", variable) if variable else None


def read_tls(table: Mapping[str, Any], folder: Path) -> Tls | None:
    """Read which files a connection with TLS uses."""
    named = (read_text(table, name) for name in ("ca", "cert", "key"))
    return make_tls(*(name and find_path(name, folder) for name in named))


def make_tls(ca: str | None, cert: str | None, key: str | None) -> Tls | None:
    """Return the files of a connection; raise a ValueError that names the one that is missing."""
    if (cert is None) != (key is None):
        missing, given = ("key", "cert") if key is None else ("cert", "key")
        raise ValueError(f"{missing} is missing: a client's certificate needs it beside {given}")
    if ca is not None:
        return Tls(ca, cert, key)
    if cert is not None:
        raise ValueError("ca is missing: with cert, name who signed the server's certificate, too")
    return None


def _read_number(table: Mapping[str, Any], name: str, most: int) -> int | None:
    value = table.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise ValueError(f"{name} must be a number from 1 to {most:,}")
    return value


def read_text(table: Mapping[str, Any], name: str) -> str | None:
    """Read a setting that is a text; None if it is not there."""
    value = table.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"{name} must be a string that is not empty")
    return value


def find_path(name: str, folder: Path) -> str:
    """Find a file by its path relative to that of the declaration."""
    return os.path.abspath(folder / os.path.expanduser(name))
