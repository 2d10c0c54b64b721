"""DDL text to statements: as TiDB prints them and TiCDC sends them, and as users type them."""

from collections.abc import Callable, Iterator
from functools import lru_cache

from ticdc_assets.errors import CONTENT_ERRORS, UnreadableDdl, describe_content_error
from ticdc_assets.events import Index
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.alter_table import make_drop_index, read_actions
from ticdc_assets.schema.ddl.create_table import read_create_table
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.indexes import read_index_body
from ticdc_assets.schema.ddl.options import read_database_options
from ticdc_assets.schema.ddl.tokens import Kind

_DATABASE = ("DATABASE", "SCHEMA")
_TABLES = ("TABLE", "TABLES")
_INDEX_KINDS = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR")

# Objects whose CREATE, ALTER and DROP change no table.
_IGNORED_OBJECTS = (
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
# Statements, by their first words, that change no table.
_IGNORED_STATEMENTS = (
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
_FLASHBACK_TO_TS = "{} is not supported: it resets rows, and TiCDC sends none of them"
_VIEW_SETTINGS = ("ALGORITHM", "DEFINER", "SQL", "OR")


# TiCDC sends a statement once per table, and each message is read again to order the DDLs.
@lru_cache(maxsize=256)
def read_ddl(sql: str) -> tuple[ddl.Statement, ...]:
    """Read the statements of a DDL text; raise `UnreadableDdl` if any of them is not supported."""
    try:
        sql.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UnreadableDdl("the text is not Unicode", sql) from None
    try:
        return tuple(_read_statements(sql))
    except UnreadableDdl:
        raise
    except CONTENT_ERRORS as error:
        raise UnreadableDdl(describe_content_error(error), sql) from error


def _read_statements(sql: str) -> Iterator[ddl.Statement]:
    for cursor in Cursor.over(sql).split_statements():
        yield _read_statement(cursor)
        cursor.expect_end()


def _read_statement(cursor: Cursor) -> ddl.Statement:
    reader = _READERS.get(cursor.token.key)
    if reader is not None:
        cursor.advance()
        return reader(cursor)
    for words in _IGNORED_STATEMENTS:
        if cursor.accept(*words.split()):
            cursor.skip_rest()
            return ddl.NoTableEffect(words.lower())
    raise cursor.unexpected("a statement")


def _read_ignored_object(cursor: Cursor, verb: str) -> ddl.NoTableEffect:
    for words in _IGNORED_OBJECTS:
        if cursor.accept(*words.split()):
            cursor.skip_rest()
            return ddl.NoTableEffect(f"{verb} {words.lower()}")
    raise cursor.unexpected(f"an object that the reader can {verb}")


def _read_create(cursor: Cursor) -> ddl.Statement:
    if cursor.accept_any(*_DATABASE):
        return _read_create_database(cursor)
    start = cursor.position
    cursor.accept("GLOBAL")
    cursor.accept("TEMPORARY")
    if cursor.accept("TABLE"):
        return read_create_table(cursor)
    cursor.position = start
    kind = cursor.accept_any(*_INDEX_KINDS)
    if cursor.accept("INDEX"):
        return _read_create_index(cursor, unique=kind == "UNIQUE")
    cursor.position = start
    if cursor.next_is("VIEW") or cursor.next_is_any(*_VIEW_SETTINGS):
        return _read_create_view(cursor)
    return _read_ignored_object(cursor, "create")


def _read_create_database(cursor: Cursor) -> ddl.Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.read_name()
    return ddl.CreateDatabase(name, read_database_options(cursor).charset, if_not_exists)


def _read_create_index(cursor: Cursor, *, unique: bool) -> ddl.Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.read_name()
    if cursor.accept_any("USING", "TYPE"):
        cursor.read_name()
    cursor.expect("ON")
    table = cursor.read_table_name()
    index = read_index_body(cursor, Index(name, (), unique=unique))
    return ddl.AlterTable(table, (ddl.AddIndex(index, if_not_exists),))


def _read_create_view(cursor: Cursor) -> ddl.Statement:
    if cursor.accept("OR", "REPLACE") and cursor.accept_any(*_TABLES):
        raise cursor.error("CREATE OR REPLACE TABLE is not supported")
    while not cursor.next_is("VIEW"):
        cursor.advance()
    cursor.expect("VIEW")
    cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.read_table_name()
    if cursor.next_is("("):
        cursor.read_group()
    cursor.expect("AS")
    cursor.skip_rest()
    return ddl.CreateView(name)


def _read_alter(cursor: Cursor) -> ddl.Statement:
    start = cursor.position
    cursor.accept("IGNORE")
    if cursor.accept("TABLE"):
        table = cursor.read_table_name()
        return ddl.AlterTable(table, read_actions(cursor))
    cursor.position = start
    if cursor.accept_any(*_DATABASE):
        return _read_alter_database(cursor)
    return _read_ignored_object(cursor, "alter")


def _read_alter_database(cursor: Cursor) -> ddl.Statement:
    options_begin = ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "PLACEMENT", "SET")
    name = None
    if not cursor.at_end() and not cursor.next_is_any(*options_begin):
        name = cursor.read_name()
    return ddl.AlterDatabase(name, read_database_options(cursor).charset)


def _read_drop(cursor: Cursor) -> ddl.Statement:
    if cursor.accept_any(*_DATABASE):
        cursor.accept("IF", "EXISTS")
        return ddl.DropDatabase(cursor.read_name())
    start = cursor.position
    cursor.accept("GLOBAL")
    cursor.accept("TEMPORARY")
    if cursor.accept_any(*_TABLES):
        return ddl.DropTables(_read_dropped_names(cursor))
    cursor.position = start
    if cursor.accept("VIEW"):
        return ddl.DropViews(_read_dropped_names(cursor))
    if cursor.accept("INDEX"):
        return _read_drop_index(cursor)
    return _read_ignored_object(cursor, "drop")


def _read_dropped_names(cursor: Cursor) -> tuple[ddl.Name, ...]:
    cursor.accept("IF", "EXISTS")
    names = cursor.read_table_names()
    cursor.accept_any("RESTRICT", "CASCADE")
    return names


def _read_drop_index(cursor: Cursor) -> ddl.Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.read_name()
    cursor.expect("ON")
    table = cursor.read_table_name()
    while cursor.accept_any("ALGORITHM", "LOCK"):
        cursor.accept("=")
        cursor.read_name()
    return ddl.AlterTable(table, (make_drop_index(name, if_exists),))


def _read_truncate(cursor: Cursor) -> ddl.Statement:
    cursor.accept("TABLE")
    return ddl.TruncateTable(cursor.read_table_name())


def _read_rename(cursor: Cursor) -> ddl.Statement:
    if cursor.accept("USER"):
        cursor.skip_rest()
        return ddl.NoTableEffect("rename user")
    if not cursor.accept_any(*_TABLES):
        raise cursor.unexpected("TABLE")
    pairs = [_read_rename_pair(cursor)]
    while cursor.accept(","):
        pairs.append(_read_rename_pair(cursor))
    return ddl.RenameTables(tuple(pairs))


def _read_rename_pair(cursor: Cursor) -> tuple[ddl.Name, ddl.Name]:
    old = cursor.read_table_name()
    if not cursor.accept_any("TO", "AS"):
        raise cursor.unexpected("TO")
    return old, cursor.read_table_name()


def _read_recover(cursor: Cursor) -> ddl.Statement:
    cursor.expect("TABLE")
    if cursor.accept("BY", "JOB"):
        cursor.read_integer()
        return ddl.RecoverTable(None)
    name = cursor.read_table_name()
    if cursor.token.kind is Kind.NUMBER:
        # The number selects one of several dropped tables of this name.
        cursor.advance()
    return ddl.RecoverTable(name)


def _read_flashback(cursor: Cursor) -> ddl.Statement:
    if cursor.accept_any(*_DATABASE):
        name = cursor.read_name()
        _check_restores_drop(cursor)
        return ddl.RecoverDatabase(name, cursor.read_name() if cursor.accept("TO") else None)
    if cursor.next_is("CLUSTER"):
        raise cursor.error(_FLASHBACK_TO_TS.format("FLASHBACK CLUSTER"))
    cursor.expect("TABLE")
    table = cursor.read_table_name()
    _check_restores_drop(cursor)
    return ddl.RecoverTable(table, cursor.read_table_name() if cursor.accept("TO") else None)


def _check_restores_drop(cursor: Cursor) -> None:
    """Raise `UnreadableDdl` for FLASHBACK to a timestamp, which resets rows to earlier values."""
    if cursor.next_is(",") or (
        cursor.next_is_any("TO")
        and cursor.peek(1).key in ("TIMESTAMP", "TSO")
        and cursor.peek(2).kind is not Kind.END
    ):
        raise cursor.error(_FLASHBACK_TO_TS.format("FLASHBACK TO TIMESTAMP or TSO"))


_READERS: dict[str, Callable[[Cursor], ddl.Statement]] = {
    "ALTER": _read_alter,
    "CREATE": _read_create,
    "DROP": _read_drop,
    "FLASHBACK": _read_flashback,
    "RECOVER": _read_recover,
    "RENAME": _read_rename,
    "TRUNCATE": _read_truncate,
}
