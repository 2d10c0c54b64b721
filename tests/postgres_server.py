"""A real PostgreSQL on loopback, for copies in one."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from adbc_driver_postgresql import dbapi

from tests.servers import HOST, free_port, wait_for_port

OWNER, PASSWORD = "owner", "battery-staple-9"
# Of each version, as Debian installs them.
_PROGRAMS = Path("/usr/lib/postgresql")
# How `pg_isready` ends while a server starts.
_STARTING = 1
# It does not run as root.
_AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")


@dataclass(frozen=True)
class Postgres:
    """A running server, whose owner needs a password."""

    port: int

    def run(self, *statements: str) -> None:
        """Run statements as the owner."""
        uri = f"postgresql://{OWNER}:{PASSWORD}@{HOST}:{self.port}/postgres"
        with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    @property
    def uri(self) -> str:
        return f"postgresql://{OWNER}@{HOST}:{self.port}/postgres"


@contextmanager
def run_postgres(
    folder: Path, settings: Mapping[str, str] = {}, access: str = ""
) -> Iterator[Postgres]:
    """Run a server that keeps its data below a folder; `access` states who may connect, and how."""
    installed = sorted(_PROGRAMS.glob("*/bin/postgres"))
    if not installed:
        # It comes with the system: no dependency of the project could install it.
        pytest.skip("no PostgreSQL (Debian: apt-get install postgresql)")
    programs = installed[-1].parent
    as_user = _AS_POSTGRES if os.getuid() == 0 else ()
    if as_user:
        shutil.chown(folder, "postgres", "postgres")
        for parent in [folder, *folder.parents][:-2]:
            parent.chmod(parent.stat().st_mode | 0o011)
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    install = [*as_user, programs / "initdb", "-D", folder / "data", "-U", OWNER]
    install += ["-A", "scram-sha-256", "--pwfile", folder / "password"]
    install += ["-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
    subprocess.run(install, check=True, capture_output=True, cwd="/tmp")
    if access:
        (folder / "data" / "pg_hba.conf").write_text(access)
    port = free_port()
    command = [*as_user, programs / "postgres", "-D", folder / "data", "-h", HOST, "-F"]
    command += ["-p", str(port), "-k", folder]
    command += [f"--{name}={value}" for name, value in settings.items()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd="/tmp", stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_port(process, port, folder / "log")
        # It listens before it lets anybody in.
        is_ready = [programs / "pg_isready", "--quiet", "-h", HOST, "-p", str(port)]
        while subprocess.run(is_ready).returncode == _STARTING:
            time.sleep(0.05)
        yield Postgres(port)
    finally:
        # At once: it would wait for clients otherwise.
        process.send_signal(2)
        process.wait(30)
