"""Read the current tables of a golden lake as Iceberg tables.

They have the rows of the Delta versions that they state, which `golden_readers` compares.
"""

import dataclasses
from collections.abc import Mapping

import pyarrow as pa

from tests.lake.iceberg_tables import list_iceberg, open_iceberg, read_snapshots, read_with_duckdb
from tests.lake.readers import list_lines
from ticdc_assets.lake.iceberg.published import publish_iceberg
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.named_tables import name_tables
from ticdc_assets.store.delta_log import read_state
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows


def keep_iceberg(lake: LakeSession) -> LakeSession:
    """Return the same lake with all tables declared as Iceberg tables."""
    feed = dataclasses.replace(lake.feed, iceberg=("*.*",))
    return LakeSession(lake.spark, lake.location, feed)


def compare_iceberg(lake: LakeSession) -> int:
    """Publish all tables, and compare all of their snapshots; return how many there are."""
    last = read_last_snapshot(lake)
    publish_iceberg(keep_iceberg(lake), last)
    reader = LakeReader(lake.location)
    tables = name_tables(last)
    mapped = {
        address
        for address, (table, version) in tables.items()
        if "columnMapping" in read_state(reader, f"current/{table.id}", version).reader_features
    }
    published = {*list_iceberg(lake)}
    assert not published & mapped
    assert {*tables} - mapped <= published
    return sum(_compare_table(lake, address) for address in published)


def _compare_table(lake: LakeSession, address: str) -> int:
    table = open_iceberg(lake, address)
    for snapshot, (_, rows) in zip(table.snapshots(), read_snapshots(table), strict=True):
        assert snapshot.summary is not None
        expected = read_stated(lake, {**snapshot.summary.additional_properties}, rows.schema)
        assert list_lines(rows, rows.schema) == expected, (address, snapshot)
    newest = read_with_duckdb(lake.path(f"iceberg/{address}"))
    assert list_lines(newest, rows.schema) == expected, address
    return len(table.snapshots())


def read_stated(lake: LakeSession, stated: dict[str, str], schema: pa.Schema) -> list[str]:
    """Read the rows of the Delta version that a snapshot states."""
    if stated["ticdc.status"] == "dropped":
        return []
    name, version = f"current/{stated['ticdc.incarnation']}", int(stated["ticdc.version"])
    stored = StoredRows(LakeReader(lake.location), name, version)
    assert {*stored.physical_names} == {*schema.names}
    blocks = [_fill(block, schema) for block in stored.read()]
    return list_lines(pa.concat_tables([schema.empty_table(), *blocks]), schema)


def _fill(block: Mapping[str, pa.Array], schema: pa.Schema) -> pa.Table:
    """Return a block with all columns, in their types."""
    nothing = pa.nulls(len(next(iter(block.values()))))
    return pa.Table.from_pydict({f.name: block.get(f.name, nothing) for f in schema}).cast(schema)
