"""PARTITION BY and partition definitions.

Bounds and list values stay SQL, with literals in one spelling each; finding a row's partition is
not done here.  TiDB has no subpartitions and ignores LINEAR: both are read and left.
"""

from collections.abc import Callable

from ticdc_assets.events import Partition, Partitioning
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.tokens import Kind

# TiDB's own limit.
_MOST_PARTITIONS = 8192

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
    """Take what stands behind PARTITION BY."""
    make, may_count = _method(cursor)
    interval = _skip_interval(cursor)
    count = partition_count(cursor) if cursor.take("PARTITIONS") else None
    _skip_subpartitioning(cursor)
    partitions: tuple[Partition, ...] = ()
    if cursor.sees("("):
        partitions = read_partitions(cursor)
    elif may_count:
        partitions = tuple(Partition(f"p{number}") for number in range(count or 1))
    elif interval:
        raise cursor.error("the partitions an INTERVAL stands for are not spelt out")
    else:
        raise cursor.unexpected("partitions")
    if cursor.take("UPDATE", "INDEXES"):
        cursor.inside()
    return make(partitions)


def partition_count(cursor: Cursor) -> int:
    """Take a number of partitions."""
    count = cursor.integer()
    if not 0 < count <= _MOST_PARTITIONS:
        raise cursor.error(f"{count} partitions")
    return count


def read_partitions(cursor: Cursor) -> tuple[Partition, ...]:
    """Take partition definitions in parentheses."""
    return tuple(_partition(part) for part in cursor.inside().items())


def skip_partition_options(cursor: Cursor) -> None:
    """Step over the options of one partition."""
    while True:
        if any(cursor.take(*pair) for pair in _OPTION_PAIRS) or cursor.take_any(*_OPTIONS):
            cursor.take("=") or cursor.take("SET")
            cursor.next()
        elif cursor.sees("("):
            # Subpartitions.
            cursor.inside()
        else:
            return


def _method(cursor: Cursor) -> tuple[Callable[[tuple[Partition, ...]], Partitioning], bool]:
    """Take how the table is cut; say whether a mere number of partitions will do."""
    cursor.take("LINEAR")
    if cursor.take("HASH"):
        expression = cursor.inside().text()
        return (lambda p: Partitioning("hash", p, expression=expression)), True
    if cursor.take("KEY"):
        if cursor.take("ALGORITHM", "="):
            cursor.integer()
        inside = cursor.inside()
        key = () if inside.ended() else _columns(inside)
        return (lambda p: Partitioning("key", p, columns=key)), True
    kind = cursor.take_any("RANGE", "LIST")
    if not kind:
        raise cursor.unexpected("a way of partitioning")
    if cursor.take_any("COLUMNS", "FIELDS"):
        columns = _columns(cursor.inside())
        if kind == "RANGE":
            return (lambda p: Partitioning("range columns", p, columns=columns)), False
        return (lambda p: Partitioning("list columns", p, columns=columns)), False
    expression = cursor.inside().text()
    if kind == "RANGE":
        return (lambda p: Partitioning("range", p, expression=expression)), False
    return (lambda p: Partitioning("list", p, expression=expression)), False


def _columns(inside: Cursor) -> tuple[str, ...]:
    columns = [inside.column()]
    while inside.take(","):
        columns.append(inside.column())
    inside.expect_end()
    return tuple(columns)


def _skip_interval(cursor: Cursor) -> bool:
    if not cursor.take("INTERVAL"):
        return False
    cursor.inside()
    for end in ("FIRST", "LAST"):
        if cursor.take(end, "PARTITION", "LESS", "THAN"):
            cursor.inside()
    cursor.take("NULL", "PARTITION")
    cursor.take("MAXVALUE", "PARTITION")
    return True


def _skip_subpartitioning(cursor: Cursor) -> None:
    if not cursor.take("SUBPARTITION", "BY"):
        return
    _method(cursor)
    if cursor.take("SUBPARTITIONS"):
        cursor.integer()


def _partition(cursor: Cursor) -> Partition:
    cursor.expect("PARTITION")
    name = cursor.name()
    less_than: tuple[str, ...] | None = None
    values: tuple[tuple[str, ...], ...] | None = None
    if cursor.take("VALUES", "LESS", "THAN"):
        less_than = ("MAXVALUE",) if cursor.take("MAXVALUE") else _row(cursor.inside())
    elif cursor.take("VALUES", "IN"):
        values = tuple(_list_value(item) for item in cursor.inside().items())
    elif cursor.take("DEFAULT"):
        values = (("DEFAULT",),)
    skip_partition_options(cursor)
    cursor.expect_end()
    return Partition(name, less_than, values)


def _list_value(item: Cursor) -> tuple[str, ...]:
    """A value of a list: a row in parentheses where the table is cut by several columns."""
    unwrapped = item.unwrapped()
    return _row(unwrapped) if unwrapped.at != item.at else (_value(item),)


def _row(inside: Cursor) -> tuple[str, ...]:
    return tuple(_value(item) for item in inside.items())


def _value(item: Cursor) -> str:
    """One value as SQL; charset introducers go, strings and keywords get their one spelling."""
    start = item.at
    if keyword := item.take_any("MAXVALUE", "NULL", "DEFAULT"):
        text = keyword
    else:
        item.take_introducer()
        if item.token.kind is not Kind.STRING:
            item.at = start
            return item.text()
        text = _quoted(item.string())
    if item.ended():
        return text
    item.at = start
    return item.text()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
