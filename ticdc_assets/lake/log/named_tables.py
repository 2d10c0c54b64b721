"""The tables that have names in a snapshot, by the addresses of these names."""

from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.plan.state import Incarnation, name_address

# A table that has a name, and the Delta version that has its rows.
NamedTable = tuple[Incarnation, int]


def name_tables(snapshot: Snapshot) -> dict[str, NamedTable]:
    """Return the tables of a snapshot by address; of two with one name, the younger one."""
    found = {}
    for table in sorted(snapshot.state.incarnations.values(), key=lambda table: table.created_ts):
        version = snapshot.versions.get(table.id)
        if table.status != "dropped" and version is not None and table.schema.table:
            address = name_address(table.schema.database, table.schema.table)
            found[address] = table, version
    return found
