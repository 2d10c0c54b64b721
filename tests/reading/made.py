"""A lake made without Spark, with tables of every status and of any name."""

import msgspec
import pyarrow as pa
from deltalake import write_deltalake

from tests.hostile_names import NAMES
from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.reading import PinnedLake, open_lake
from ticdc_assets.rows.columns import make_row_schema
from ticdc_assets.schema.catalog import key_of
from ticdc_assets.store.lake import Lake

FIRST, LAST = 470745045728493568, 470745045728493569
NAMED = [("d", "twice.x"), ("d.twice", "x"), *(("d", name) for name in NAMES if name != "\ud800")]


def make_lake(root: str) -> PinnedLake:
    """Make a lake with tables of every status, all with one row."""
    lake = Lake(root, "made")
    stated = {"live": {}, "paused": {"status": "paused", "reason": "DROP COLUMN `k`"}}
    stated["waiting"] = {"status": "waiting", "reason": "no schema"}
    stated["partial"] = {"partial_reason": "it is older"}
    tables = [
        Incarnation(id=name, schema=schema("s", name, "t"), created_ts=1, stopped_ts=FIRST, **more)
        for name, more in stated.items()
    ]
    tables += [
        Incarnation(id=f"t{n}", schema=schema(*pair, "t"), created_ts=1)
        for n, pair in enumerate(NAMED)
    ]
    state = State(
        ts=LAST,
        snapshot_id=1,
        incarnations={table.id: table for table in tables},
        names=[(key_of(table.schema), table.id) for table in tables],
    )
    versions = {table.id: 0 for table in tables}
    for number, table in enumerate(tables):
        row = {"id": number, "t": table.schema.table, "_commit_ts": 1}
        fields = make_row_schema(table.schema)
        rows = pa.Table.from_pylist([row], schema=fields).drop_columns(["_inexact"])
        write_deltalake(lake.current_path(table.id), rows)
    write_tables(lake, [])
    write_snapshot(lake, 1, LAST, versions, state=msgspec.json.encode(state).decode())
    return open_lake(root)
