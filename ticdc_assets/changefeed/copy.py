"""The table `[changefeed.copy]`: a copy of the tables that another pipeline fills.

It is compared with the lake.  The password is never in the file, nor in the URI: `password-env`
names a variable of the environment, `password-file` a file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.sink_uri import nearest
from ticdc_assets.changefeed.upstream import Tls, read_password, read_text, read_tls

# What a connection to a server needs; files are read without.
OF_SERVERS = ("password-env", "password-file", "ca", "cert", "key")
ONLY_SERVERS = "has an effect only on a copy in a server, mysql:// or postgresql://: leave it out"
_NAMES = ("uri", "table-name", *OF_SERVERS)
_SERVERS = ("mysql", "postgresql", "postgres")


@dataclass(frozen=True, slots=True)
class DeclaredCopy:
    """Where the copy is, how it names tables, and where the password is."""

    uri: str
    table_name: str | None = None
    password: Reference | None = None
    tls: Tls | None = None


def read_copy(table: Mapping[str, Any], folder: Path) -> DeclaredCopy:
    """Read the table; raise a ValueError that begins with the name and quotes no value."""
    for name in table:
        if name not in _NAMES:
            raise ValueError(f"{name} is not one of its settings{nearest(name, _NAMES)}")
    uri = read_text(table, "uri")
    if uri is None:
        raise ValueError("uri is missing")
    if has_password(uri):
        raise ValueError("uri has a password in it: write password-env or password-file")
    for name in OF_SERVERS:
        if name in table and not is_server(uri):
            raise ValueError(f"{name} {ONLY_SERVERS}")
    return DeclaredCopy(
        uri,
        read_text(table, "table-name"),
        read_password(table, folder),
        read_tls(table, folder),
    )


def is_server(uri: str) -> bool:
    """Whether a copy is in a database, to which a connection is made."""
    return uri.partition(":")[0].lower() in _SERVERS


def has_password(uri: str) -> bool:
    """Whether a URI of a server has a password in it."""
    try:
        return urlsplit(uri).password is not None
    except ValueError:
        return False
