"""A recording of random statements on a TiDB, the changefeeds of it, and what is true."""

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pymysql

from tests.lake.tidb_statements import DATABASE, ODD_TABLES, STATEMENTS, TABLES, Statements
from tests.sql_server import SqlServer, run_on
from ticdc_assets.demo import SimulationOptions
from ticdc_assets.demo.change import Change, Ddl
from ticdc_assets.demo.declaration import format_changefeed_toml, format_declaration
from ticdc_assets.demo.recorder import Recorder
from ticdc_assets.demo.simulation import Writer, make_writer

MANNERS = {
    "csv": SimulationOptions(replays=0.3),
    "storage canal": SimulationOptions(protocol="canal-json", date_separator="none"),
    "simple": SimulationOptions(protocol="simple", transport="dump", duplicates=0.05),
    "avro": SimulationOptions(protocol="simple", transport="dump", encoding="avro", replays=0.3),
    "canal": SimulationOptions(protocol="canal-json", transport="dump", dispatch="table"),
    "open": SimulationOptions(protocol="open-protocol", transport="dump", duplicates=0.05),
}
# Without repetitions: a row that is repeated at once counts twice in a table without a key.
ONCE = {name: replace(manner, replays=0.0, duplicates=0.0) for name, manner in MANNERS.items()}
Table = dict[str, list[str]]


class Printed:
    """A connection whose values are as the server prints them."""

    def __init__(self, server: SqlServer) -> None:
        self._connection = server.connect()
        self._connection.decoders = {}
        self._connection.use_unicode = False
        self.query("SET SESSION sql_mode = 'STRICT_TRANS_TABLES'")

    def query(self, sql: str) -> Sequence[tuple[bytes | None, ...]]:
        return run_on(self._connection, sql)

    def close(self) -> None:
        self._connection.close()


@dataclass
class Recording:
    """What changed, and when readers of the server see a DDL in part."""

    changes: list[Change] = field(default_factory=list)
    unfinished: list[range] = field(default_factory=list)
    # Everything up to each is recorded.
    checkpoints: list[int] = field(default_factory=list)

    def moments(self, random: Random, count: int) -> list[int]:
        """Return TSOs: of commits and beside them, anywhere else, and the checkpoints."""
        commits = [change.ts for change in self.changes]
        near = [ts + random.choice((-1, 0, 1)) for ts in random.sample(commits, count // 2)]
        far = [random.randrange(commits[0], self.checkpoints[-1]) for _ in range(count // 2)]
        return self._choose({*near, *far, *self.checkpoints})

    def ddl_moments(self) -> list[int]:
        """Return the TSOs of all DDLs."""
        return self._choose({change.ts for change in self.changes if isinstance(change, Ddl)})

    def _choose(self, moments: set[int]) -> list[int]:
        """Leave out those before the database, and those at which readers see a part of a DDL."""
        return sorted(
            ts
            for ts in moments
            if self.changes[0].ts < ts <= self.checkpoints[-1]
            and not any(ts in unfinished for unfinished in self.unfinished)
        )


@contextmanager
def recorder_of(server: SqlServer) -> Iterator[Recorder]:
    """Open a recorder on an empty database."""
    server.run(f"DROP DATABASE IF EXISTS {DATABASE}")
    writer, past = Printed(server), Printed(server)
    try:
        yield Recorder(writer, past, DATABASE)
    finally:
        writer.close()
        past.close()


def record(recorder: Recorder, seed: int, transactions: int, steps: int = 3) -> Recording:
    """Run random statements, and DDL between them; all of it once in as many steps."""
    recording, statements = Recording(), Statements(seed)
    execute(recording, recorder, f"CREATE DATABASE `{DATABASE}`")
    for table, (columns, options) in TABLES.items():
        execute(recording, recorder, f"CREATE TABLE `{table}` ({columns}){options}")
    ddls = list(STATEMENTS)
    failed = 0
    for number in range(1, transactions + 1):
        tables = {
            name: [column.name for column in table.schema.columns]
            for name, table in recorder.tables.items()
        }
        drawn = statements.draw(tables)
        try:
            change = recorder.transact(
                [sql for _, sql in drawn], dict.fromkeys([table for table, _ in drawn], "")
            )
        except pymysql.MySQLError:
            # A duplicate, or NULL where there is none.
            failed += 1
            change = None
        recording.changes += [] if change is None else [change]
        if len(ddls) * transactions > (transactions - number) * len(STATEMENTS):
            execute(recording, recorder, ddls.pop(0))
        if number * steps // transactions > len(recording.checkpoints):
            recording.checkpoints.append(recorder.now())
    assert failed < transactions // 10
    assert not ddls
    return recording


def record_at_random(recorder: Recorder, seed: int, transactions: int, steps: int = 3) -> Recording:
    """Run random statements and random DDL on all tables, also on those that take care."""
    recording, statements = Recording(), Statements(seed)
    random = Random(seed)
    execute(recording, recorder, f"CREATE DATABASE `{DATABASE}`")
    for table, (columns, options) in (TABLES | ODD_TABLES).items():
        execute(recording, recorder, f"CREATE TABLE `{table}` ({columns}){options}")
    for number in range(1, transactions + 1):
        tables = {
            name: [column.name for column in table.schema.columns]
            for name, table in recorder.tables.items()
        }
        statements.with_text_ids = {
            name
            for name, table in recorder.tables.items()
            if any(c.name == "id" and c.type.name == "varchar" for c in table.schema.columns)
        }
        try:
            if random.random() < 0.12:
                parts = {name: table.partitions for name, table in recorder.tables.items()}
                execute(recording, recorder, statements.draw_ddl(tables, parts))
            else:
                drawn = statements.draw(tables)
                touched = dict.fromkeys([table for table, _ in drawn], "")
                change = recorder.transact([sql for _, sql in drawn], touched)
                recording.changes += [] if change is None else [change]
        except pymysql.MySQLError:
            # What TiDB does not accept changes nothing.
            pass
        if number * steps // transactions > len(recording.checkpoints):
            recording.checkpoints.append(recorder.now())
    return recording


def execute(recording: Recording, recorder: Recorder, sql: str) -> None:
    before = recorder.now()
    ddls = recorder.execute(sql)
    assert bool(ddls) is ("SEQUENCE" not in sql)
    recording.changes += ddls
    recording.unfinished.append(range(before, ddls[-1].ts if ddls else recorder.now()))


def declare(folder: Path, options: SimulationOptions) -> Path:
    """Declare a changefeed that is written in this manner."""
    folder.mkdir(parents=True)
    # Tables without a key, too.
    settings = "force-replicate = true\n" + format_changefeed_toml(options)
    (folder / "changefeed.toml").write_text(settings)
    # In which zone a DDL runs is in no message.
    declaration = format_declaration(folder, options, {}) + 'ddl-time-zone = "UTC"\n'
    (folder / "changefeeds.toml").write_text(declaration)
    return folder / "changefeeds.toml"


def write(recording: Recording, folder: Path, options: SimulationOptions) -> Iterator[int]:
    """Write the changefeed, and yield each checkpoint once it is reached."""
    writer: Writer = make_writer(folder, options, recording.changes[0].ts - 1)
    left = list(recording.changes)
    for checkpoint in recording.checkpoints:
        while left and left[0].ts <= checkpoint:
            writer.take(left.pop(0))
        writer.flush(checkpoint)
        yield checkpoint
    assert not left


# What is true, read as any client would.


def read_all(server: SqlServer, ts: int) -> dict[str, Table]:
    """Read the rows of all tables at a TSO, by name: each a text of its values by column."""
    with server.connect() as connection:
        run_on(connection, f"SET @@tidb_snapshot = '{ts}'")
        tables = f"SHOW FULL TABLES FROM {DATABASE} WHERE Table_type = 'BASE TABLE'"
        names = [name for name, _ in run_on(connection, tables)]
        return {name: _read(connection, name) for name in names}


def _read(connection: Any, table: str) -> Table:
    name = f"`{DATABASE}`.`{table}`"
    columns = [
        (column, type)
        for column, type, *_, extra in run_on(connection, f"SHOW COLUMNS FROM {name}")
        if "VIRTUAL" not in extra
    ]
    # A FLOAT prints six digits; as a DOUBLE it prints all.
    stated = ", ".join(f"`{c}`" + " * 1e0" * type.startswith("float") for c, type in columns)
    rows = run_on(connection, f"SELECT {stated} FROM {name}")
    return simplify(columns, [dict(zip((c for c, _ in columns), row, strict=True)) for row in rows])


def simplify(columns: Sequence[tuple[str, str]], rows: Sequence[dict[str, Any]]) -> Table:
    """Bring values of one meaning to one text, those of the lake and those of the server."""
    return {
        "columns": [name for name, _ in columns],
        "rows": sorted(
            repr({name: _simplify(type, row[name]) for name, type in columns}) for row in rows
        ),
    }


def _read_number(text: str) -> float | int:
    if text.lstrip("-").isdigit() and -(1 << 63) <= int(text) < 1 << 64:
        return int(text)
    number = float(text)
    return int(number) if number.is_integer() else number


def _simplify(type: str, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bytes):
        return int.from_bytes(value, "big") if type.startswith("bit") else value.hex()
    if type.startswith("float"):
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    if type.startswith("double"):
        return float(value)
    if type == "json":
        # Later servers print whole numbers of a DOUBLE with a decimal.
        return json.loads(value, parse_float=_read_number, parse_int=_read_number)
    if "int" in type or type.startswith(("year", "bit")):
        return int(value)
    return str(value)
