"""Changefeeds written by hand: the steps of a workload, as each protocol sends them.

A scenario says what a person did upstream; `events` says what TiCDC would send of it, `tables` what
the reference model makes of that.  A schema that a protocol states is written down in the scenario
(`now`), never computed from the statement.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.events import (
    Bootstrap,
    Event,
    FilePosition,
    Index,
    Op,
    Position,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    row_image,
)
from ticdc_assets.schema.ddl.columns import resolve_column
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.ddl.statement import CreateTable

# Canal-JSON or Open Protocol, Simple, the storage sink; of the classic server and the new one.
MANNERS = ("canal", "canal-new", "simple", "simple-new", "storage", "storage-new")
DATABASE = "shop"

Value = str | int | None
Rows = Sequence[tuple[Value, ...]]


class Ddl(Struct, frozen=True):
    """A statement, the table it is about and that table's columns afterwards (None: as before)."""

    sql: str
    table: str = ""
    now: str | None = None
    # What the new-architecture server sends instead.
    new_sql: str | None = None
    # RENAME: the name before; EXCHANGE: the table that is not partitioned.
    other: str | None = None
    kind: str = ""
    # Not a statement of its own: of the same commit ts as the step before.
    together: bool = False


class Row(Struct, frozen=True):
    table: str
    old: dict[str, Value] | None
    new: dict[str, Value] | None
    together: bool = False


Step = Ddl | Row


def put(table: str, **row: Value) -> Row:
    return Row(table, None, row)


def cut(table: str, **row: Value) -> Row:
    return Row(table, row, None)


def edit(table: str, old: dict[str, Value], **changed: Value) -> Row:
    return Row(table, old, {**old, **changed})


def together(step: Step) -> Step:
    return replace(step, together=True)


def rename(old: str, new: str) -> Ddl:
    """RENAME TABLE of one table: as it was typed, or rewritten by the new-architecture server."""
    typed = _quoted(old), _quoted(new)
    if qualified(old)[0] != DATABASE or qualified(new)[0] != DATABASE:
        typed = _quoted(old, whole=True), _quoted(new, whole=True)
    whole = f"RENAME TABLE {_quoted(old, whole=True)} TO {_quoted(new, whole=True)}"
    return Ddl(f"RENAME TABLE {typed[0]} TO {typed[1]}", new, new_sql=whole, other=old)


def rename_all(*pairs: tuple[str, str]) -> list[Step]:
    """RENAME TABLE of several tables: one message for each, all of one commit ts."""
    steps: list[Step] = []
    for old, new in pairs:
        sql = f"RENAME TABLE {_quoted(old, whole=True)} TO {_quoted(new, whole=True)}"
        steps.append(Ddl(sql, new, new_sql=f"{sql};", other=old, together=bool(steps)))
    return steps


def exchange(table: str, partition: str, other: str, tail: str = "") -> Ddl:
    names = _quoted(table, whole=True), _quoted(other, whole=True)
    sql = f"ALTER TABLE {names[0]} EXCHANGE PARTITION `{partition}` WITH TABLE {names[1]}{tail}"
    return Ddl(sql, table, other=other, kind="exchange")


def qualified(name: str) -> tuple[str, str]:
    database, dot, table = name.partition("/")
    return (database, table) if dot else (DATABASE, name)


def _quoted(name: str, *, whole: bool = False) -> str:
    database, table = ("`" + part.replace("`", "``") + "`" for part in qualified(name))
    return f"{database}.{table}" if whole else table


class Teller:
    """Tells steps as events, in one manner."""

    def __init__(self, manner: str, start: int = 100) -> None:
        self.manner = manner
        self._ts = start
        self._tables: dict[tuple[str, str], TableSchema] = {}
        self._ids = 100
        self._count = 0

    @property
    def stated(self) -> bool:
        return not self.manner.startswith("canal")

    @property
    def is_new(self) -> bool:
        return self.manner.endswith("-new")

    def tell(self, steps: Iterable[Step]) -> list[Event]:
        events: list[Event] = []
        for step in steps:
            self._ts += 0 if step.together else 10
            if isinstance(step, Row):
                events.append(self._row(step))
            else:
                events += self._ddl(step)
        return events

    def knows(self, table: str, columns: str) -> TableSchema:
        """A table that was there before the changefeed."""
        schema = self._schema(qualified(table), columns, self._ts)
        self._tables[_key(table)] = schema
        return self._statement_of(schema)

    def bootstrap(self, table: str) -> Bootstrap:
        return Bootstrap(
            schema=self._statement_of(self._tables[_key(table)]), position=self._position()
        )

    def _position(self) -> Position:
        self._count += 1
        if self.manner.startswith("storage"):
            return FilePosition(f"file{self._count:05}")
        return TopicPosition("topic", 0, self._count)

    # Rows

    def _row(self, step: Row) -> RowChange:
        database, table = qualified(step.table)
        schema = self._tables[_key(step.table)]
        op = Op.UPDATE if step.old and step.new else Op.INSERT if step.new else Op.DELETE
        observed = None
        key: tuple[str, ...] | None = None
        if not self.stated:
            types = {
                c.name: c.type.name + " unsigned" * c.type.unsigned
                for c in schema.columns
                if c.generated != "virtual"
            }
            observed = msgspec.json.encode(types).decode()
            key = next((i.columns for i in schema.indexes if i.primary), None)
        return RowChange(
            op=op,
            commit_ts=self._ts,
            database=database,
            table=table,
            position=self._position(),
            before=_image(step.old),
            after=_image(step.new),
            schema_version=schema.version if self.stated else None,
            observed=observed,
            key_columns=key,
        )

    # Statements

    def _ddl(self, step: Ddl) -> list[Event]:
        sql = step.new_sql if self.is_new and step.new_sql else step.sql
        before, after = self._moved(step)
        database, table = qualified(step.table) if step.table else ("", "")
        if step.kind == "database":
            database, table = ("" if self.manner.startswith("simple") else step.table), ""
        if step.kind == "exchange" and self.manner == "canal-new":
            database, table = qualified(step.other or "")
        change = SchemaChange(
            commit_ts=self._ts,
            database=database,
            table=table,
            sql=sql,
            position=self._position(),
            schema=self._statement_of(after) if self.stated and after else None,
            pre_schema=self._pre_schema(step, before) if self.manner.startswith("simple") else None,
        )
        events: list[Event] = [change]
        if step.kind == "exchange" and self.manner.startswith("storage") and step.other:
            other = replace(self._tables[_key(step.other)], version=self._ts)
            self._tables[_key(step.other)] = other
            snapshot = self._statement_of(other)
            events.append(Bootstrap(schema=snapshot, position=self._position()))
        return events

    def _pre_schema(self, step: Ddl, before: TableSchema | None) -> TableSchema | None:
        if step.kind == "exchange" and step.other:
            before = self._tables[_key(step.other)]
        elif self.is_new or step.sql.startswith("CREATE"):
            return None
        return self._statement_of(before) if before else None

    def _moved(self, step: Ddl) -> tuple[TableSchema | None, TableSchema | None]:
        """The step's table before and after it, kept for the steps to come."""
        if not step.table or step.kind == "database":
            return None, None
        name = qualified(step.table)
        if step.other is not None and step.kind != "exchange":
            before = self._tables.pop(_key(step.other))
            after = before.with_name(*name)
            if self.manner.startswith("storage"):
                after = replace(after, version=self._ts)
            self._tables[_key(step.table)] = after
            return before, after
        before = self._tables.get(_key(step.table))
        columns = step.now or _created_columns(step.sql)
        if step.sql.startswith("DROP TABLE"):
            return before, self._tables.pop(_key(step.table))
        if columns is not None:
            after = self._schema(name, columns, self._ts)
            if before is not None and not step.sql.startswith("CREATE"):
                after = replace(after, table_id=before.table_id)
        elif before is not None:
            after = replace(before, version=self._version(self._ts))
        else:
            return None, None
        if step.sql.startswith("TRUNCATE"):
            self._ids += 1
            after = replace(after, table_id=self._ids)
        self._tables[_key(step.table)] = after
        return before, after

    def _schema(self, name: tuple[str, str], columns: str, ts: int) -> TableSchema:
        (statement,) = read_ddl(f"CREATE TABLE x ({columns})")
        assert isinstance(statement, CreateTable)
        self._ids += 1
        schema = TableSchema(
            *name,
            tuple(resolve_column(column, None) for column in statement.columns),
            statement.indexes,
            table_id=self._ids,
            version=self._version(ts),
        )
        return schema if "nonclustered" in columns else _with_clustered_key(schema)

    def _version(self, ts: int) -> int:
        # Simple's version is a little older than the DDL's commit ts.
        return ts if self.manner.startswith("storage") else ts - 1

    def _statement_of(self, schema: TableSchema) -> TableSchema:
        """What this manner tells of a schema."""
        columns = tuple(replace(c, generated=None, comment="") for c in schema.columns)
        if self.manner == "simple":
            # By column id, which is not the table's order.
            columns = tuple(sorted(columns, key=lambda c: c.name))
        if self.manner.startswith("simple"):
            return replace(schema, columns=columns, indexes=_indexes_of_simple(schema))
        primary = next((i.columns for i in schema.indexes if i.primary), ())
        in_order = tuple(c.name for c in columns if c.name in primary)
        if self.manner == "storage":
            columns = tuple(replace(c, type=replace(c.type, elements=None)) for c in columns)
        columns = tuple(
            replace(c, type=replace(c.type, charset=None, collation=None)) for c in columns
        )
        return replace(
            schema,
            columns=columns,
            indexes=(Index("PRIMARY", in_order, True, True),) if in_order else (),
            table_id=None,
        )


def _with_clustered_key(schema: TableSchema) -> TableSchema:
    """Give a primary key of one integer the name that it has without an index of its own."""
    types = {c.name: c.type.name for c in schema.columns}
    indexes = [
        replace(i, name="primary")
        if i.primary and len(i.columns) == 1 and types[i.columns[0]] in ("int", "bigint")
        else i
        for i in schema.indexes
    ]
    return replace(schema, indexes=tuple(indexes))


def _indexes_of_simple(schema: TableSchema) -> tuple[Index, ...]:
    """List the indexes, and last the primary key that has none, or what TiDB takes for one."""
    nullable = {c.name for c in schema.columns if c.nullable}
    unique = [i for i in schema.indexes if i.unique and nullable.isdisjoint(i.columns)]
    implicit = [] if any(i.primary for i in unique) else unique[:1]
    indexes = [*schema.indexes, *(replace(i, name="primary", primary=True) for i in implicit)]
    return tuple(sorted(indexes, key=lambda index: index.name == "primary"))


def _key(name: str) -> tuple[str, str]:
    database, table = qualified(name)
    return database.lower(), table.lower()


def _image(row: dict[str, Value] | None) -> str | None:
    if row is None:
        return None
    return row_image.dump({n: v if v is None else str(v) for n, v in row.items()})


def _created_columns(sql: str) -> str | None:
    """What stands between the parentheses of a plain CREATE TABLE."""
    if not sql.startswith("CREATE TABLE") or " LIKE " in sql:
        return None
    start = depth = 0
    for at, sign in enumerate(sql):
        if sign == "(":
            depth += 1
            start = start or at + 1
        elif sign == ")":
            depth -= 1
            if not depth:
                return sql[start:at]
    return None
