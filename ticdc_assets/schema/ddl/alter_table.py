"""ALTER TABLE: its actions, dispatched on their first word."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from ticdc_assets.events import Charset, Index
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.column_type import (
    accept_charset,
    get_charset,
    read_charset,
    read_collation,
)
from ticdc_assets.schema.ddl.columns import list_indexes, read_column
from ticdc_assets.schema.ddl.create_table import read_elements
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.default import read_default
from ticdc_assets.schema.ddl.indexes import find_free_name, next_is_index, read_index
from ticdc_assets.schema.ddl.options import TableOptions, accept_option
from ticdc_assets.schema.ddl.partition_actions import accept_partition_action

# Actions that consist of these words and change neither rows nor columns.
_IGNORED_ACTIONS: tuple[tuple[str, ...], ...] = (
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
# One per column and index of the largest table.
_MAX_ACTIONS = 5000
_ORDERS = ("ASC", "DESC")


def read_actions(cursor: Cursor) -> tuple[ddl.Action, ...]:
    """Read all actions."""
    actions: list[ddl.Action] = []
    options = TableOptions()
    while not cursor.at_end():
        # TiCDC may remove an action from a statement and leave its comma.
        if cursor.accept(","):
            continue
        if kind := accept_option(cursor, options):
            actions.append(ddl.ChangesNothing(kind))
            continue
        actions += _read_action(cursor)
        if len(actions) > _MAX_ACTIONS:
            raise cursor.error(f"ALTER TABLE with more than {_MAX_ACTIONS:,} actions")
        if not (cursor.at_end() or cursor.next_is(",") or _next_needs_no_comma(cursor)):
            raise cursor.unexpected("',' or the end")
    if options != TableOptions():
        actions.append(ddl.SetOptions(options.charset, options.comment))
    return tuple(actions)


def _next_needs_no_comma(cursor: Cursor) -> bool:
    """Whether the next action may follow without a comma, as partition actions may."""
    return cursor.next_is_any("PARTITION", "REMOVE", "REORGANIZE", "SPLIT", "MERGE")


def _read_action(cursor: Cursor) -> list[ddl.Action]:
    partition_action = accept_partition_action(cursor)
    if partition_action is not None:
        return [partition_action]
    for words in _IGNORED_ACTIONS:
        if cursor.accept(*words):
            return [ddl.ChangesNothing(" ".join(words).lower())]
    if cursor.accept("ADD"):
        return list(_read_add(cursor))
    reader = _READERS.get(cursor.token.key)
    if reader is None:
        raise cursor.unexpected("an action of ALTER TABLE")
    cursor.advance()
    return [reader(cursor)]


def _read_add(cursor: Cursor) -> Iterator[ddl.Action]:
    if cursor.accept("STATS_EXTENDED"):
        cursor.accept("IF", "NOT", "EXISTS")
        cursor.read_names()
        cursor.advance()
        cursor.read_group()
        yield ddl.ChangesNothing("statistics")
        return
    if next_is_index(cursor):
        index, if_not_exists = read_index(cursor)
        yield (
            ddl.ChangesNothing("constraint")
            if index is None
            else _make_add_index(index, if_not_exists)
        )
        return
    cursor.accept("COLUMN")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    elements = read_elements(cursor) if cursor.next_is("(") else [read_column(cursor)]
    for element in elements:
        if isinstance(element, Index):
            yield _make_add_index(element, False)
            continue
        yield ddl.AddColumn(element, _read_position(cursor), if_not_exists)
        for index in list_indexes(element):
            yield _make_add_index(index, if_not_exists)


def _make_add_index(index: Index, if_not_exists: bool) -> ddl.AddIndex:
    if not index.name:
        index = replace(index, name=find_free_name(index, ()))
    return ddl.AddIndex(index, if_not_exists)


def _read_position(cursor: Cursor) -> ddl.Position | None:
    if cursor.accept("FIRST"):
        return ddl.First()
    return ddl.After(cursor.read_column_name()) if cursor.accept("AFTER") else None


def _read_drop(cursor: Cursor) -> ddl.Action:
    if cursor.accept("PRIMARY", "KEY"):
        return ddl.DropPrimaryKey()
    if cursor.accept("FOREIGN", "KEY") or cursor.accept_any("CHECK", "CONSTRAINT"):
        cursor.accept("IF", "EXISTS")
        cursor.read_name()
        return ddl.ChangesNothing("constraint")
    if cursor.accept("STATS_EXTENDED"):
        cursor.accept("IF", "EXISTS")
        cursor.read_name()
        return ddl.ChangesNothing("statistics")
    if cursor.accept_any("INDEX", "KEY"):
        if_exists = cursor.accept("IF", "EXISTS")
        return make_drop_index(cursor.read_name(), if_exists)
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.read_column_name()
    cursor.accept_any("RESTRICT", "CASCADE")
    return ddl.DropColumn(name, if_exists)


def make_drop_index(name: str, if_exists: bool) -> ddl.Action:
    """Return the action that drops an index; the name PRIMARY is reserved for the primary key."""
    if name.upper() == "PRIMARY":
        return ddl.DropPrimaryKey()
    return ddl.DropIndex(name, if_exists)


def _read_modify(cursor: Cursor) -> ddl.Action:
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    column = read_column(cursor)
    return _read_modified_column(cursor, column.name, column, if_exists)


def _read_change(cursor: Cursor) -> ddl.Action:
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    old_name = cursor.read_column_name()
    return _read_modified_column(cursor, old_name, read_column(cursor), if_exists)


def _read_modified_column(
    cursor: Cursor, old_name: str, column: ddl.DeclaredColumn, if_exists: bool
) -> ddl.Action:
    if column.primary or column.unique:
        # TiDB does not accept such a statement, so none was ever executed.
        raise cursor.error("a key in MODIFY or CHANGE COLUMN is not supported")
    return ddl.ModifyColumn(old_name, column, _read_position(cursor), if_exists)


def _read_alter(cursor: Cursor) -> ddl.Action:
    if cursor.accept("INDEX"):
        cursor.read_name()
        if not cursor.accept_any("VISIBLE", "INVISIBLE"):
            raise cursor.unexpected("VISIBLE or INVISIBLE")
        return ddl.ChangesNothing("index visibility")
    if cursor.accept_any("CHECK", "CONSTRAINT"):
        cursor.read_name()
        cursor.accept("NOT")
        cursor.expect("ENFORCED")
        return ddl.ChangesNothing("constraint")
    cursor.accept("COLUMN")
    name = cursor.read_column_name()
    if cursor.accept("DROP", "DEFAULT"):
        return ddl.SetDefault(name)
    cursor.expect("SET")
    if cursor.accept_any("VISIBLE", "INVISIBLE"):
        return ddl.ChangesNothing("column visibility")
    cursor.expect("DEFAULT")
    return ddl.SetDefault(name, read_default(cursor))


def _read_rename(cursor: Cursor) -> ddl.Action:
    if cursor.accept("COLUMN"):
        old = cursor.read_column_name()
        cursor.expect("TO")
        return ddl.RenameColumn(old, cursor.read_column_name())
    if cursor.accept_any("INDEX", "KEY"):
        old = cursor.read_name()
        cursor.expect("TO")
        return ddl.RenameIndex(old, cursor.read_name())
    cursor.accept_any("TO", "AS", "=")
    return ddl.RenameTo(cursor.read_table_name())


def _read_convert(cursor: Cursor) -> ddl.Action:
    cursor.expect("TO")
    if not accept_charset(cursor):
        raise cursor.unexpected("CHARACTER SET")
    name = None if cursor.accept("DEFAULT") else read_charset(cursor)
    collation = read_collation(cursor) if cursor.accept("COLLATE") else None
    name = name or (collation and get_charset(collation))
    return ddl.ConvertCharset(None if name is None else Charset(name, collation))


def _read_order(cursor: Cursor) -> ddl.Action:
    cursor.expect("BY")
    cursor.read_column_name()
    cursor.accept_any(*_ORDERS)
    while cursor.next_is(",") and _is_order_item(cursor):
        cursor.advance()
        cursor.read_column_name()
        cursor.accept_any(*_ORDERS)
    return ddl.ChangesNothing("order by")


def _is_order_item(cursor: Cursor) -> bool:
    return cursor.peek(2).key in ("", ",", ".", *_ORDERS) and cursor.peek(1).key != ","


def _read_compact(cursor: Cursor) -> ddl.Action:
    if cursor.accept("PARTITION"):
        cursor.read_names()
    cursor.accept("TIFLASH", "REPLICA")
    return ddl.ChangesNothing("compact")


def _read_lock(cursor: Cursor) -> ddl.Action:
    cursor.accept("=")
    cursor.read_name()
    return ddl.ChangesNothing("lock or algorithm")


_READERS: dict[str, Callable[[Cursor], ddl.Action]] = {
    "ALGORITHM": _read_lock,
    "ALTER": _read_alter,
    "CHANGE": _read_change,
    "COMPACT": _read_compact,
    "CONVERT": _read_convert,
    "DROP": _read_drop,
    "LOCK": _read_lock,
    "MODIFY": _read_modify,
    "ORDER": _read_order,
    "RENAME": _read_rename,
}
