"""Catalogs as JSON text: what a graph shows of lakes, kept so that loading it reads none.

Of a catalog it holds the tables by their present names and where it was read, and no snapshot.
"""

from collections.abc import Mapping

from msgspec import Struct

from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.log.catalog import LakeCatalog, LakeTable


class _Stored(Struct):
    tables: list[LakeTable] = []
    read_at: dict[str, int] = {}
    # Why the lake could not be read.
    problem: str | None = None


class _Catalogs(Struct):
    changefeeds: dict[str, _Stored]


def write_catalog_texts(catalogs: Mapping[str, LakeCatalog | str]) -> str:
    """Write the catalogs of changefeeds; a text in place of one says why it cannot be read."""
    stored = {
        id: _Stored(problem=found)
        if isinstance(found, str)
        else _Stored(list(found.named().values()), dict(found.read_at))
        for id, found in catalogs.items()
    }
    return write_json(_Catalogs(stored))


def read_catalog_texts(text: str) -> dict[str, LakeCatalog | str]:
    """Read what `write_catalog_texts` wrote."""
    found = read_json(text, _Catalogs).changefeeds
    return {
        id: LakeCatalog({table.incarnation: table for table in each.tables}, read_at=each.read_at)
        if each.problem is None
        else each.problem
        for id, each in found.items()
    }
