"""Write to a database of TiDB, and record each change as its changefeed sees it.

A transaction is recorded from the rows before and after it, which it reads and locks itself: so the
values are those that TiDB stores, whatever the statements are.  A DDL is recorded from the job that
TiDB made of it.  The recorder has to be the only writer: what another session changes between the
two reads would be taken for its own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec
from msgspec.structs import replace

from ticdc_assets.demo import change
from ticdc_assets.demo.change import (
    ChangedRow,
    CommittedTransaction,
    Ddl,
    DdlKind,
    Exchanged,
    Truth,
    row_columns,
)
from ticdc_assets.demo.column_type import identifier
from ticdc_assets.demo.net_change import arrange_rows
from ticdc_assets.demo.recorded_table import RecordedTable, Row
from ticdc_assets.demo.tidb_table import DdlJob, TableInfo, decode_job, read_table, read_view
from ticdc_assets.events.written import find_decoder

_RENAME_TABLES = 47
# CREATE, ALTER and DROP SEQUENCE: TiCDC sends none of them.
_OF_SEQUENCES = (34, 35, 36)
_NAME = "`((?:[^`]|``)+)`"
_RENAMED = re.compile(f"{_NAME} TO (?:`[^`]+`[.])?{_NAME}")
# How Simple and Canal-JSON name the DDLs of a type of job.
_NAMES = {
    "QUERY": (1, 2, 21, 24, 26),
    "CREATE": (3,),
    "ERASE": (4,),
    "ALTER": (5, 6, 12, 13, 15, 17, 18, 19, 20, 22, 23, 41, 42, 61, 64, 71, 72),
    "CINDEX": (7, 9, 32),
    "DINDEX": (8, 10, 33),
    "TRUNCATE": (11,),
    "RENAME": (14,),
}
_KINDS = {code: DdlKind(code, name) for name, codes in _NAMES.items() for code in codes}
# States of a job: done, and synced to all servers.
_DONE = (4, 6)
_HISTORY, _JOBS = "mysql.tidb_ddl_history", "mysql.tidb_ddl_job"

Tables = dict[str, RecordedTable]


class Connection(Protocol):
    """A connection to TiDB, in UTC; values are as the server prints them."""

    def query(self, sql: str) -> Sequence[Row]: ...


class _State(msgspec.Struct):
    state: int


class _Transaction(msgspec.Struct):
    commit_ts: int


class Recorder:
    """The only writer of a database, which it creates itself; `past` is for reading at a TSO."""

    def __init__(self, writer: Connection, past: Connection, database: str) -> None:
        self.database = database
        # By name.
        self.tables: Tables = {}
        self._query = writer.query
        self._past = past.query
        # The tables from a ts on.
        self._journal: list[tuple[int, Tables]] = []
        self._last_job = self._find_last_job()

    def now(self) -> int:
        """Return a TSO above all that is recorded and below all that will be."""
        self._query("BEGIN")
        ((ts,),) = self._query("SELECT @@tidb_current_ts")
        self._query("COMMIT")
        return int(ts or 0)

    def transact(
        self, statements: Iterable[str], where: Mapping[str, str] | None = None
    ) -> CommittedTransaction | None:
        """Run statements in one transaction; return None if they changed nothing.

        `where` selects the rows that they may change, table by table: by default, all rows of all
        tables.  If a statement fails, nothing is changed.
        """
        if where is None:
            where = dict.fromkeys(self.tables, "")
        touched = [(self.tables[name], f"{clause} FOR UPDATE") for name, clause in where.items()]
        self._query("BEGIN PESSIMISTIC")
        try:
            before = [table.read(self._query, clause) for table, clause in touched]
            for statement in statements:
                self._query(statement)
            after = [table.read(self._query, clause) for table, clause in touched]
            self._query("COMMIT")
        except BaseException:
            with suppress(Exception):
                self._query("ROLLBACK")
            raise
        rows: list[ChangedRow] = []
        for (table, _), old, new in zip(touched, before, after, strict=True):
            changes = [
                ChangedRow(table.schema, old.get(place), new.get(place), place.partition)
                for place in {**old, **new}
                if old.get(place) != new.get(place)
            ]
            rows += arrange_rows(changes, table.moves)
        if not rows:
            return None
        ((info,),) = self._query("SELECT @@tidb_last_txn_info")
        ts = find_decoder(_Transaction).decode(info or b"").commit_ts
        return CommittedTransaction(ts, rows)

    def execute(self, sql: str) -> list[Ddl]:
        """Run a DDL in the wording of TiCDC, and return what TiCDC makes of it."""
        self._query(sql)
        found = self._query(
            f"SELECT job_meta FROM {_HISTORY} WHERE job_id > {self._last_job} ORDER BY job_id"
        )
        ddls: list[Ddl] = []
        for (meta,) in found:
            job = decode_job(meta or b"")
            self._last_job = job.id
            if job.schema_name.lower() == self.database.lower() and job.state in _DONE:
                ddls += self._record_job(job, sql)
        return ddls

    def execute_unrecorded(self, sql: str) -> None:
        """Run a DDL that the changefeed does not have."""
        self._query(sql)
        self._last_job = self._find_last_job()

    def truth(self, ts: int | None = None) -> Truth:
        """Return all tables as TiDB has them at a TSO (default: now)."""
        ts = self.now() if ts is None else ts
        tables = next((tables for since, tables in reversed(self._journal) if since <= ts), {})
        self._past(f"SET @@tidb_snapshot = '{ts}'")
        truth: Truth = {}
        for name, table in tables.items():
            names = [column.name for column in row_columns(table.schema)]
            rows = table.read(self._past).values()
            truth[self.database, name] = [dict(zip(names, row, strict=True)) for row in rows]
        return truth

    def _find_last_job(self) -> int:
        ((last,),) = self._query(f"SELECT MAX(job_id) FROM {_HISTORY}")
        return int(last or 0)

    def _record_job(self, job: DdlJob, sql: str) -> list[Ddl]:
        if job.type in _OF_SEQUENCES:
            return []
        ts = self._find_ts(job)
        self.tables = dict(self.tables)
        if job.type == _RENAME_TABLES:
            found = list(self._rename_in_turn(ts, sql))
        else:
            found = [self._record(ts, job, sql)]
        self._journal.append((ts, self.tables))
        return found

    def _record(self, ts: int, job: DdlJob, sql: str) -> Ddl:
        kind = _KINDS.get(job.type)
        info = job.binlog.table
        if kind is None:
            raise ValueError(f"the recorder knows no DDL of type {job.type}: {sql}")
        if info is not None and info.view is not None:
            return self._record_view(ts, kind, sql, info)
        if kind == change.EXCHANGE_PARTITION and info is not None:
            return self._exchange(ts, sql, info)
        if kind == change.RENAME_TABLE and info is not None:
            return self._rename(ts, info)
        if kind.name == "QUERY":
            if kind == change.CREATE_DATABASE:
                self._query(f"USE {identifier(self.database)}")
            if kind == change.DROP_DATABASE:
                self.tables.clear()
            return Ddl(ts, kind, sql, self.database)
        before = self._remove(job.table_id)
        if kind == change.DROP_TABLE and before is not None:
            # TiCDC sends one for each table of a statement.
            sql = f"DROP TABLE {self._qualify(before.schema.table)}"
            return Ddl(ts, kind, sql, self.database, before.schema)
        return self._define(ts, kind, sql, before, info)

    def _record_view(self, ts: int, kind: DdlKind, sql: str, info: TableInfo) -> Ddl:
        view = read_view(self.database, info)
        if kind == change.DROP_VIEW:
            # TiCDC sends one for each view of a statement.
            sql = f"DROP VIEW {self._qualify(view.table)}"
        return Ddl(ts, kind, sql, self.database, view=view)

    def _exchange(self, ts: int, sql: str, info: TableInfo) -> Ddl:
        """Record an EXCHANGE PARTITION: the partition and the other table swap their ids."""
        before = self._remove(info.id)
        ddl = self._define(ts, change.EXCHANGE_PARTITION, sql, before, info)
        now = self.tables[info.name.text].partition_ids
        then = set() if before is None else before.partition_ids
        (came,), (went,) = now - then, then - now
        other = self._remove(came)
        if other is None:
            raise ValueError(f"the recorder does not know the other table of {sql}")
        after = other.stored_as(went, ddl.after.version if ddl.after else None)
        self.tables[other.schema.table] = after
        return replace(ddl, exchanged=Exchanged(other.schema, after.schema))

    def _rename(self, ts: int, info: TableInfo) -> Ddl:
        before = self._remove(info.id)
        old = before.schema.table if before is not None else ""
        sql = f"RENAME TABLE {self._qualify(old)} TO {self._qualify(info.name.text)}"
        return self._define(ts, change.RENAME_TABLE, sql, before, info)

    def _rename_in_turn(self, ts: int, sql: str) -> Iterator[Ddl]:
        """Yield a DDL for each table, as TiCDC sends them: the job has only the last names."""
        for names in _RENAMED.findall(sql):
            old, new = (name.replace("``", "`") for name in names)
            before = self.tables.pop(old)
            after = self.tables[new] = before.renamed(new)
            renamed = f"RENAME TABLE {self._qualify(old)} TO {self._qualify(new)};"
            schemas = before.schema, after.schema
            yield Ddl(ts, change.RENAME_TABLE, renamed, self.database, *schemas)

    def _define(
        self, ts: int, kind: DdlKind, sql: str, before: RecordedTable | None, info: TableInfo | None
    ) -> Ddl:
        if info is None:
            raise ValueError(f"TiDB states no table for {sql}")
        table = RecordedTable(read_table(self.database, info))
        self.tables[table.schema.table] = table
        old = None if before is None else before.schema
        return Ddl(ts, kind, sql, self.database, old, table.schema)

    def _remove(self, id: int) -> RecordedTable | None:
        """Remove the table of an id, and return it."""
        for name, table in self.tables.items():
            if table.schema.table_id == id:
                return self.tables.pop(name)
        return None

    def _qualify(self, table: str) -> str:
        return f"{identifier(self.database)}.{identifier(table)}"

    def _find_ts(self, job: DdlJob) -> int:
        """Return the ts of a DDL in TiCDC: of the transaction that marks its job as done.

        The job states when it was moved to the history, which is later.
        """
        before, done = job.real_start_ts, job.binlog.finished_ts
        while done - before > 1:
            ts = (before + done) // 2
            self._past(f"SET @@tidb_snapshot = '{ts}'")
            found = self._past(f"SELECT job_meta FROM {_JOBS} WHERE job_id = {job.id}")
            states = [find_decoder(_State).decode(meta or b"").state for (meta,) in found]
            if any(state not in _DONE for state in states):
                before = ts
            else:
                done = ts
        return done
