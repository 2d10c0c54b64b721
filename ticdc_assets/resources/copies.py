"""Open the copy that `verify --against` names by a URI.

A URI has no password: it would be in the list of processes, and in the history of the shell.
"""

import os
from urllib.parse import unquote, urlsplit

from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.copy import DeclaredCopy
from ticdc_assets.changefeed.upstream import Tls, Upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.copy_databases import DuckDbCopy, MySqlCopy, PostgresCopy
from ticdc_assets.resources.copy_files import FolderCopy
from ticdc_assets.resources.copy_names import FOLDERS, WAREHOUSES, make_templates
from ticdc_assets.safe_text import remember_secret
from ticdc_assets.verify.batches import Copy

_SETTING = "--against"

_FORMS = (
    "must begin with delta:, parquet:, iceberg: or duckdb: and a path, or be"
    " mysql://USER@HOST:PORT/DATABASE or postgresql://USER@HOST:PORT/DATABASE"
)
_PASSWORD = "has a password in it: leave it out, and name it with --password-env or --password-file"
_MYSQL_PORT, _POSTGRES_PORT = 3306, 5432


def open_copy(
    uri: str,
    *,
    table_name: str | None = None,
    password: Reference | None = None,
    tls: Tls | None = None,
) -> Copy:
    """Open a copy; nothing is read yet."""
    scheme, _, rest = uri.partition(":")
    match scheme.lower():
        case "delta":
            return FolderCopy("delta", _find_path(rest), make_templates(table_name, FOLDERS))
        case "parquet":
            return FolderCopy("parquet", _find_path(rest), make_templates(table_name, FOLDERS))
        case "iceberg":
            return FolderCopy("iceberg", _find_path(rest), make_templates(table_name, WAREHOUSES))
        case "duckdb":
            names = ("{schema}.{table}", "{table}")
            return DuckDbCopy(_find_path(rest), make_templates(table_name, names))
        case "mysql":
            server, schema = _read_server(uri, _MYSQL_PORT, password, tls)
            default = "{table}" if schema else "{schema}.{table}"
            return MySqlCopy(server, schema, make_templates(table_name, (default,)))
        case "postgresql" | "postgres":
            server, dbname = _read_server(uri, _POSTGRES_PORT, password, tls)
            names = ("{schema}.{table}", "{table}")
            return PostgresCopy(server, dbname or server.user, make_templates(table_name, names))
        case _:
            raise ConfigError(_FORMS, setting=_SETTING)


def open_declared_copy(declared: DeclaredCopy) -> Copy:
    """Open the copy that a changefeed declares."""
    return open_copy(
        declared.uri,
        table_name=declared.table_name,
        password=declared.password,
        tls=declared.tls,
    )


def _find_path(rest: str) -> str:
    """Return a path, also of a URI with two slashes more, or the URI of an object store."""
    if not rest.strip("/"):
        raise ConfigError(_FORMS, setting=_SETTING)
    if "://" in rest:
        return rest
    return os.path.abspath(os.path.expanduser(rest.removeprefix("//")))


def _read_server(
    uri: str, port: int, password: Reference | None, tls: Tls | None
) -> tuple[Upstream, str]:
    """Read the server and the database of a URI."""
    try:
        parts = urlsplit(uri)
        stated = parts.port
    except ValueError:
        raise ConfigError(_FORMS, setting=_SETTING) from None
    if parts.password is not None:
        remember_secret(unquote(parts.password))
        raise ConfigError(_PASSWORD, setting=_SETTING)
    if not parts.hostname or not parts.username or parts.query or parts.fragment:
        raise ConfigError(_FORMS, setting=_SETTING)
    user, host = unquote(parts.username), parts.hostname
    server = Upstream(host, user, stated or port, password, tls)
    return server, unquote(parts.path.removeprefix("/"))
