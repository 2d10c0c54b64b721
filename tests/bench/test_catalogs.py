"""The benchmark of catalogs counts what each client sends."""

from bench.catalogs import count_calls
from tests.catalogs.conftest import GlueServer, glue, moto_url
from tests.catalogs.unity_server import CATALOG, serve_unity
from ticdc_assets.changefeed.catalog import GlueCatalog, UnityCatalog
from ticdc_assets.resources.catalogs import open_catalog

__all__ = ["glue", "moto_url"]


def test_each_request_counts_once(glue: GlueServer) -> None:
    with serve_unity() as server, count_calls() as calls:
        unity = open_catalog(UnityCatalog(server.url, CATALOG))
        unity.list_databases()
        assert (calls.total(), server.calls.total()) == (1, 1)
        catalog = open_catalog(GlueCatalog(region="eu-west-1", endpoint=glue.url))
        catalog.list_databases()
        assert catalog.find(("d", "t")) is None
        assert calls.total() == 3
    glue.open().list_databases()
    assert calls.total() == 3
