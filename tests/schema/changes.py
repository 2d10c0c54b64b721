"""DDL messages and stated schemas for tests, and effects in one line each."""

from collections.abc import Sequence

from ticdc_assets.events import Column, ColumnType, SchemaChange, TableSchema, TopicPosition
from ticdc_assets.schema.effect import (
    AllTablesPaused,
    Effect,
    PartitionExchanged,
    PartitionsEmptied,
    TableAltered,
    TableCreated,
    TableDropped,
    TablePaused,
    TableRecovered,
    TableRenamed,
    TableTruncated,
)


def ddl(sql: str, table: str = "t", *, database: str = "d", **fields: object) -> SchemaChange:
    position = TopicPosition("t", 0, 0)
    stated: dict[str, object] = {"commit_ts": 100, "position": position, **fields}
    return SchemaChange(database=database, table=table, sql=sql, **stated)  # type: ignore[arg-type]


def stated(table: str, *columns: str, database: str = "d", **fields: object) -> TableSchema:
    return TableSchema(
        database,
        table,
        tuple(Column(name, ColumnType("int")) for name in columns or ("id",)),
        **fields,  # type: ignore[arg-type]
    )


def summarize(effects: Sequence[Effect]) -> list[str]:
    """Write each effect as one short line."""
    lines = []
    for effect in effects:
        match effect:
            case TableDropped(database, table):
                lines.append(f"drop {database}.{table}")
            case TableRenamed(database, table, schema):
                lines.append(f"rename {database}.{table} {schema.database}.{schema.table}")
            case TableRecovered(database, table, schema, drops_ago):
                lines.append(
                    f"recover {database}.{table} {schema.database}.{schema.table} {drops_ago}"
                )
            case TablePaused(database, table):
                lines.append(f"pause {database}.{table}")
            case AllTablesPaused():
                lines.append("pause all")
            case PartitionsEmptied(schema, _, names):
                lines.append(f"empty {schema.table} {' '.join(names)}")
            case PartitionExchanged(schema, _, partition, other):
                lines.append(f"exchange {schema.table} {partition} {other.database}.{other.table}")
            case TableCreated(schema) | TableAltered(schema) | TableTruncated(schema):
                word = type(effect).__name__.removeprefix("Table").lower()
                lines.append(f"{word} {schema.database}.{schema.table}")
    return lines
