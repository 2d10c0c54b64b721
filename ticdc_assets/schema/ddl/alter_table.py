"""ALTER TABLE: its actions, one reader for each word that may begin one."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from ticdc_assets.events import Index
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.column_type import charset_name, collation_name, take_charset
from ticdc_assets.schema.ddl.columns import DeclaredColumn, read_column
from ticdc_assets.schema.ddl.create_table import read_elements
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.default import read_default
from ticdc_assets.schema.ddl.indexes import begins_index, find_free_name, read_index
from ticdc_assets.schema.ddl.options import Options, take_option
from ticdc_assets.schema.ddl.partition_actions import take_partition_action

# Actions that are these words and nothing else.
_IDLE: tuple[tuple[str, ...], ...] = (
    ("FORCE",),
    ("CACHE",),
    ("NOCACHE",),
    ("ENABLE", "KEYS"),
    ("DISABLE", "KEYS"),
    ("WITH", "VALIDATION"),
    ("WITHOUT", "VALIDATION"),
    ("READ", "ONLY"),
    ("READ", "WRITE"),
    ("SECONDARY_LOAD",),
    ("SECONDARY_UNLOAD",),
    ("IMPORT", "TABLESPACE"),
    ("DISCARD", "TABLESPACE"),
    ("REMOVE", "TTL"),
)
_ORDERS = ("ASC", "DESC")


def read_actions(cursor: Cursor, charset: str) -> tuple[ddl.Action, ...]:
    """Take all actions; columns without a charset get this one."""
    actions: list[ddl.Action] = []
    options = Options()
    while not cursor.ended():
        # An action TiCDC takes out of a statement may leave its comma behind.
        if cursor.take(","):
            continue
        if kind := take_option(cursor, options):
            actions.append(ddl.ChangesNothing(kind))
            continue
        actions += _action(cursor, charset)
        if not (cursor.ended() or cursor.sees(",") or _may_follow_without_comma(cursor)):
            raise cursor.unexpected("',' or the end")
    return tuple(actions)


def _may_follow_without_comma(cursor: Cursor) -> bool:
    """The last action may, if it is one of these."""
    return cursor.sees_any("PARTITION", "REMOVE", "REORGANIZE", "SPLIT", "MERGE")


def _action(cursor: Cursor, charset: str) -> list[ddl.Action]:
    partition_action = take_partition_action(cursor)
    if partition_action is not None:
        return [partition_action]
    for words in _IDLE:
        if cursor.take(*words):
            return [ddl.ChangesNothing(" ".join(words).lower())]
    if cursor.take("ADD"):
        return list(_add(cursor, charset))
    reader = _READERS.get(cursor.token.key)
    if reader is None:
        raise cursor.unexpected("an action")
    cursor.next()
    return [reader(cursor, charset)]


def _add(cursor: Cursor, charset: str) -> Iterator[ddl.Action]:
    if cursor.take("STATS_EXTENDED"):
        cursor.take("IF", "NOT", "EXISTS")
        cursor.names()
        cursor.next()
        cursor.inside()
        yield ddl.ChangesNothing("statistics")
        return
    if begins_index(cursor):
        index, if_not_exists = read_index(cursor)
        yield (
            ddl.ChangesNothing("constraint") if index is None else _add_index(index, if_not_exists)
        )
        return
    cursor.take("COLUMN")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    elements = read_elements(cursor) if cursor.sees("(") else [read_column(cursor)]
    for element in elements:
        if isinstance(element, Index):
            yield _add_index(element, False)
            continue
        yield ddl.AddColumn(element.resolved(charset), _position(cursor), if_not_exists)
        for index in element.indexes:
            yield _add_index(index, if_not_exists)


def _add_index(index: Index, if_not_exists: bool) -> ddl.AddIndex:
    if not index.name:
        index = replace(index, name=find_free_name(index, ()))
    return ddl.AddIndex(index, if_not_exists)


def _position(cursor: Cursor) -> ddl.Position | None:
    if cursor.take("FIRST"):
        return ddl.First()
    return ddl.After(cursor.column()) if cursor.take("AFTER") else None


def _drop(cursor: Cursor, charset: str) -> ddl.Action:
    if cursor.take("PRIMARY", "KEY"):
        return ddl.DropPrimaryKey()
    if cursor.take("FOREIGN", "KEY") or cursor.take_any("CHECK", "CONSTRAINT"):
        cursor.take("IF", "EXISTS")
        cursor.name()
        return ddl.ChangesNothing("constraint")
    if cursor.take("STATS_EXTENDED"):
        cursor.take("IF", "EXISTS")
        cursor.name()
        return ddl.ChangesNothing("statistics")
    if cursor.take_any("INDEX", "KEY"):
        if_exists = cursor.take("IF", "EXISTS")
        return drop_index(cursor.name(), if_exists)
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.column()
    cursor.take_any("RESTRICT", "CASCADE")
    return ddl.DropColumn(name, if_exists)


def drop_index(name: str, if_exists: bool) -> ddl.Action:
    """Drop the index of this name; `PRIMARY` is the primary key's and no other's."""
    if name.upper() == "PRIMARY":
        return ddl.DropPrimaryKey()
    return ddl.DropIndex(name, if_exists)


def _modify(cursor: Cursor, charset: str) -> ddl.Action:
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    column = read_column(cursor)
    return _modified(cursor, column.name, column, charset, if_exists)


def _change(cursor: Cursor, charset: str) -> ddl.Action:
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    old_name = cursor.column()
    return _modified(cursor, old_name, read_column(cursor), charset, if_exists)


def _modified(
    cursor: Cursor, old_name: str, column: DeclaredColumn, charset: str, if_exists: bool
) -> ddl.Action:
    if column.primary or column.unique:
        # TiDB refuses it, so no such statement was ever carried out.
        raise cursor.error("a changed column with a key of its own")
    return ddl.ModifyColumn(old_name, column.resolved(charset), _position(cursor), if_exists)


def _alter(cursor: Cursor, charset: str) -> ddl.Action:
    if cursor.take("INDEX"):
        cursor.name()
        if not cursor.take_any("VISIBLE", "INVISIBLE"):
            raise cursor.unexpected("VISIBLE or INVISIBLE")
        return ddl.ChangesNothing("index visibility")
    if cursor.take_any("CHECK", "CONSTRAINT"):
        cursor.name()
        cursor.take("NOT")
        cursor.expect("ENFORCED")
        return ddl.ChangesNothing("constraint")
    cursor.take("COLUMN")
    name = cursor.column()
    if cursor.take("DROP", "DEFAULT"):
        return ddl.SetDefault(name)
    cursor.expect("SET")
    if cursor.take_any("VISIBLE", "INVISIBLE"):
        return ddl.ChangesNothing("column visibility")
    cursor.expect("DEFAULT")
    default = read_default(cursor)
    return ddl.SetDefault(name, default.text, default.is_expression, default.literal)


def _rename(cursor: Cursor, charset: str) -> ddl.Action:
    if cursor.take("COLUMN"):
        old = cursor.column()
        cursor.expect("TO")
        return ddl.RenameColumn(old, cursor.column())
    if cursor.take_any("INDEX", "KEY"):
        old = cursor.name()
        cursor.expect("TO")
        return ddl.RenameIndex(old, cursor.name())
    cursor.take_any("TO", "AS", "=")
    return ddl.RenameTo(cursor.table())


def _convert(cursor: Cursor, charset: str) -> ddl.Action:
    cursor.expect("TO")
    if not take_charset(cursor):
        raise cursor.unexpected("CHARACTER SET")
    converted = None if cursor.take("DEFAULT") else charset_name(cursor)
    collation = collation_name(cursor) if cursor.take("COLLATE") else None
    return ddl.ConvertCharset(converted, collation)


def _order(cursor: Cursor, charset: str) -> ddl.Action:
    cursor.expect("BY")
    cursor.column()
    cursor.take_any(*_ORDERS)
    while cursor.sees(",") and _is_order_item(cursor):
        cursor.next()
        cursor.column()
        cursor.take_any(*_ORDERS)
    return ddl.ChangesNothing("order by")


def _is_order_item(cursor: Cursor) -> bool:
    return cursor.peek(2).key in ("", ",", ".", *_ORDERS) and cursor.peek(1).key != ","


def _compact(cursor: Cursor, charset: str) -> ddl.Action:
    if cursor.take("PARTITION"):
        cursor.names()
    cursor.take("TIFLASH", "REPLICA")
    return ddl.ChangesNothing("compact")


def _lock(cursor: Cursor, charset: str) -> ddl.Action:
    cursor.take("=")
    cursor.name()
    return ddl.ChangesNothing("lock or algorithm")


_READERS: dict[str, Callable[[Cursor, str], ddl.Action]] = {
    "ALGORITHM": _lock,
    "ALTER": _alter,
    "CHANGE": _change,
    "COMPACT": _compact,
    "CONVERT": _convert,
    "DROP": _drop,
    "LOCK": _lock,
    "MODIFY": _modify,
    "ORDER": _order,
    "RENAME": _rename,
}
