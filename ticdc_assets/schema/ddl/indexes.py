"""Index definitions in DDL, and the constraints around them.

Only what tells rows apart is kept: names, columns, uniqueness.  Foreign keys and checks are read
and left; an index over an expression or over part of the rows is never a key, so never unique.
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from ticdc_assets.events import Index
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.tokens import Kind

_INDEX_WORDS = ("INDEX", "KEY")
_STARTS = frozenset(
    {"PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "CONSTRAINT"}
)
# Kinds of index that are also good names for a column.
_INDEX_KIND_NAMES = frozenset({"VECTOR", "COLUMNAR"})
_FLAGS = frozenset(
    {
        "VISIBLE",
        "INVISIBLE",
        "GLOBAL",
        "LOCAL",
        "CLUSTERED",
        "NONCLUSTERED",
        "ADD_COLUMNAR_REPLICA_ON_DEMAND",
    }
)
_VALUED = frozenset(
    {
        "KEY_BLOCK_SIZE",
        "ALGORITHM",
        "LOCK",
        "PRE_SPLIT_REGIONS",
        "ENGINE_ATTRIBUTE",
        "SECONDARY_ENGINE_ATTRIBUTE",
    }
)


def next_is_index(cursor: Cursor) -> bool:
    """Is an index or a constraint next, and not a column?"""
    token = cursor.token
    if token.kind is not Kind.WORD:
        return False
    return token.key in _STARTS or (
        token.key in _INDEX_KIND_NAMES and cursor.peek(1).key in _INDEX_WORDS
    )


def read_index(cursor: Cursor) -> tuple[Index | None, bool]:
    """Take an index or constraint; None for those that are none, and whether IF NOT EXISTS."""
    symbol = ""
    if cursor.accept("CONSTRAINT") and not cursor.next_is_any(*_STARTS):
        symbol = cursor.read_name()
    if cursor.next_is("CHECK"):
        skip_check(cursor)
        return None, False
    if cursor.accept("FOREIGN", "KEY"):
        _skip_foreign_key(cursor)
        return None, False
    primary = cursor.accept("PRIMARY", "KEY")
    unique = primary or cursor.accept("UNIQUE")
    if not primary:
        special = cursor.accept_any("FULLTEXT", "SPATIAL", *_INDEX_KIND_NAMES)
        if not cursor.accept_any(*_INDEX_WORDS) and not unique and not special:
            raise cursor.unexpected("an index")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = symbol
    if not cursor.next_is_any("(", "USING", "TYPE"):
        name = cursor.read_name()
    _skip_method(cursor)
    index = read_index_body(cursor, Index("PRIMARY" if primary else name, (), unique, primary))
    return index, if_not_exists


def read_index_body(cursor: Cursor, index: Index) -> Index:
    """Take an index's columns and options."""
    columns: list[str] = []
    whole = True
    for part in cursor.read_group().split_at_commas():
        if part.next_is("("):
            part.read_group()
            whole = False
        else:
            columns.append(part.read_column_name())
            if part.next_is("("):
                # A prefix's length; the rows are as unique by the whole column.
                part.read_group()
        part.accept_any("ASC", "DESC")
        part.expect_end()
    while _accept_option(cursor):
        pass
    if cursor.accept("WHERE"):
        whole = False
        while not cursor.at_end() and not cursor.next_is(","):
            cursor.skip_item()
    return replace(index, columns=tuple(columns), unique=index.unique and whole)


def find_free_name(index: Index, taken: Iterable[str]) -> str:
    """Name an index as TiDB does: after its first column, then `_2`, `_3`, … until none has it."""
    return _next_free_name(index, {name.casefold() for name in taken}, {})


def name_indexes(indexes: Iterable[Index]) -> tuple[Index, ...]:
    """Give names to those of a table's indexes that have none."""
    known = list(indexes)
    taken = {index.name.casefold() for index in known}
    numbers: dict[str, int] = {}
    for at, index in enumerate(known):
        if not index.name:
            known[at] = replace(index, name=_next_free_name(index, taken, numbers))
            taken.add(known[at].name.casefold())
    return tuple(known)


def _next_free_name(index: Index, taken: Collection[str], numbers: dict[str, int]) -> str:
    """Look for a name from the last number on that was tried for it."""
    base = index.name or (index.columns[0] if index.columns else "expression_index")
    name, number = base, numbers.get(base, 1)
    while name.casefold() in taken or name.casefold() == "primary":
        number += 1
        name = f"{base}_{number}"
    numbers[base] = number
    return name


def skip_check(cursor: Cursor) -> None:
    """Step over a CHECK constraint, named or not."""
    if cursor.accept("CONSTRAINT") and not cursor.next_is("CHECK"):
        cursor.read_name()
    cursor.expect("CHECK")
    cursor.read_group()
    if not cursor.accept("NOT", "ENFORCED"):
        cursor.accept("ENFORCED")


def skip_reference(cursor: Cursor) -> None:
    """Step over what a foreign key refers to."""
    cursor.expect("REFERENCES")
    cursor.read_table_name()
    if cursor.next_is("("):
        cursor.read_group()
    if cursor.accept("MATCH") and not cursor.accept_any("FULL", "PARTIAL", "SIMPLE"):
        raise cursor.unexpected("a kind of match")
    while cursor.accept("ON", "DELETE") or cursor.accept("ON", "UPDATE"):
        if cursor.accept("SET"):
            cursor.advance()
        elif not cursor.accept("NO", "ACTION") and not cursor.accept_any("RESTRICT", "CASCADE"):
            raise cursor.unexpected("a reference option")


def _skip_foreign_key(cursor: Cursor) -> None:
    cursor.accept("IF", "NOT", "EXISTS")
    if not cursor.next_is("("):
        cursor.read_name()
    cursor.read_group()
    skip_reference(cursor)


def _skip_method(cursor: Cursor) -> None:
    if cursor.accept_any("USING", "TYPE"):
        cursor.read_name()


def _accept_option(cursor: Cursor) -> bool:
    """Step over one option of an index, if one is next."""
    if cursor.accept_any(*_FLAGS):
        return True
    if cursor.accept("COMMENT"):
        cursor.accept("=")
        cursor.read_string()
    elif cursor.next_is_any("USING", "TYPE"):
        _skip_method(cursor)
    elif cursor.accept("WITH", "PARSER") or cursor.accept_any(*_VALUED):
        cursor.accept("=")
        cursor.skip_item()
    else:
        return False
    return True
