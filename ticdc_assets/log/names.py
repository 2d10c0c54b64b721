"""The names that tables had, read without Spark."""

from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.reader import LakeReader


def read_names(reader: LakeReader) -> dict[str, set[str]]:
    """Read the names that every incarnation had, as `events` names tables."""
    names: dict[str, set[str]] = {}
    columns = ["incarnation", "database", "table"]
    for row in reader.read(reader.open("schema_history"), columns).to_pylist():
        name = make_table_name(row["database"], row["table"])
        if row["incarnation"] and name is not None:
            names.setdefault(row["incarnation"], set()).add(name)
    return names
