"""What an Iceberg REST catalog has under names, and the update of it."""

from collections import Counter
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError

from tests.lake.life_of_names import Name
from tests.lake.test_life_of_names import Reader
from ticdc_assets.catalogs import register_tables
from ticdc_assets.changefeed.catalog import IcebergRestCatalog
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources.catalogs import open_catalog
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.stream.problem import Problem


def update(
    lake: LakeSession, url: str, prefix: str, calls: Counter[str] | None = None
) -> list[Problem]:
    catalog: Any = open_catalog(IcebergRestCatalog(url, prefix))
    if calls is not None:
        connect = catalog._connect

        def count() -> RestCatalog:
            client = connect()
            request = client._session.request

            def counted(method: str, *arguments: Any, **options: Any) -> Any:
                calls[method] += 1
                return request(method, *arguments, **options)

            client._session.request = counted
            return client

        catalog._connect = count
    snapshot = read_last_snapshot(lake)
    return register_tables(lake.location, snapshot, catalog, lake.feed.iceberg)


def list_names(reader: RestCatalog, database: str) -> set[str]:
    return {name for *_, name in reader.list_tables((database,))}


def read_ids(reader: RestCatalog, *name: str, column: str = "id") -> list[int | str]:
    return sorted(reader.load_table(name).scan().to_arrow()[column].to_pylist())


class ByName(Reader):
    """Reads what the catalog has under names."""

    def __init__(self, lake: LakeSession, catalog: RestCatalog, prefix: str) -> None:
        super().__init__(lake)
        self._catalog, self._prefix = catalog, prefix

    def read(self, name: Name) -> object:
        database, table = name
        try:
            found = self._catalog.load_table((self._prefix + database, table.lower()))
        except NoSuchTableError:
            return None
        assert found.properties["ticdc.table"] == ".".join(name)
        rows = [
            {c: v for c, v in each.items() if c not in ("_commit_ts", "_inexact")}
            for each in found.scan().to_arrow().to_pylist()
        ]
        return sorted(rows, key=lambda each: each["id"])
