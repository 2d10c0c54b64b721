"""The partitions of a table by name, as statements on them name them."""

from msgspec.structs import replace

from ticdc_assets.errors import ContradictingDdl, UnsupportedDdl
from ticdc_assets.events import Partition, Partitioning, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.effect import ALL_ROWS, PartitionsEmptied


def drop_partitions(schema: TableSchema, names: tuple[str, ...]) -> TableSchema:
    """Return the schema without the named partitions."""
    dropped = set(map(fold_name, names))
    kept = (p for p in get_partitioning(schema).partitions if fold_name(p.name) not in dropped)
    return set_partitions(schema, tuple(kept))


def get_partitioning(schema: TableSchema) -> Partitioning:
    """Return a table's partitioning; raise `UnsupportedDdl` if no observed DDL defined it."""
    if schema.partitioning is None:
        raise UnsupportedDdl(
            "the table's partitions are unknown: neither a DDL nor upstream defines them"
        )
    return schema.partitioning


def find_partitions(schema: TableSchema, names: tuple[str, ...]) -> tuple[str, ...]:
    """Find partitions by name, in any case; return the names as declared."""
    partitions = get_partitioning(schema).partitions
    wanted = set(map(fold_name, names))
    known = tuple(p.name for p in partitions if fold_name(p.name) in wanted)
    if len(known) != len(wanted):
        raise unknown_partitions(names)
    return known


def unknown_partitions(names: tuple[str, ...]) -> ContradictingDdl:
    """Return the error of a statement on partitions that the table does not have."""
    return ContradictingDdl(f"not all of these partitions are known: {', '.join(names)}")


def set_partitions(schema: TableSchema, partitions: tuple[Partition, ...]) -> TableSchema:
    """Return the schema with other partitions."""
    return replace(schema, partitioning=replace(get_partitioning(schema), partitions=partitions))


def truncate_partitions(schema: TableSchema, names: tuple[str, ...] | None) -> PartitionsEmptied:
    """Return what TRUNCATE PARTITION does to a table; `names` is None for all partitions."""
    if names is not None:
        names, partitioning = find_partitions(schema, names), get_partitioning(schema)
        if len(names) < len(partitioning.partitions):
            return PartitionsEmptied(schema, partitioning, names)
    return PartitionsEmptied(schema, ALL_ROWS, ("ALL",))
