"""A real MariaDB on loopback, which stands for the database upstream."""

import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from tests.servers import HOST, free_port, run_server, wait_for_port
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.upstream import Upstream

_INSTALL = ("--auth-root-authentication-method=normal", "--skip-test-db")
USER, PASSWORD, VARIABLE = "verify", "correct-horse-7", "TICDC_TEST_UPSTREAM_PASSWORD"


@dataclass(frozen=True)
class MariaDb:
    """A running server; `run` may do everything, the declared user only reads."""

    port: int
    upstream: Upstream

    def run(self, *statements: str | tuple[str, Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Run statements as the owner, and return the rows of the last one."""
        with (
            pymysql.connect(
                host=HOST,
                port=self.port,
                user="root",
                charset="utf8mb4",
                # Every value as the server prints it.
                conv={
                    **{
                        kind: write
                        for kind, write in conversions.items()
                        if not isinstance(kind, int)
                    },
                    **dict.fromkeys((FIELD_TYPE.LONGLONG, FIELD_TYPE.LONG), int),
                },
                autocommit=True,
                init_command="SET SESSION sql_mode = '', time_zone = '+00:00'",
            ) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                sql, values = (statement, None) if isinstance(statement, str) else statement
                cursor.execute(sql, values)
            return list(cursor.fetchall())

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


@contextmanager
def run_mariadb(folder: Path) -> Iterator[MariaDb]:
    """Run a server that keeps its data below a folder."""
    server = shutil.which("mariadbd")
    install = shutil.which("mariadb-install-db")
    if server is None or install is None:
        # It comes with the system: no dependency of the project could install it.
        pytest.skip("no mariadbd (Debian: apt-get install mariadb-server)")
    data = folder / "data"
    subprocess.run(
        [install, "--no-defaults", f"--datadir={data}", *_INSTALL],
        check=True,
        capture_output=True,
    )
    port = free_port()
    command = [server, "--no-defaults", f"--datadir={data}", f"--socket={folder}/socket"]
    command += [f"--user={getpass.getuser()}", f"--port={port}"]
    command += [f"--bind-address={HOST}", f"--pid-file={folder}/pid"]
    # What a test loads need not survive a power failure.
    command += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=128M"]
    with run_server(command, folder, "mariadb") as process:
        wait_for_port(process, port, folder / "mariadb.log")
        password = Reference("env", VARIABLE)
        running = MariaDb(port, Upstream(HOST, USER, port, password))
        running.run(
            f"CREATE USER {USER}@'{HOST}' IDENTIFIED BY '{PASSWORD}'",
            f"CREATE USER {USER}@localhost IDENTIFIED BY '{PASSWORD}'",
            f"GRANT SELECT ON *.* TO {USER}@'{HOST}'",
            f"GRANT SELECT ON *.* TO {USER}@localhost",
        )
        os.environ[VARIABLE] = PASSWORD
        yield running
