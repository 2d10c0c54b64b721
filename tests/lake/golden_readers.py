"""Open the current tables of a golden lake with readers other than Spark.

A reader sees the rows that the lake's own reader sees: `golden_runs` compares those with Spark's,
and Spark's with TiDB's.  Of a table that a reader does not open, a DDL says why.  `open_lake` opens
every table.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.pandas.types import to_arrow_schema

from tests.lake.golden_iceberg import compare_iceberg
from tests.lake.readers import CLICKHOUSE, READERS, list_lines, without_empty
from ticdc_assets.cli import engines
from ticdc_assets.lake.apply import table_features
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.state import Incarnation, name_address
from ticdc_assets.reading import PinnedTable, open_lake
from ticdc_assets.rows.column_moves import can_widen
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_schema, read_table
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.views.asof import as_of

_THREADS = 4
_MAPPED_CHARACTERS = " ,;{}()\n\t="
# The statements that can have given a table each feature, by the protocol's name of the feature.
Causes = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Unopened:
    """A table that a reader does not open, the features that it lacks, and their causes."""

    reader: str
    table: str
    causes: Causes

    def __str__(self) -> str:
        texts = (f"{name}: {'; '.join(ddls)}" for name, ddls in sorted(self.causes.items()))
        return f"{self.reader} does not open {self.table}: {', '.join(texts)}"


def compare_readers(lake: LakeSession, one_of: int = 20) -> list[Unopened]:
    """Read every live table of the newest snapshot; list what does not open.

    Spark, which takes longest, reads one table of some number, and each other reader half of the
    tables; if the number is 1, each reads all.
    """
    shown = as_of(lake)
    versions = read_last_snapshot(lake).versions
    tables = [t for t in shown.tables() if not t.is_stopped and t.id in versions]
    causes = _find_causes(lake)
    by_name = open_lake(lake.location.root, lake.location.changefeed)

    def compare_table(table: Incarnation) -> list[Unopened]:
        _compare_by_name(lake, by_name.table((table.schema.database, table.schema.table)))
        if crc32(f"{table.id} {lake.feed.protocol} {lake.feed.transport}".encode()) % one_of == 0:
            _compare_with_spark(lake, table, versions[table.id])
        chosen = [
            reader
            for reader in READERS
            if one_of == 1 or crc32(f"{table.id} {reader}".encode()) % 2 == 0
        ]
        return _compare_table(lake, table, versions[table.id], causes[table.id], chosen)

    assert compare_iceberg(lake)
    assert _list_shown(lake) == {_find_address(t): t.id for t in shown.tables() if t.id in versions}
    with ThreadPoolExecutor(_THREADS) as pool:
        return [found for each in pool.map(compare_table, tables) for found in each]


def _find_address(table: Incarnation) -> str:
    return name_address(table.schema.database, table.schema.table)


def _list_shown(lake: LakeSession) -> dict[str, str]:
    """Return the incarnation that each address shows, unless its name is gone."""
    logs = Path(lake.path("current")).glob("*.*/_delta_log")
    found = {log.parent.name: DeltaTable(log.parent).metadata() for log in logs}
    return {
        address: metadata.configuration["ticdc.incarnation"]
        for address, metadata in found.items()
        if metadata.configuration["ticdc.status"] != "dropped"
    }


# Parameters: a table, why readers may not open it, and which of them read it.
def _compare_table(
    lake: LakeSession, table: Incarnation, version: int, causes: Causes, readers: Sequence[str]
) -> list[Unopened]:
    name = f"{table.schema.database}.{table.schema.table}"
    location = f"current/{table.id}"
    schema = _read_schema(lake, location, version)
    stored = _read_stored(lake, location, version, schema)
    expected = list_lines(stored, schema)
    features = _read_features(lake.path(location), version)
    _check_causes(name, features, causes)
    unopened = []
    # Readers read by name.
    path = lake.path(f"current/{_find_address(table)}")
    version = DeltaTable(path).version()
    for reader in readers:
        read = READERS[reader]
        lacks = {f for f, cell in engines.READERS[reader].items() if not cell.reads} & features
        if lacks:
            # Each library raises its own class of error for a feature that it does not read.
            with pytest.raises(Exception):  # noqa: B017, PT011
                read(path, version)
            unopened.append(Unopened(reader, name, {f: causes[f] for f in lacks}))
        else:
            is_poorer = reader == CLICKHOUSE
            wanted = list_lines(without_empty(stored), schema) if is_poorer else expected
            assert list_lines(read(path, version), schema) == wanted, (reader, name)
    return unopened


def _compare_with_spark(lake: LakeSession, table: Incarnation, version: int) -> None:
    """Read a table by its address with Spark."""
    location = f"current/{table.id}"
    schema = _read_schema(lake, location, version)
    by_name = lake.spark.read.format("delta").load(lake.path(f"current/{_find_address(table)}"))
    assert to_arrow_schema(by_name.schema) == schema, table
    stored = _read_stored(lake, location, version, schema)
    assert list_lines(by_name.toArrow(), schema) == list_lines(stored, schema), table


def _read_schema(lake: LakeSession, location: str, version: int) -> pa.Schema:
    """Return the columns of a table as Spark knows them."""
    return to_arrow_schema(read_schema(LakeReader(lake.location).open(location, version)))


def _compare_by_name(lake: LakeSession, table: PinnedTable) -> None:
    """Read a table by its name with every library, whatever features it has."""
    rows = table.arrow()
    assert table.version is not None
    expected = list_lines(rows, rows.schema)
    stored = _read_stored(lake, f"current/{table._table.id}", table.version, rows.schema)
    assert list_lines(stored, rows.schema) == expected, table
    with duckdb.connect() as connection:
        scanned = table.duckdb(connection).to_arrow_table()
    frames = table.polars().to_arrow(), pa.Table.from_pandas(table.pandas(), preserve_index=False)
    for found in (scanned, *frames):
        assert list_lines(found, rows.schema) == expected, table


def _read_stored(lake: LakeSession, location: str, version: int, schema: pa.Schema) -> pa.Table:
    """Read a table in this process; a value of a file is of the type that its column had then."""
    blocks = StoredRows(LakeReader(lake.location), location, version).read()
    rows = [
        pa.Table.from_pydict(
            {f.name: block[f.name] if f.name in block else _no_values(block) for f in schema}
        ).cast(schema)
        for block in blocks
    ]
    return pa.concat_tables([schema.empty_table(), *rows])


def _no_values(block: Mapping[str, pa.Array]) -> pa.Array:
    return pa.nulls(len(next(iter(block.values()))))


def _read_features(path: str, version: int) -> set[str]:
    protocol = DeltaTable(path, version=version).protocol()
    found = {*(protocol.reader_features or ())}
    # Before it had features, Delta numbered what a reader has to know: 2 is column mapping.
    return found | ({"columnMapping"} if protocol.min_reader_version == 2 else set())


def _check_causes(name: str, features: Collection[str], causes: Causes) -> None:
    """Check that a table has only features that a statement explains."""
    special = {"columnMapping", "typeWidening"} & {*features}
    assert special <= {f for f, ddls in causes.items() if ddls}, name
    if table_features.LARGE_TABLE > 0:
        # No golden table is large: a change of columns wrote the table again as a whole.
        assert special <= {"columnMapping"}, name
        assert not {"deletionVectors", "typeWidening"} & {*features}, name


def _find_causes(lake: LakeSession) -> Mapping[str, Causes]:
    """Find the statements after which each table cannot do without a feature."""
    versions: dict[str, list[Any]] = defaultdict(list)
    for line in read_table(lake, "schema_history").sort("valid_from").collect():
        versions[line["incarnation"]].append(line)
    return {table: _list_causes(lines) for table, lines in versions.items()}


def _list_causes(versions: Sequence[Any]) -> Causes:
    causes: dict[str, list[str]] = {"columnMapping": [], "typeWidening": []}
    are_large = table_features.LARGE_TABLE < 0
    for before, after in pairwise([None, *versions]):
        old = {} if before is None else {c["name"]: c["delta_type"] for c in before["columns"]}
        new = {c["name"]: c["delta_type"] for c in after["columns"]}
        said = after["sql"] or f"({after['origin']})"
        named = any(set(_MAPPED_CHARACTERS) & set(name) for name in new.keys() - old.keys())
        if named or (are_large and old.keys() - new.keys()):
            causes["columnMapping"].append(said)
        if are_large and any(_is_wider(old[c], new[c]) for c in old.keys() & new.keys()):
            causes["typeWidening"].append(said)
    return causes


def _is_wider(old: str | None, new: str | None) -> bool:
    return old is not None and new is not None and old != new and can_widen(old, new)
