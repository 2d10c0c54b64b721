"""Creating the lake's Delta tables by their contracts."""

from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import (
    CONTRACTS,
    RAW_FILES,
    RAW_RECORDS,
    STATISTICS,
)
from ticdc_assets.store.format import FORMAT, STATING_TABLE, read_format, state_format
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter

# Opening a table reads the commits since its last checkpoint: after this many there is one.
CHECKPOINT_INTERVAL = 10
CHECKPOINTS = {"delta.checkpointInterval": str(CHECKPOINT_INTERVAL)}
# What a run did counts once this stage has committed it to this table.
COUNTED_TABLE, COUNTED_STAGE = "applied", "apply"


def create_tables(lake: LakeSession) -> None:
    """Create the lake's own tables that do not exist yet."""
    # It comes last: once it states this format, all tables exist.
    applied = LakeReader(lake.location).find(STATING_TABLE)
    if applied is not None and read_format(lake.location, applied) == FORMAT:
        return
    writer = LakeWriter(lake.location)
    raw = RAW_FILES if lake.feed.transport == "storage" else RAW_RECORDS
    contracts = {"raw": raw, **CONTRACTS}
    for name in sorted(contracts, key=STATING_TABLE.__eq__):
        contract = contracts[name]
        properties = dict(CHECKPOINTS)
        if name in STATISTICS:
            properties["delta.dataSkippingStatsColumns"] = ",".join(STATISTICS[name])
        if name == STATING_TABLE:
            properties |= state_format()
        writer.create(name, arrow_schema(contract), properties)
