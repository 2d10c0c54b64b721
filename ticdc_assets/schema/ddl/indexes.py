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
_SOFT_STARTS = frozenset({"VECTOR", "COLUMNAR"})
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


def begins_index(cursor: Cursor) -> bool:
    """Is an index or a constraint next, and not a column?"""
    token = cursor.token
    if token.kind is not Kind.WORD:
        return False
    return token.key in _STARTS or (
        token.key in _SOFT_STARTS and cursor.peek(1).key in _INDEX_WORDS
    )


def read_index(cursor: Cursor) -> tuple[Index | None, bool]:
    """Take an index or constraint; None for those that are none, and whether IF NOT EXISTS."""
    symbol = ""
    if cursor.take("CONSTRAINT") and not cursor.sees_any(*_STARTS):
        symbol = cursor.name()
    if cursor.sees("CHECK"):
        skip_check(cursor)
        return None, False
    if cursor.take("FOREIGN", "KEY"):
        _skip_foreign_key(cursor)
        return None, False
    primary = cursor.take("PRIMARY", "KEY")
    unique = primary or cursor.take("UNIQUE")
    if not primary:
        special = cursor.take_any("FULLTEXT", "SPATIAL", *_SOFT_STARTS)
        if not cursor.take_any(*_INDEX_WORDS) and not unique and not special:
            raise cursor.unexpected("an index")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = symbol
    if not cursor.sees_any("(", "USING", "TYPE"):
        name = cursor.name()
    _skip_method(cursor)
    index = read_parts(cursor, Index("PRIMARY" if primary else name, (), unique, primary))
    return index, if_not_exists


def read_parts(cursor: Cursor, index: Index) -> Index:
    """Take an index's columns and options."""
    columns: list[str] = []
    whole = True
    for part in cursor.inside().items():
        if part.sees("("):
            part.inside()
            whole = False
        else:
            columns.append(part.column())
            if part.sees("("):
                # A prefix's length; the rows are as unique by the whole column.
                part.inside()
        part.take_any("ASC", "DESC")
        part.expect_end()
    while _take_option(cursor):
        pass
    if cursor.take("WHERE"):
        whole = False
        while not cursor.ended() and not cursor.sees(","):
            cursor.skip()
    return replace(index, columns=tuple(columns), unique=index.unique and whole)


def find_free_name(index: Index, taken: Iterable[str]) -> str:
    """Name an index as TiDB does: after its first column, then `_2`, `_3`, … until none has it."""
    return _free_name(index, {name.casefold() for name in taken}, {})


def named(indexes: Iterable[Index]) -> tuple[Index, ...]:
    """Give names to those of a table's indexes that have none."""
    known = list(indexes)
    taken = {index.name.casefold() for index in known}
    numbers: dict[str, int] = {}
    for at, index in enumerate(known):
        if not index.name:
            known[at] = replace(index, name=_free_name(index, taken, numbers))
            taken.add(known[at].name.casefold())
    return tuple(known)


def _free_name(index: Index, taken: Collection[str], numbers: dict[str, int]) -> str:
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
    if cursor.take("CONSTRAINT") and not cursor.sees("CHECK"):
        cursor.name()
    cursor.expect("CHECK")
    cursor.inside()
    if not cursor.take("NOT", "ENFORCED"):
        cursor.take("ENFORCED")


def skip_reference(cursor: Cursor) -> None:
    """Step over what a foreign key refers to."""
    cursor.expect("REFERENCES")
    cursor.table()
    if cursor.sees("("):
        cursor.inside()
    if cursor.take("MATCH") and not cursor.take_any("FULL", "PARTIAL", "SIMPLE"):
        raise cursor.unexpected("a kind of match")
    while cursor.take("ON", "DELETE") or cursor.take("ON", "UPDATE"):
        if cursor.take("SET"):
            cursor.next()
        elif not cursor.take("NO", "ACTION") and not cursor.take_any("RESTRICT", "CASCADE"):
            raise cursor.unexpected("a reference option")


def _skip_foreign_key(cursor: Cursor) -> None:
    cursor.take("IF", "NOT", "EXISTS")
    if not cursor.sees("("):
        cursor.name()
    cursor.inside()
    skip_reference(cursor)


def _skip_method(cursor: Cursor) -> None:
    if cursor.take_any("USING", "TYPE"):
        cursor.name()


def _take_option(cursor: Cursor) -> bool:
    """Step over one option of an index, if one is next."""
    if cursor.take_any(*_FLAGS):
        return True
    if cursor.take("COMMENT"):
        cursor.take("=")
        cursor.string()
    elif cursor.sees_any("USING", "TYPE"):
        _skip_method(cursor)
    elif cursor.take("WITH", "PARSER") or cursor.take_any(*_VALUED):
        cursor.take("=")
        cursor.skip()
    else:
        return False
    return True
