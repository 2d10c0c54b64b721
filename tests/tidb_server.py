"""A real TiDB on loopback, of the sources in `tests/tidb`: its SQL layer over embedded storage.

`make test` builds it.  It has no TiKV, so no regions and no garbage collector: `collect_garbage`
moves the safe point that a collector would.
"""

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port, run_server, wait_for_port
from tests.sql_server import SqlServer, Statement, declare_upstream, run_on

# States of a job of DDL, by TiDB's numbers: done, synced.
_DONE = (4, 6)
BINARY = Path(__file__).parents[1] / ".venv" / "tidb-server"


@dataclass(frozen=True)
class Tidb(SqlServer):
    """A running TiDB."""

    command: Sequence[str] = ()
    folder: Path = Path()
    _running: ExitStack = field(default_factory=ExitStack)
    _pids: list[int] = field(default_factory=list)

    def start(self) -> None:
        """Run the server, and wait until clients can connect."""
        server = self._running.enter_context(run_server([*self.command], self.folder, "tidb"))
        wait_for_port(server, self.port, self.folder / "tidb.log")
        self._pids.append(server.pid)

    def stop(self) -> None:
        self._running.close()

    def kill(self) -> None:
        """End the server as a power failure does."""
        os.kill(self._pids[-1], signal.SIGKILL)
        self.stop()

    def now(self) -> int:
        """Return a TSO: what was committed before has a lower one, what comes has a higher one."""
        ((ts,),) = self.run("START TRANSACTION", "SELECT @@tidb_current_ts")
        return int(ts)

    def commit(self, *statements: Statement) -> int:
        """Run statements as one transaction, and return its commit ts."""
        with self.connect() as connection:
            run_on(connection, "START TRANSACTION", *statements, "COMMIT")
            ((info,),) = run_on(connection, "SELECT @@tidb_last_txn_info")
        return int(json.loads(info)["commit_ts"])

    def alter(self, database: str, sql: str) -> int:
        """Run a DDL, and return the ts of TiCDC's: from then on its job is marked as done."""
        newest = "SELECT job_id, job_meta FROM mysql.tidb_ddl_history ORDER BY job_id DESC LIMIT 1"
        ((id, meta),) = self.run(f"USE {database}", sql, newest)
        job = json.loads(meta)
        before, done = job["real_start_ts"], job["binlog"]["FinishedTS"]
        state = f"SELECT job_meta FROM mysql.tidb_ddl_job WHERE job_id = {id}"
        with self.connect() as connection:
            while done - before > 1:
                ts = (before + done) // 2
                found = run_on(connection, f"SET @@tidb_snapshot = '{ts}'", state)
                if any(json.loads(meta)["state"] not in _DONE for (meta,) in found):
                    before = ts
                else:
                    done = ts
        return int(done)

    def read_at(self, ts: int, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds at a TSO."""
        return self.run(f"SET @@tidb_snapshot = '{ts}'", sql)

    @contextmanager
    def collect_garbage(self, ts: int) -> Iterator[None]:
        """Let the server keep nothing from before a TSO, as far as its clients can tell."""
        point = datetime.fromtimestamp((ts >> 18) / 1000, UTC)
        name = "variable_name = 'tikv_gc_safe_point'"
        ((before,),) = self.run(f"SELECT variable_value FROM mysql.tidb WHERE {name}")
        update = f"UPDATE mysql.tidb SET variable_value = %s WHERE {name}"
        text = f"{point:%Y%m%d-%H:%M:%S}.{point.microsecond // 1000:03d} +0000"
        self.run((update, [text]))
        try:
            yield
        finally:
            self.run((update, [before]))


@contextmanager
def run_tidb(folder: Path, *settings: str) -> Iterator[Tidb]:
    """Run a server; `settings` are of its command line."""
    _require_binary()
    port = free_port()
    # What it keeps in a folder for temporary files, it leaves there.
    command = ["env", f"TMPDIR={folder}", str(BINARY), "-port", str(port), *settings]
    running = Tidb(port, declare_upstream(port), command, folder)
    running.start()
    try:
        running.make_user()
        yield running
    finally:
        running.stop()


def _require_binary() -> None:
    if BINARY.is_file():
        return
    fix = f"make {BINARY.relative_to(BINARY.parents[1])}"
    reason = f"no {BINARY}: {fix}" + (
        "" if shutil.which("go") else ", which needs Go 1.21 or newer"
    )
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
