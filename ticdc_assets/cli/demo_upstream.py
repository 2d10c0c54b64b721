"""The TiDB on which the simulated shop works, if it does not work in memory."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.cli.process_groups import Process, ProcessGroups, wait_for_port
from ticdc_assets.demo.on_tidb import MARKER, OnTidb
from ticdc_assets.demo.recorder import Recorder
from ticdc_assets.demo.shop import DATABASE
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.spark_server import find_free_port
from ticdc_assets.resources.upstream import DENIED, UpstreamDatabase
from ticdc_assets.upstream.snapshot import Row, RowsUnreadable, UpstreamRows
from ticdc_assets.upstream.sql import quote, quote_text

SETTING = "--upstream"
# The value that lets `dev` start a server.
OWN_SERVER = "tidb"
PASSWORD = "TICDC_DEMO_PASSWORD"
_FORM = "must be mysql:// and USER@HOST:PORT"
_HOST = "127.0.0.1"
_PORT = 4000
_TIMEOUT = 60
# A value that a column cannot hold is an error, as it is for most who use TiDB.
_STRICT = "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'"


def parse_address(address: str) -> Upstream:
    """Return the server of an address; its password is in the environment."""
    try:
        parts = urlsplit(address)
        port = parts.port or _PORT
    except ValueError:
        raise ConfigError(_FORM, setting=SETTING) from None
    if parts.password is not None:
        reason = f"the password must be in the environment, as {PASSWORD}"
        raise ConfigError(reason, setting=SETTING)
    has_more = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme != "mysql" or not parts.hostname or not parts.username or has_more:
        raise ConfigError(_FORM, setting=SETTING)
    password = Reference("env", PASSWORD) if os.environ.get(PASSWORD) else None
    return Upstream(parts.hostname, unquote(parts.username), port, password)


@contextmanager
def open_database(upstream: Upstream | None) -> Iterator[OnTidb | None]:
    """Open the database of the shop on a server, emptied; None if the shop works in memory."""
    if upstream is None:
        yield None
        return
    server = _Server(DATABASE, upstream)
    with server.open_rows() as first, server.open_rows() as second:
        if not first.is_tidb:
            raise ConfigError(f"{upstream.address} is no TiDB", setting=SETTING)
        writer = _Connection(first)
        writer.query(_STRICT)
        _remove_earlier(writer, upstream)
        yield OnTidb(Recorder(writer, _Connection(second), DATABASE))


def _remove_earlier(connection: "_Connection", upstream: Upstream) -> None:
    """Remove the shop of an earlier run, and nothing that anybody else made."""
    # For TiDB, names that differ in case are the same.
    of_database = f"FROM information_schema.{{}} WHERE LOWER(table_schema) = {quote_text(DATABASE)}"
    schemata = of_database.format("schemata").replace("table_schema", "schema_name")
    if not connection.query(f"SELECT 1 {schemata}"):
        return
    marker = f"SELECT 1 {of_database.format('tables')} AND table_name = {quote_text(MARKER)}"
    if not connection.query(marker):
        reason = (
            f"{upstream.address} has a database {DATABASE} that this program did not make: it is"
            " left as it is; name a server that has none"
        )
        raise ConfigError(reason, setting=SETTING)
    connection.query(f"DROP DATABASE {quote(DATABASE)}")


@dataclass(frozen=True)
class _Connection:
    """A connection of which every error is for the user."""

    rows: UpstreamRows

    def query(self, sql: str) -> Sequence[Row]:
        try:
            return self.rows.query(sql)
        except RowsUnreadable as error:
            reason = f"{error}; the shop has to be the only writer of its database: start it anew"
            raise ConfigError(reason, setting=SETTING) from None


@dataclass(frozen=True)
class _Server(UpstreamDatabase):
    """A server of which every error names the option, and what the shop needs."""

    def place(self, setting: str = "") -> str:
        return SETTING

    def advise(self, code: int) -> str:
        if code in DENIED:
            return (
                f"check the user, and its password in {PASSWORD}; grant it all rights on"
                f" {DATABASE}.*, and SELECT on mysql.tidb_ddl_job and mysql.tidb_ddl_history"
            )
        return f"{self.upstream.address} must be reachable; start it anew"


def start_server(processes: ProcessGroups, folder: Path) -> str:
    """Start a TiDB whose rows are in memory, and return its address."""
    binary = Path(sys.prefix) / "tidb-server"
    if not binary.is_file():
        reason = "is not built: `make .venv/tidb-server` builds it, and needs Go 1.21 or newer"
        raise ConfigError(reason, file=str(binary))
    folder.mkdir(parents=True, exist_ok=True)
    port = find_free_port()
    # What it keeps in a folder for temporary files, it leaves there.
    command = ["env", f"TMPDIR={folder}", str(binary), "-port", str(port)]
    server: Process = processes.start(command, quiet=True, folder=folder)
    if not wait_for_port(server, f"{_HOST}:{port}", _TIMEOUT):
        raise ConfigError("TiDB did not start", file=str(binary))
    return f"mysql://root@{_HOST}:{port}"
