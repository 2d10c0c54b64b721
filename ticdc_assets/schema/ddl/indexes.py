"""Index definitions and constraints in DDL.

Only the name, the columns and the uniqueness of an index are kept, since only they can identify a
row.  Foreign keys and checks are skipped.  An index over an expression or over part of the rows
identifies no row, so it counts as not unique.
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
# Kinds of index whose words may also be column names.
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
    """Whether an index or a constraint comes next, rather than a column."""
    token = cursor.token
    if token.kind is not Kind.WORD:
        return False
    return token.key in _STARTS or (
        token.key in _INDEX_KIND_NAMES and cursor.peek(1).key in _INDEX_WORDS
    )


def read_index(cursor: Cursor) -> tuple[Index | None, bool]:
    """Read an index or skip a constraint (None); also return whether IF NOT EXISTS is there."""
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
    """Read an index's columns and options."""
    columns: list[str] = []
    covers_rows = True
    for part in cursor.read_group().split_at_commas():
        if part.next_is("("):
            part.read_group()
            covers_rows = False
        else:
            columns.append(part.read_column_name())
            if part.next_is("("):
                # The length of a prefix: a unique prefix implies a unique column.
                part.read_group()
        part.accept_any("ASC", "DESC")
        part.expect_end()
    while _accept_option(cursor):
        pass
    if cursor.accept("WHERE"):
        covers_rows = False
        while not cursor.at_end() and not cursor.next_is(","):
            cursor.skip_item()
    return replace(index, columns=tuple(columns), unique=index.unique and covers_rows)


def find_free_name(index: Index, taken: Iterable[str]) -> str:
    """Name an index as TiDB does: after its first column, with `_2`, `_3`, … if that is taken."""
    return _next_free_name(index, {name.casefold() for name in taken}, {})


def name_indexes(indexes: Iterable[Index]) -> tuple[Index, ...]:
    """Name those of a table's indexes that have no name."""
    named = list(indexes)
    taken = {index.name.casefold() for index in named}
    numbers: dict[str, int] = {}
    for position, index in enumerate(named):
        if not index.name:
            named[position] = replace(index, name=_next_free_name(index, taken, numbers))
            taken.add(named[position].name.casefold())
    return tuple(named)


def _next_free_name(index: Index, taken: Collection[str], numbers: dict[str, int]) -> str:
    """Find a free name, starting from the last number tried for it."""
    base = index.name or (index.columns[0] if index.columns else "expression_index")
    name, number = base, numbers.get(base, 1)
    while name.casefold() in taken or name.casefold() == "primary":
        number += 1
        name = f"{base}_{number}"
    numbers[base] = number
    return name


def skip_check(cursor: Cursor) -> None:
    """Skip a CHECK constraint, named or not."""
    if cursor.accept("CONSTRAINT") and not cursor.next_is("CHECK"):
        cursor.read_name()
    cursor.expect("CHECK")
    cursor.read_group()
    if not cursor.accept("NOT", "ENFORCED"):
        cursor.accept("ENFORCED")


def skip_reference(cursor: Cursor) -> None:
    """Skip the REFERENCES clause of a foreign key."""
    cursor.expect("REFERENCES")
    cursor.read_table_name()
    if cursor.next_is("("):
        cursor.read_group()
    if cursor.accept("MATCH") and not cursor.accept_any("FULL", "PARTIAL", "SIMPLE"):
        raise cursor.unexpected("FULL, PARTIAL or SIMPLE")
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
    """Skip one option of an index, if one comes next."""
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
