"""A snapshot of what the last one shows, with other Delta versions of current tables."""

from collections.abc import Mapping

import pyarrow.compute as pc

from ticdc_assets.log.applied import write_snapshot
from ticdc_assets.log.schema_history import write_tables
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader


def write_new_versions(
    lake: LakeSession, before: Snapshot, new_versions: Mapping[str, int]
) -> Snapshot:
    """Write the snapshot that names new versions of tables, at the same ts."""
    reader = LakeReader(lake.location)
    is_last = pc.field("snapshot_id") == before.snapshot_id
    rows = reader.read(reader.open("applied"), ["watermarks"], is_last)
    watermarks = dict(rows["watermarks"][0].as_py() or ())
    write_tables(lake, before, before.state, new_versions)
    return write_snapshot(
        lake,
        before,
        before.state,
        batch=before.batch,
        decoded_batch=before.decoded_batch,
        versions=new_versions,
        watermarks=watermarks,
        counts=(),
    )
