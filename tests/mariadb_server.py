"""A real MariaDB on loopback: an upstream that is not TiDB."""

import getpass
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import HOST, free_port, run_server, wait_for_port
from tests.sql_server import SqlServer, declare_upstream

_INSTALL = ("--auth-root-authentication-method=normal", "--skip-test-db")


class MariaDb(SqlServer):
    """A running MariaDB."""


@contextmanager
def run_mariadb(folder: Path, *settings: str) -> Iterator[MariaDb]:
    """Run a server that keeps its data below a folder; `settings` are of its command line."""
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
    command += settings
    # What a test loads need not survive a power failure.
    command += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=128M"]
    with run_server(command, folder, "mariadb") as process:
        wait_for_port(process, port, folder / "mariadb.log")
        running = MariaDb(port, declare_upstream(port))
        running.make_user()
        yield running
