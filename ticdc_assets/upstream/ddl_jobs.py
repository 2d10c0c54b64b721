"""DDL that TiDB has begun and not ended at a TSO: readers may see a part of it already.

TiCDC dates a DDL by the transaction that marks its job in `mysql.tidb_ddl_job` as done, and up to
then the changefeed has the table as it was before.  Readers do not: a column, an index or a
partition that is dropped is hidden some transactions earlier, a renamed table has its new name one
earlier, and the actions of one ALTER TABLE show together before the last of them is done.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.upstream.snapshot import (
    Row,
    RowsUnreadable,
    TableUnreadable,
    UpstreamError,
)
from ticdc_assets.upstream.sql import decode, quote_text

_JOBS = "mysql.tidb_ddl_job"
# States of a job, by TiDB's numbers: rolled back, done, cancelled, synced.
_ENDED = (3, 4, 5, 6)
# DDL that may take hours: ADD INDEX, MODIFY COLUMN, ADD PRIMARY KEY, REORGANIZE PARTITION (as do
# COALESCE and ADD of hash partitions), REMOVE PARTITIONING.  Readers see nothing of it while the
# state of the schema is none, delete only, write only or write reorganization.
_LONG = (7, 12, 32, 64, 72)
_UNSEEN = (0, 1, 2, 3)
_MOST_SQL = 200

Query = Callable[[str], Sequence[Row]]


class _Actions(Struct):
    """The actions of one ALTER TABLE: as long as all can be undone, readers see none."""

    revertible: bool = False


class _Job(Struct):
    type: int
    state: int
    schema_state: int
    schema_name: str = ""
    table_name: str = ""
    query: str = ""
    # The TSO at which TiDB began to work on it; 0 before.
    real_start_ts: int = 0
    multi_schema_info: _Actions | None = None

    @property
    def may_show(self) -> bool:
        """Whether readers may see a part of what it does."""
        if self.state in _ENDED or not self.real_start_ts:
            return False
        if self.multi_schema_info is not None:
            return not self.multi_schema_info.revertible
        return not (self.type in _LONG and self.schema_state in _UNSEEN)


_decode_job = msgspec.json.Decoder(_Job).decode


class UnfinishedDdl(Struct, frozen=True):
    """A DDL of which readers may see a part, although its commit ts is to come."""

    sql: str
    # At this TSO, it had changed nothing yet, and no other DDL of its tables was unfinished.
    start_ts: int
    # The ids of its tables; none for a DDL of all tables of the database.
    tables: frozenset[int]
    # The table that it is of, or one of them, by the name that it has before.
    database: str
    table: str

    def concerns(self, database: str, table: str, id: int | None) -> bool:
        """Whether it is of a table: by its id, or by its name where readers see no such table."""
        is_same = fold_name(database) == fold_name(self.database)
        if not self.tables:
            return is_same
        if id is None:
            return is_same and fold_name(table) == fold_name(self.table)
        return id in self.tables


def explain_hidden_jobs(query: Query) -> str | None:
    """Return why the user cannot see which DDL is unfinished, if it cannot."""
    try:
        query(f"SELECT job_id FROM {_JOBS} LIMIT 1")
    except (TableUnreadable, RowsUnreadable) as error:
        return (
            "which DDL TiDB is in the middle of is not known, and a table may show a part of one"
            f" before its commit ts: GRANT SELECT ON {_JOBS} to the user of [changefeed.upstream]"
            f" ({error})"
        )
    return None


def find_unfinished(query: Query) -> list[UnfinishedDdl]:
    """Find the DDL that readers may see a part of, at the TSO at which a connection reads."""
    return list(_read_jobs(query(f"SELECT job_meta, table_ids FROM {_JOBS} ORDER BY job_id")))


def _read_jobs(rows: Sequence[Row]) -> Iterator[UnfinishedDdl]:
    for meta, ids in rows:
        try:
            job = _decode_job(meta or b"")
            tables = frozenset(map(int, filter(None, decode(ids).split(","))))
        except (ValueError, UnicodeDecodeError) as error:
            raise UpstreamError(f"{_JOBS} has a job that cannot be read: {error}") from None
        if job.may_show:
            sql = " ".join(job.query.split())[:_MOST_SQL]
            name = job.schema_name, job.table_name
            yield UnfinishedDdl(sql, job.real_start_ts, tables - {0}, *name)


def read_table_id(query: Query, database: str, table: str) -> int | None:
    """Read the id that a table has at the TSO at which a connection reads."""
    rows = query(
        "SELECT TIDB_TABLE_ID FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {quote_text(database)} AND TABLE_NAME = {quote_text(table)}"
    )
    return int(rows[0][0]) if rows and rows[0][0] is not None else None
