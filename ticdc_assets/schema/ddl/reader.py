"""DDL text to statements: TiDB's own print as TiCDC sends it, and what users typed.

`read_ddl` cuts the text, takes statement by statement and gives up with `UnreadableDdl` on whatever
it does not know to the end: no statement is half understood.
"""

from collections.abc import Callable
from functools import lru_cache

from ticdc_assets.errors import UnreadableDdl
from ticdc_assets.events import Index
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.alter_table import drop_index, read_actions
from ticdc_assets.schema.ddl.create_table import read_create_table
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.indexes import read_parts
from ticdc_assets.schema.ddl.options import read_database_options
from ticdc_assets.schema.ddl.tokens import Kind

_DATABASE = ("DATABASE", "SCHEMA")
_TABLES = ("TABLE", "TABLES")
_INDEX_KINDS = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR")

# CREATE, ALTER and DROP of these touch no table's rows or columns.
_IDLE_OBJECTS = (
    "SEQUENCE",
    "PLACEMENT POLICY",
    "RESOURCE GROUP",
    "USER",
    "ROLE",
    "BINDING",
    "GLOBAL BINDING",
    "SESSION BINDING",
    "STATISTICS",
    "STATS",
    "INSTANCE",
    "RANGE",
    "MASKING POLICY",
)
# Statements that begin so, likewise.
_IDLE_STATEMENTS = (
    "ADMIN",
    "ANALYZE",
    "CHECK TABLE",
    "FLUSH",
    "GRANT",
    "LOCK STATS",
    "LOCK TABLE",
    "LOCK TABLES",
    "OPTIMIZE",
    "REPAIR TABLE",
    "REVOKE",
    "SET",
    "SPLIT",
    "UNLOCK STATS",
    "UNLOCK TABLE",
    "UNLOCK TABLES",
)
_VIEW_SETTINGS = ("ALGORITHM", "DEFINER", "SQL", "OR")


# A statement is read for every table that it is sent for, and once more to order it.
@lru_cache(maxsize=256)
def read_ddl(sql: str, *, charset: str = "utf8mb4") -> tuple[ddl.Statement, ...]:
    """Read the statements of a DDL text; raise `UnreadableDdl` if there is one it does not know.

    `charset` is that of columns for which neither they nor their table say one: the database's for
    CREATE TABLE, the table's for ALTER TABLE.
    """
    try:
        sql.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UnreadableDdl("not text", sql) from None
    statements: list[ddl.Statement] = []
    for cursor in Cursor.over(sql).statements():
        statements.append(_statement(cursor, charset))
        cursor.expect_end()
    return tuple(statements)


def _statement(cursor: Cursor, charset: str) -> ddl.Statement:
    reader = _READERS.get(cursor.token.key)
    if reader is not None:
        cursor.next()
        return reader(cursor, charset)
    for words in _IDLE_STATEMENTS:
        if cursor.take(*words.split()):
            cursor.skip_all()
            return ddl.NoTableEffect(words.lower())
    raise cursor.unexpected("a statement")


def _idle_object(cursor: Cursor, verb: str) -> ddl.NoTableEffect:
    for words in _IDLE_OBJECTS:
        if cursor.take(*words.split()):
            cursor.skip_all()
            return ddl.NoTableEffect(f"{verb} {words.lower()}")
    raise cursor.unexpected(f"something to {verb}")


def _create(cursor: Cursor, charset: str) -> ddl.Statement:
    if cursor.take_any(*_DATABASE):
        return _create_database(cursor)
    start = cursor.at
    cursor.take("GLOBAL")
    cursor.take("TEMPORARY")
    if cursor.take("TABLE"):
        return read_create_table(cursor, charset)
    cursor.at = start
    kind = cursor.take_any(*_INDEX_KINDS)
    if cursor.take("INDEX"):
        return _create_index(cursor, unique=kind == "UNIQUE")
    cursor.at = start
    if cursor.sees("VIEW") or cursor.sees_any(*_VIEW_SETTINGS):
        return _create_view(cursor)
    return _idle_object(cursor, "create")


def _create_database(cursor: Cursor) -> ddl.Statement:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name()
    options = read_database_options(cursor)
    return ddl.CreateDatabase(name, options.charset, options.collation, if_not_exists)


def _create_index(cursor: Cursor, *, unique: bool) -> ddl.Statement:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name()
    if cursor.take_any("USING", "TYPE"):
        cursor.name()
    cursor.expect("ON")
    table = cursor.table()
    index = read_parts(cursor, Index(name, (), unique=unique))
    return ddl.AlterTable(table, (ddl.AddIndex(index, if_not_exists),))


def _create_view(cursor: Cursor) -> ddl.Statement:
    if cursor.take("OR", "REPLACE") and cursor.take_any(*_TABLES):
        raise cursor.error("CREATE OR REPLACE of a table")
    while not cursor.sees("VIEW"):
        cursor.next()
    cursor.expect("VIEW")
    cursor.take("IF", "NOT", "EXISTS")
    name = cursor.table()
    if cursor.sees("("):
        cursor.inside()
    cursor.expect("AS")
    cursor.skip_all()
    return ddl.CreateView(name)


def _alter(cursor: Cursor, charset: str) -> ddl.Statement:
    start = cursor.at
    cursor.take("IGNORE")
    if cursor.take("TABLE"):
        table = cursor.table()
        return ddl.AlterTable(table, read_actions(cursor, charset))
    cursor.at = start
    if cursor.take_any(*_DATABASE):
        return _alter_database(cursor)
    return _idle_object(cursor, "alter")


def _alter_database(cursor: Cursor) -> ddl.Statement:
    options_begin = ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "PLACEMENT", "SET")
    name = None
    if not cursor.ended() and not cursor.sees_any(*options_begin):
        name = cursor.name()
    options = read_database_options(cursor)
    return ddl.AlterDatabase(name, options.charset, options.collation)


def _drop(cursor: Cursor, charset: str) -> ddl.Statement:
    if cursor.take_any(*_DATABASE):
        cursor.take("IF", "EXISTS")
        return ddl.DropDatabase(cursor.name())
    start = cursor.at
    cursor.take("GLOBAL")
    cursor.take("TEMPORARY")
    if cursor.take_any(*_TABLES):
        return ddl.DropTables(_dropped(cursor))
    cursor.at = start
    if cursor.take("VIEW"):
        return ddl.DropViews(_dropped(cursor))
    if cursor.take("INDEX"):
        return _drop_index(cursor)
    return _idle_object(cursor, "drop")


def _dropped(cursor: Cursor) -> tuple[ddl.Name, ...]:
    cursor.take("IF", "EXISTS")
    names = cursor.tables()
    cursor.take_any("RESTRICT", "CASCADE")
    return names


def _drop_index(cursor: Cursor) -> ddl.Statement:
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name()
    cursor.expect("ON")
    table = cursor.table()
    while cursor.take_any("ALGORITHM", "LOCK"):
        cursor.take("=")
        cursor.name()
    return ddl.AlterTable(table, (drop_index(name, if_exists),))


def _truncate(cursor: Cursor, charset: str) -> ddl.Statement:
    cursor.take("TABLE")
    return ddl.TruncateTable(cursor.table())


def _rename(cursor: Cursor, charset: str) -> ddl.Statement:
    if cursor.take("USER"):
        cursor.skip_all()
        return ddl.NoTableEffect("rename user")
    if not cursor.take_any(*_TABLES):
        raise cursor.unexpected("TABLE")
    pairs = [_renamed(cursor)]
    while cursor.take(","):
        pairs.append(_renamed(cursor))
    return ddl.RenameTables(tuple(pairs))


def _renamed(cursor: Cursor) -> tuple[ddl.Name, ddl.Name]:
    old = cursor.table()
    if not cursor.take_any("TO", "AS"):
        raise cursor.unexpected("TO")
    return old, cursor.table()


def _recover(cursor: Cursor, charset: str) -> ddl.Statement:
    cursor.expect("TABLE")
    if cursor.take("BY", "JOB"):
        cursor.integer()
        return ddl.RecoverTable(None)
    name = cursor.table()
    if cursor.token.kind is Kind.NUMBER:
        # Which of several dropped tables of this name.
        cursor.next()
    return ddl.RecoverTable(name)


def _flashback(cursor: Cursor, charset: str) -> ddl.Statement:
    if cursor.take_any(*_DATABASE):
        name = cursor.name()
        _refuse_moment(cursor)
        return ddl.RecoverDatabase(name, cursor.name() if cursor.take("TO") else None)
    if cursor.sees("CLUSTER"):
        raise cursor.error("rows go back to an earlier moment that the statement does not show")
    cursor.expect("TABLE")
    table = cursor.table()
    _refuse_moment(cursor)
    return ddl.RecoverTable(table, cursor.table() if cursor.take("TO") else None)


def _refuse_moment(cursor: Cursor) -> None:
    if cursor.sees(",") or (
        cursor.sees_any("TO")
        and cursor.peek(1).key in ("TIMESTAMP", "TSO")
        and cursor.peek(2).kind is not Kind.END
    ):
        raise cursor.error("rows go back to an earlier moment that the statement does not show")


_READERS: dict[str, Callable[[Cursor, str], ddl.Statement]] = {
    "ALTER": _alter,
    "CREATE": _create,
    "DROP": _drop,
    "FLASHBACK": _flashback,
    "RECOVER": _recover,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
}
