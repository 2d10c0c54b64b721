"""A server on loopback that speaks MySQL's protocol, and stands for the database upstream."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from tests.servers import HOST
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.upstream import Upstream

USER, PASSWORD, VARIABLE = "verify", "correct-horse-7", "TICDC_TEST_UPSTREAM_PASSWORD"
# Every value as the server prints it.
_CONVERSIONS = {
    **{kind: write for kind, write in conversions.items() if not isinstance(kind, int)},
    **dict.fromkeys((FIELD_TYPE.LONGLONG, FIELD_TYPE.LONG), int),
}
Statement = str | tuple[str, Sequence[Any]]


@dataclass(frozen=True)
class SqlServer:
    """A running server; `run` may do everything, the declared user only reads."""

    port: int
    upstream: Upstream

    def connect(self) -> pymysql.Connection:
        """Connect as the owner."""
        return pymysql.connect(
            host=HOST,
            port=self.port,
            user="root",
            charset="utf8mb4",
            conv=_CONVERSIONS,
            autocommit=True,
            init_command="SET SESSION sql_mode = '', time_zone = '+00:00'",
        )

    def run(self, *statements: Statement) -> list[tuple[Any, ...]]:
        """Run statements as the owner, and return the rows of the last one."""
        with self.connect() as connection:
            return run_on(connection, *statements)

    @property
    def declared(self) -> str:
        """The declaration of this server, behind that of a changefeed."""
        return (
            f'[changefeed.upstream]\nhost = "{HOST}"\nport = {self.port}\n'
            f'user = "{USER}"\npassword-env = "{VARIABLE}"\n'
        )

    def declare(self, file: Path) -> Path:
        """Write the declaration of a changefeed `f` whose upstream this is."""
        changefeed = '[[changefeed]]\nid = "f"\nsink-uri = "file:///nowhere?protocol=csv"\n'
        file.write_text(changefeed + self.declared)
        return file

    def make_user(self) -> None:
        """Create the declared user, who may read everything."""
        for host in (HOST, "localhost"):
            self.run(
                f"CREATE USER IF NOT EXISTS {USER}@'{host}' IDENTIFIED BY '{PASSWORD}'",
                f"GRANT SELECT ON *.* TO {USER}@'{host}'",
            )
        os.environ[VARIABLE] = PASSWORD


def declare_upstream(port: int) -> Upstream:
    """Return the declaration of a server."""
    return Upstream(HOST, USER, port, Reference("env", VARIABLE))


def run_on(connection: pymysql.Connection, *statements: Statement) -> list[tuple[Any, ...]]:
    """Run statements on a connection, and return the rows of the last one."""
    with connection.cursor() as cursor:
        for statement in statements:
            sql, values = (statement, None) if isinstance(statement, str) else statement
            cursor.execute(sql, values)
        return list(cursor.fetchall())
