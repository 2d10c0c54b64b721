"""The actions of ALTER TABLE on partitions."""

from collections.abc import Callable

from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.partitions import (
    read_partition_count,
    read_partitioning,
    read_partitions,
    skip_partition_options,
)

_LOG_WORDS = ("NO_WRITE_TO_BINLOG", "LOCAL")
_LOGGED = frozenset({"ADD", "COALESCE", "OPTIMIZE", "REBUILD", "REORGANIZE", "REPAIR"})
# Maintenance, which changes neither rows nor bounds.
_MAINTENANCE = ("ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR", "IMPORT", "DISCARD")
# INTERVAL actions change partitions that only the table's definition names.
_INTERVAL_ACTIONS: tuple[tuple[str, ...], ...] = (
    ("FIRST", "PARTITION"),
    ("LAST", "PARTITION"),
    ("MERGE", "FIRST", "PARTITION"),
    ("SPLIT", "MAXVALUE", "PARTITION"),
)


def accept_partition_action(cursor: Cursor) -> ddl.Action | None:
    """Read an action on partitions, if one comes next."""
    if cursor.accept("PARTITION", "BY"):
        return ddl.PartitionBy(read_partitioning(cursor))
    if cursor.accept("REMOVE", "PARTITIONING"):
        return ddl.RemovePartitioning()
    if cursor.accept("PARTITION"):
        cursor.read_name()
        skip_partition_options(cursor)
        return ddl.ChangesNothing("partition options")
    if any(cursor.next_is(*words) for words in _INTERVAL_ACTIONS):
        raise cursor.error(
            "actions on INTERVAL partitions are not supported: they name no partition"
        )
    if cursor.peek(1).key != "PARTITION":
        return None
    reader = _READERS.get(cursor.token.key)
    if reader is None:
        return None
    verb = cursor.advance().key
    cursor.expect("PARTITION")
    if not cursor.accept("IF", "NOT", "EXISTS"):
        cursor.accept("IF", "EXISTS")
    if verb in _LOGGED:
        cursor.accept_any(*_LOG_WORDS)
    return reader(cursor, verb)


def _read_add(cursor: Cursor, verb: str) -> ddl.Action:
    if cursor.accept("PARTITIONS"):
        return ddl.AddPartitions(count=read_partition_count(cursor))
    return ddl.AddPartitions(read_partitions(cursor))


def _read_drop(cursor: Cursor, verb: str) -> ddl.Action:
    return ddl.DropPartitions(cursor.read_names())


def _read_truncate(cursor: Cursor, verb: str) -> ddl.Action:
    return ddl.TruncatePartitions(None if cursor.accept("ALL") else cursor.read_names())


def _read_exchange(cursor: Cursor, verb: str) -> ddl.Action:
    partition = cursor.read_name()
    cursor.expect("WITH", "TABLE")
    table = cursor.read_table_name()
    if cursor.accept_any("WITH", "WITHOUT"):
        cursor.expect("VALIDATION")
    return ddl.ExchangePartition(partition, table)


def _read_reorganize(cursor: Cursor, verb: str) -> ddl.Action:
    if cursor.at_end() or cursor.next_is(","):
        return ddl.ChangesNothing("reorganize partition")
    names = cursor.read_names()
    cursor.expect("INTO")
    return ddl.ReorganizePartitions(names, read_partitions(cursor))


def _read_coalesce(cursor: Cursor, verb: str) -> ddl.Action:
    return ddl.CoalescePartitions(read_partition_count(cursor))


def _read_maintenance(cursor: Cursor, verb: str) -> ddl.Action:
    if not cursor.accept("ALL"):
        cursor.read_names()
    cursor.accept("TABLESPACE")
    if verb == "ANALYZE":
        # Index names and sample sizes may follow, but no other action.
        cursor.skip_rest()
    return ddl.ChangesNothing(f"{verb.lower()} partition")


_READERS: dict[str, Callable[[Cursor, str], ddl.Action]] = {
    "ADD": _read_add,
    "COALESCE": _read_coalesce,
    "DROP": _read_drop,
    "EXCHANGE": _read_exchange,
    "REORGANIZE": _read_reorganize,
    "TRUNCATE": _read_truncate,
    **dict.fromkeys(_MAINTENANCE, _read_maintenance),
}
