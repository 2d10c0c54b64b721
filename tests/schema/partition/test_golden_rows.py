"""Rows of recorded changefeeds are located in the partition that TiDB chose."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.golden import records
from tests.schema.partition.partitionings import locate_partition, numbered, table
from ticdc_assets.events import Partition, Partitioning, TableSchema
from ticdc_assets.schema.ddl.columns import resolve_column
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.ddl.statement import CreateTable
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.schema.partition.locate import make_locator
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import read_value

CREATED = [
    ("types", "t_part_range"),
    ("types", "t_part_hash"),
    ("types", "t_part_list"),
    ("types", "t_part_key"),
    ("random_1", "t0"),
    ("random_1", "t2"),
]


@cache
def messages(dataset: str) -> list[dict[str, Any]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    return [decode(record.value) for record in records(dataset) if record.value]


def rows(dataset: str, schema: TableSchema) -> Iterator[tuple[int, int, dict[str, Value]]]:
    """Yield commit ts, physical table id and key columns of a table's row images."""
    types = {name: schema.column(name).type for name in schema.key}
    for message in messages(dataset):
        if message.get("table") != schema.table:
            continue
        for image in (message.get("data"), message.get("old")):
            if image and types.keys() <= image.keys():
                row = {name: read_value(image[name], type) for name, type in types.items()}
                yield message["commitTs"], message["tableID"], row


@pytest.mark.parametrize("generation", ["", "newarch-"])
@pytest.mark.parametrize(("workload", "name"), CREATED)
def test_rows_are_located_in_the_partition_that_tidb_chose(
    generation: str, workload: str, name: str
) -> None:
    """TiDB allocates consecutive ids: the table's own, then one per partition, in order."""
    dataset = f"{workload}/{generation}simple-json"
    created = next(
        message
        for message in messages(dataset)
        if message["type"] == "CREATE"
        and message["tableSchema"]["table"] == name
        and "PARTITION BY" in message["sql"]
    )
    (statement,) = read_ddl(created["sql"])
    assert isinstance(statement, CreateTable)
    assert statement.partitioning is not None
    columns = tuple(resolve_column(c, statement.charset) for c in statement.columns)
    schema = TableSchema("", name, columns, statement.indexes)
    names = [partition.name for partition in statement.partitioning.partitions]
    # The collation of the recorded database, which its statements leave out.
    find = make_locator(statement.partitioning, schema, DdlContext(collation="utf8mb4_bin"))
    found: dict[int, set[str | None]] = defaultdict(set)
    for ts, table_id, row in rows(dataset, schema):
        if ts > created["commitTs"]:
            found[table_id - created["tableSchema"]["tableID"] - 1].add(find(row))
    assert len(found) > 1
    assert all(located == {names[at]} for at, located in found.items())


EVENTS = [
    (("p202401", "2024-02-01"), ("p202402", "2024-03-01")),
    (("p202401", "2024-02-01"), ("p202402", "2024-03-01"), ("p202403", "2024-04-01")),
    (("p202402", "2024-03-01"), ("p202403", "2024-04-01")),
    (("pa", "2024-02-15"), ("pb", "2024-04-01")),
]


@pytest.mark.parametrize("generation", ["", "newarch-"])
def test_a_located_partition_has_one_physical_id_after_every_statement(generation: str) -> None:
    dataset = f"lifecycle/{generation}simple-json"
    schema = replace(table(("id", "ts"), id="int", ts="datetime"), table="events")
    created, added, reduced, reorganized = (
        Partitioning(
            "range columns",
            tuple(Partition(name, less_than=(f"_UTF8MB4'{below}'",)) for name, below in cut),
            columns=("ts",),
        )
        for cut in EVENTS
    )
    steps = {
        "CREATE TABLE `events`": created,
        "ADD PARTITION": added,
        "TRUNCATE PARTITION": added,
        "EXCHANGE PARTITION": added,
        "DROP PARTITION": reduced,
        "REORGANIZE PARTITION": reorganized,
        "REMOVE PARTITIONING": None,
        "PARTITION BY HASH": numbered("hash", 2, by="`id`"),
    }
    cuts: dict[int, Partitioning | None] = {}
    for message in messages(dataset):
        sql = message.get("sql") or ""
        if "`events`" in sql and "PARTITION" in sql:
            (step,) = (step for step in steps if step in sql)
            cuts[message["commitTs"]] = steps[step]
    assert len(cuts) == len(steps)
    times = sorted(cuts)
    ids: dict[tuple[int, str | None], set[int]] = defaultdict(set)
    for ts, table_id, row in rows(dataset, schema):
        since = times[bisect_left(times, ts) - 1]
        cut = cuts[since]
        if cut is not None:
            ids[since, locate_partition(cut, schema, row)].add(table_id)
    assert len(ids) >= 10
    assert all(name is not None and len(of_one) == 1 for (_, name), of_one in ids.items())
    apart = {(since, min(of_one)) for (since, _), of_one in ids.items()}
    assert len(apart) == len(ids)
