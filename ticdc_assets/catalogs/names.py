"""The names of entries: a prefix for databases, and the case of the catalog."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ticdc_assets.catalogs.entry import EntryName
from ticdc_assets.errors import CatalogError
from ticdc_assets.events import TableSchema


class EntryFault(NamedTuple):
    """Why a table has no entry, or not the one that it should have; no names: of all tables."""

    reason: str
    database: str = ""
    table: str = ""


def map_names(
    tables: Mapping[str, TableSchema], map_name: Callable[[str, str], EntryName]
) -> tuple[dict[EntryName, str], list[EntryFault]]:
    """Return which address each entry is for, and which tables can have no entry.

    Of tables whose names the catalog takes for one, none has an entry: readers would see either.
    """
    found: dict[EntryName, list[str]] = defaultdict(list)
    faults = []
    for address, schema in tables.items():
        try:
            found[map_name(schema.database, schema.table)].append(address)
        except CatalogError as error:
            faults.append(EntryFault(error.reason, schema.database, schema.table))
    for name, addresses in found.items():
        for address in addresses if len(addresses) > 1 else ():
            same = (tables[other] for other in addresses if other != address)
            others = " and ".join(f"{schema.database}.{schema.table}" for schema in same)
            reason = f"would be {'.'.join(name)} there, as {others} would: rename one of them"
            faults.append(EntryFault(reason, tables[address].database, tables[address].table))
    return {name: each[0] for name, each in found.items() if len(each) == 1}, faults
