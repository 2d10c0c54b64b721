"""ALTER TABLE's actions on partitions."""

from collections.abc import Callable

from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.partitions import (
    partition_count,
    read_partitioning,
    read_partitions,
    skip_partition_options,
)

_LOG_WORDS = ("NO_WRITE_TO_BINLOG", "LOCAL")
_LOGGED = frozenset({"ADD", "COALESCE", "OPTIMIZE", "REBUILD", "REORGANIZE", "REPAIR"})
# Done to partitions without changing rows or bounds.
_CARE = ("ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR", "IMPORT", "DISCARD")
# They move bounds that only the table's definition knows.
_INTERVAL_ACTIONS: tuple[tuple[str, ...], ...] = (
    ("FIRST", "PARTITION"),
    ("LAST", "PARTITION"),
    ("MERGE", "FIRST", "PARTITION"),
    ("SPLIT", "MAXVALUE", "PARTITION"),
)


def take_partition_action(cursor: Cursor) -> ddl.Action | None:
    """Take an action on partitions, if one is next."""
    if cursor.take("PARTITION", "BY"):
        return ddl.PartitionBy(read_partitioning(cursor))
    if cursor.take("REMOVE", "PARTITIONING"):
        return ddl.RemovePartitioning()
    if cursor.take("PARTITION"):
        cursor.name()
        skip_partition_options(cursor)
        return ddl.ChangesNothing("partition options")
    if any(cursor.sees(*words) for words in _INTERVAL_ACTIONS):
        raise cursor.error("which partitions change is not in the statement")
    if cursor.peek(1).key != "PARTITION":
        return None
    reader = _READERS.get(cursor.token.key)
    if reader is None:
        return None
    verb = cursor.next().key
    cursor.expect("PARTITION")
    if not cursor.take("IF", "NOT", "EXISTS"):
        cursor.take("IF", "EXISTS")
    if verb in _LOGGED:
        cursor.take_any(*_LOG_WORDS)
    return reader(cursor, verb)


def _add(cursor: Cursor, verb: str) -> ddl.Action:
    if cursor.take("PARTITIONS"):
        return ddl.AddPartitions(count=partition_count(cursor))
    return ddl.AddPartitions(read_partitions(cursor))


def _drop(cursor: Cursor, verb: str) -> ddl.Action:
    return ddl.DropPartitions(cursor.names())


def _truncate(cursor: Cursor, verb: str) -> ddl.Action:
    return ddl.TruncatePartitions(None if cursor.take("ALL") else cursor.names())


def _exchange(cursor: Cursor, verb: str) -> ddl.Action:
    partition = cursor.name()
    cursor.expect("WITH", "TABLE")
    table = cursor.table()
    if cursor.take_any("WITH", "WITHOUT"):
        cursor.expect("VALIDATION")
    return ddl.ExchangePartition(partition, table)


def _reorganize(cursor: Cursor, verb: str) -> ddl.Action:
    if cursor.ended() or cursor.sees(","):
        return ddl.ChangesNothing("reorganize partition")
    names = cursor.names()
    cursor.expect("INTO")
    return ddl.ReorganizePartitions(names, read_partitions(cursor))


def _coalesce(cursor: Cursor, verb: str) -> ddl.Action:
    return ddl.CoalescePartitions(partition_count(cursor))


def _care(cursor: Cursor, verb: str) -> ddl.Action:
    if not cursor.take("ALL"):
        cursor.names()
    cursor.take("TABLESPACE")
    if verb == "ANALYZE":
        # Indexes and sample sizes may follow, but no other action.
        cursor.skip_all()
    return ddl.ChangesNothing(f"{verb.lower()} partition")


_READERS: dict[str, Callable[[Cursor, str], ddl.Action]] = {
    "ADD": _add,
    "COALESCE": _coalesce,
    "DROP": _drop,
    "EXCHANGE": _exchange,
    "REORGANIZE": _reorganize,
    "TRUNCATE": _truncate,
    **dict.fromkeys(_CARE, _care),
}
