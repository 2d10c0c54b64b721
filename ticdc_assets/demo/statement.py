"""The DDLs of the simulated upstream: their effect, and their wording by the new server.

What a person types is normalised: upper-case keywords, back quotes, `_UTF8MB4'…'`.  RENAME and DROP
TABLE come fully qualified, the others as typed in a session that uses the database.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from ticdc_assets.demo import change
from ticdc_assets.demo.change import Ddl, DdlKind, RowTexts
from ticdc_assets.demo.column_type import INTEGERS, column_sql, column_type, identifier
from ticdc_assets.demo.upstream import Upstream
from ticdc_assets.events import Column, Index, TableSchema
from ticdc_assets.events.table_schema import MADE_UP_KEY


class Session:
    """A SQL session that uses one database."""

    def __init__(self, upstream: Upstream, database: str) -> None:
        self._upstream = upstream
        self.database = database

    def create_database(self) -> None:
        sql = f"CREATE DATABASE {identifier(self.database)}"
        self._execute(change.CREATE_DATABASE, sql, None, lambda version: None)

    def drop_database(self) -> None:
        def drop(version: int) -> None:
            tables = self._upstream.tables
            for name in [name for name in tables if name[0] == self.database]:
                del tables[name]

        sql = f"DROP DATABASE {identifier(self.database)}"
        self._execute(change.DROP_DATABASE, sql, None, drop)

    def create_table(
        self,
        table: str,
        columns: Iterable[Column],
        *,
        primary: tuple[str, ...] = (),
        unique: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        columns = tuple(columns)
        indexes = [Index(name, key, unique=True) for name, key in (unique or {}).items()]
        if primary:
            types = {column.name: column.type.name for column in columns}
            is_handle = len(primary) == 1 and types[primary[0]] in INTEGERS
            # TiDB has no index for a primary key that is the row handle; Simple makes one up.
            name = MADE_UP_KEY if is_handle else "PRIMARY"
            indexes.insert(0, Index(name, primary, unique=True, primary=True))
        schema = TableSchema(self.database, table, columns, tuple(indexes))
        parts = [column_sql(column) for column in schema.columns]
        if primary:
            parts.append(f"PRIMARY KEY({_names(primary)})")
        parts += [
            f"UNIQUE {identifier(index.name)}({_names(index.columns)})"
            for index in schema.indexes
            if not index.primary
        ]
        sql = f"CREATE TABLE {identifier(table)} ({','.join(parts)})"

        def create(version: int) -> TableSchema:
            return self._upstream.create(replace(schema, version=version))

        self._execute(change.CREATE_TABLE, sql, None, create)

    def drop_table(self, table: str) -> None:
        before = self._schema(table)

        def drop(version: int) -> None:
            del self._upstream.tables[self.database, table]

        self._execute(change.DROP_TABLE, f"DROP TABLE {self._qualified(table)}", before, drop)

    def truncate_table(self, table: str) -> None:
        before = self._schema(table)

        def truncate(version: int) -> TableSchema:
            # The schema version does not change; only the table does.
            return self._upstream.create(before)

        self._execute(
            change.TRUNCATE_TABLE, f"TRUNCATE TABLE {identifier(table)}", before, truncate
        )

    def rename_table(self, table: str, name: str) -> None:
        before = self._schema(table)

        def rename(version: int) -> TableSchema:
            # The schema version does not change here either.
            after = before.with_name(self.database, name)
            self._upstream.replace((self.database, table), after)
            return after

        sql = f"RENAME TABLE {self._qualified(table)} TO {self._qualified(name)}"
        self._execute(change.RENAME_TABLE, sql, before, rename)

    def add_column(self, table: str, column: Column) -> None:
        schema = self._schema(table)
        self._alter(
            change.ADD_COLUMN,
            replace(schema, columns=(*schema.columns, column)),
            f"ADD COLUMN {column_sql(column)}",
            lambda row: (*row, column.default),
        )

    def drop_column(self, table: str, name: str) -> None:
        schema = self._schema(table)
        place = self._place(schema, name)
        self._alter(
            change.DROP_COLUMN,
            replace(schema, columns=schema.columns[:place] + schema.columns[place + 1 :]),
            f"DROP COLUMN {identifier(name)}",
            lambda row: row[:place] + row[place + 1 :],
        )

    def rename_column(self, table: str, name: str, new: str) -> None:
        schema = self._schema(table)
        columns = [replace(c, name=new) if c.name == name else c for c in schema.columns]
        self._alter(
            change.MODIFY_COLUMN,
            replace(schema, columns=tuple(columns)),
            f"RENAME COLUMN {identifier(name)} TO {identifier(new)}",
        )

    def modify_column(self, table: str, name: str, type_text: str) -> None:
        """Change a column to a type that holds all its values: wider, or with more decimals."""
        schema = self._schema(table)
        place = self._place(schema, name)
        old = schema.columns[place]
        new = replace(old, type=column_type(type_text))
        columns = (*schema.columns[:place], new, *schema.columns[place + 1 :])
        self._alter(
            change.MODIFY_COLUMN,
            replace(schema, columns=columns),
            f"MODIFY COLUMN {column_sql(new)}",
            _make_rescaler(place, old, new),
        )

    def add_index(self, table: str, name: str, columns: tuple[str, ...]) -> None:
        schema = self._schema(table)
        self._alter(
            change.ADD_INDEX,
            replace(schema, indexes=(*schema.indexes, Index(name, columns))),
            f"ADD INDEX {identifier(name)}({_names(columns)})",
        )

    def drop_index(self, table: str, name: str) -> None:
        schema = self._schema(table)
        self._alter(
            change.DROP_INDEX,
            replace(schema, indexes=tuple(i for i in schema.indexes if i.name != name)),
            f"DROP INDEX {identifier(name)}",
        )

    def _alter(
        self,
        kind: DdlKind,
        after: TableSchema,
        action: str,
        row: Callable[[RowTexts], RowTexts] | None = None,
    ) -> None:
        def alter(version: int) -> TableSchema:
            stated = replace(after, version=version)
            self._upstream.replace((self.database, after.table), stated, row)
            return stated

        sql = f"ALTER TABLE {identifier(after.table)} {action}"
        self._execute(kind, sql, self._schema(after.table), alter)

    def _execute(
        self,
        kind: DdlKind,
        sql: str,
        before: TableSchema | None,
        act: Callable[[int], TableSchema | None],
    ) -> None:
        catalog = dict(self._upstream.tables)
        # The schema version is the start ts of the job, so it is below its commit ts.
        version = self._upstream.next_ts()
        self._upstream.advance(2)
        after = act(version)
        ts = self._upstream.next_ts()
        self._upstream.executed(Ddl(ts, kind, sql, self.database, before, after), catalog)

    def _schema(self, table: str) -> TableSchema:
        return self._upstream.tables[self.database, table].schema

    def _qualified(self, table: str) -> str:
        return f"{identifier(self.database)}.{identifier(table)}"

    @staticmethod
    def _place(schema: TableSchema, name: str) -> int:
        return [column.name for column in schema.columns].index(name)


def _names(columns: Iterable[str]) -> str:
    return ", ".join(map(identifier, columns))


def _make_rescaler(place: int, old: Column, new: Column) -> Callable[[RowTexts], RowTexts] | None:
    """Return how more decimals change a value: zeros follow; None if texts do not change."""
    if new.type.name != "decimal":
        return None
    had, has = old.type.decimals or 0, new.type.decimals or 0
    if has < had:
        raise ValueError("the simulated upstream does not round")
    tail = ("." if not had and has else "") + "0" * (has - had)

    def rescale(row: RowTexts) -> RowTexts:
        text = row[place]
        if text is None:
            return row
        return (*row[:place], text + tail, *row[place + 1 :])

    return rescale
