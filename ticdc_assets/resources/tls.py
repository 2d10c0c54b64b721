"""The files of a connection with TLS, as the clients of databases take them."""

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ticdc_assets.changefeed.upstream import Tls
from ticdc_assets.errors import ConfigError

SETTINGS = ("ca", "cert", "key")


def require_files(tls: Tls | None, place: Callable[[str], str]) -> None:
    """Raise a `ConfigError` that names the setting of a file that cannot be read."""
    for name in SETTINGS if tls is not None else ():
        file = getattr(tls, name)
        if file is not None and not os.access(file, os.R_OK):
            raise ConfigError(f"the file cannot be read: {file}", setting=place(name))


def list_for_mysql(tls: Tls | None) -> dict[str, Any]:
    """List the parameters of a connection of pymysql."""
    if tls is None:
        return {"ssl_disabled": True}
    verified = {"ssl_ca": tls.ca, "ssl_verify_cert": True, "ssl_verify_identity": True}
    if tls.cert is None:
        return verified
    # With a password, the client does not ask for that of an encrypted key.
    return verified | {"ssl_cert": tls.cert, "ssl_key": tls.key, "ssl_key_password": ""}


def write_for_postgresql(tls: Tls | None) -> str:
    """Write the parameters of a URI of PostgreSQL's."""
    if tls is None:
        return ""
    files = {"sslrootcert": tls.ca, "sslcert": tls.cert, "sslkey": tls.key}
    named = (f"&{name}={quote(file, safe='')}" for name, file in files.items() if file)
    return "?sslmode=verify-full" + "".join(named)


def is_of_tls(text: str) -> bool:
    """Whether an error of pymysql is one of TLS."""
    return "[SSL" in text
