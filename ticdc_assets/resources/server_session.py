"""What each connection to the database upstream, or to a copy, sets before it reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ticdc_assets.upstream.snapshot import Row

# In seconds: a transaction that only keeps rows is idle, and a stream waits while Spark writes.
LONG = 7 * 24 * 3600
# Values as the server has them, and all of them, whatever its own settings are.
_SESSION = (
    "SET SESSION sql_mode = ''",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    # All rows of a query, also where the server limits their number for every client.
    f"SET SESSION sql_select_limit = {(1 << 64) - 1}",
    # Connections wait for one another, and for Spark.
    f"SET SESSION wait_timeout = {LONG}",
)
# While it is on, TiDB reads at `tidb_external_ts`, and ignores the TSO in `tidb_snapshot`.
# Releases before 6.4 do not know it.
_OWN_TSO = "tidb_enable_external_ts_read"


@dataclass(frozen=True)
class Server:
    """What a server is, by its version."""

    version: str

    @property
    def is_tidb(self) -> bool:
        return "tidb" in self.version

    def set_up(self, query: Callable[[str], Sequence[Row]]) -> None:
        """Set up a session that only reads."""
        limit = "max_statement_time" if "mariadb" in self.version else "max_execution_time"
        # A query lasts until its rows are taken, and they are taken no faster than they may be.
        for statement in (*_SESSION, f"SET SESSION {limit} = 0"):
            query(statement)
        if self.is_tidb:
            for _ in query(f"SHOW SESSION VARIABLES LIKE '{_OWN_TSO}'"):
                query(f"SET SESSION {_OWN_TSO} = OFF")
