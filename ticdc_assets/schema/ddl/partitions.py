"""PARTITION BY and partition definitions.

Bounds and list values remain SQL, with string literals in one spelling; `schema.partition`
evaluates them.  TiDB has no subpartitions and ignores LINEAR, so both are skipped.
"""

from collections.abc import Callable

from ticdc_assets.events import Partition, Partitioning
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.tokens import Kind

# TiDB's limit.
_MAX_PARTITIONS = 8192

_OPTIONS = frozenset(
    {
        "COMMENT",
        "ENGINE",
        "ENGINE_ATTRIBUTE",
        "SECONDARY_ENGINE_ATTRIBUTE",
        "INSERT_METHOD",
        "MAX_ROWS",
        "MIN_ROWS",
        "TABLESPACE",
        "NODEGROUP",
        "ATTRIBUTES",
    }
)
_OPTION_PAIRS = (
    ("STORAGE", "ENGINE"),
    ("DATA", "DIRECTORY"),
    ("INDEX", "DIRECTORY"),
    ("PLACEMENT", "POLICY"),
)


def read_partitioning(cursor: Cursor) -> Partitioning:
    """Read the partitioning after PARTITION BY."""
    make, needs_no_definitions = _read_method(cursor)
    interval = _skip_interval(cursor)
    count = read_partition_count(cursor) if cursor.accept("PARTITIONS") else None
    _skip_subpartitioning(cursor)
    partitions: tuple[Partition, ...] = ()
    if cursor.next_is("("):
        partitions = read_partitions(cursor)
    elif needs_no_definitions:
        partitions = tuple(Partition(f"p{number}") for number in range(count or 1))
    elif interval:
        raise cursor.error("INTERVAL partitioning without partition definitions is not supported")
    else:
        raise cursor.unexpected("partitions")
    if cursor.accept("UPDATE", "INDEXES"):
        cursor.read_group()
    return make(partitions)


def read_partition_count(cursor: Cursor) -> int:
    """Read a number of partitions."""
    count = cursor.read_integer()
    _check_count(cursor, count)
    return count


def _check_count(cursor: Cursor, count: int) -> None:
    if not 0 < count <= _MAX_PARTITIONS:
        raise cursor.error(f"{count} partitions are outside TiDB's limits, 1 to {_MAX_PARTITIONS}")


def read_partitions(cursor: Cursor) -> tuple[Partition, ...]:
    """Read partition definitions in parentheses."""
    definitions = cursor.read_group().split_at_commas()
    _check_count(cursor, len(definitions))
    return tuple(_read_partition(part) for part in definitions)


def skip_partition_options(cursor: Cursor) -> None:
    """Skip the options of one partition."""
    while True:
        if any(cursor.accept(*pair) for pair in _OPTION_PAIRS) or cursor.accept_any(*_OPTIONS):
            cursor.accept("=") or cursor.accept("SET")
            cursor.advance()
        elif cursor.next_is("("):
            # Subpartitions.
            cursor.read_group()
        else:
            return


def _read_method(cursor: Cursor) -> tuple[Callable[[tuple[Partition, ...]], Partitioning], bool]:
    """Read the partitioning method; also return whether it needs no partition definitions."""
    cursor.accept("LINEAR")
    if cursor.accept("HASH"):
        expression = cursor.read_group().read_rest()
        return (lambda p: Partitioning("hash", p, expression=expression)), True
    if cursor.accept("KEY"):
        if cursor.accept("ALGORITHM", "="):
            cursor.read_integer()
        inside = cursor.read_group()
        key = () if inside.at_end() else _columns(inside)
        return (lambda p: Partitioning("key", p, columns=key)), True
    kind = cursor.accept_any("RANGE", "LIST")
    if not kind:
        raise cursor.unexpected("HASH, KEY, RANGE or LIST")
    if cursor.accept_any("COLUMNS", "FIELDS"):
        columns = _columns(cursor.read_group())
        if kind == "RANGE":
            return (lambda p: Partitioning("range columns", p, columns=columns)), False
        return (lambda p: Partitioning("list columns", p, columns=columns)), False
    expression = cursor.read_group().read_rest()
    if kind == "RANGE":
        return (lambda p: Partitioning("range", p, expression=expression)), False
    return (lambda p: Partitioning("list", p, expression=expression)), False


def _columns(inside: Cursor) -> tuple[str, ...]:
    columns = [inside.read_column_name()]
    while inside.accept(","):
        columns.append(inside.read_column_name())
    inside.expect_end()
    return tuple(columns)


def _skip_interval(cursor: Cursor) -> bool:
    if not cursor.accept("INTERVAL"):
        return False
    cursor.read_group()
    for end in ("FIRST", "LAST"):
        if cursor.accept(end, "PARTITION", "LESS", "THAN"):
            cursor.read_group()
    cursor.accept("NULL", "PARTITION")
    cursor.accept("MAXVALUE", "PARTITION")
    return True


def _skip_subpartitioning(cursor: Cursor) -> None:
    if not cursor.accept("SUBPARTITION", "BY"):
        return
    _read_method(cursor)
    if cursor.accept("SUBPARTITIONS"):
        cursor.read_integer()


def _read_partition(cursor: Cursor) -> Partition:
    cursor.expect("PARTITION")
    name = cursor.read_name()
    less_than: tuple[str, ...] | None = None
    values: tuple[tuple[str, ...], ...] | None = None
    if cursor.accept("VALUES", "LESS", "THAN"):
        less_than = ("MAXVALUE",) if cursor.accept("MAXVALUE") else _read_row(cursor.read_group())
    elif cursor.accept("VALUES", "IN"):
        values = tuple(_read_list_value(item) for item in cursor.read_group().split_at_commas())
    elif cursor.accept("DEFAULT"):
        values = (("DEFAULT",),)
    skip_partition_options(cursor)
    cursor.expect_end()
    return Partition(name, less_than, values)


def _read_list_value(item: Cursor) -> tuple[str, ...]:
    """Read one list value: a row in parentheses if there are several partitioning columns."""
    unwrapped = item.strip_parentheses()
    return _read_row(unwrapped) if unwrapped.position != item.position else (_read_value(item),)


def _read_row(inside: Cursor) -> tuple[str, ...]:
    return tuple(_read_value(item) for item in inside.split_at_commas())


def _read_value(item: Cursor) -> str:
    """Read one value as SQL, without introducers and with strings and keywords in one spelling."""
    start = item.position
    if keyword := item.accept_any("MAXVALUE", "NULL", "DEFAULT"):
        text = keyword
    else:
        item.accept_introducer()
        if item.token.kind is not Kind.STRING:
            item.position = start
            return item.read_rest()
        text = _quote(item.read_string())
    if item.at_end():
        return text
    item.position = start
    return item.read_rest()


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
