"""The tables that have names in a snapshot, by the addresses of these names.

What is published of a table, by whichever format, states the same properties.
"""

import json

from ticdc_assets.events import TableSchema
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import Incarnation, name_address
from ticdc_assets.store.texts import replace_surrogates

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


def describe_named(changefeed: str, named: NamedTable) -> dict[str, str]:
    """Return the properties of a published table, but for the ts at which it is true."""
    table, version = named
    schema = table.schema
    stated = {
        "ticdc.changefeed": changefeed,
        "ticdc.table": f"{schema.database}.{schema.table}",
        "ticdc.incarnation": table.id,
        "ticdc.version": str(version),
        "ticdc.status": table.shown_status,
        "ticdc.primary_key": json.dumps(schema.key, ensure_ascii=False),
    }
    return {key: replace_surrogates(value) for key, value in stated.items()}


def find_true_ts(table: Incarnation, ts: int) -> int:
    """Return the ts at which the rows of a table are true in a snapshot of a ts."""
    has_stopped = table.is_stopped or table.status_before_drop is not None
    return table.complete_ts if has_stopped and table.complete_ts is not None else ts


def describe_address(schema: TableSchema, changefeed: str) -> str:
    """Say what is at the address of a table: its description there, and in catalogs."""
    text = f"{schema.database}.{schema.table} of TiDB, by changefeed {changefeed}"
    described: str = replace_surrogates(f"{text}: {schema.comment}" if schema.comment else text)
    return described
