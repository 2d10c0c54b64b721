"""The table `[changefeed.catalog]`: what it may have, and that no credential is in it."""

from pathlib import Path

import pytest

from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.changefeed.catalog import (
    GlueCatalog,
    HiveCatalog,
    IcebergRestCatalog,
    UnityCatalog,
)
from ticdc_assets.errors import ConfigError


def declare(folder: Path, table: str) -> Changefeed:
    file = folder / "changefeeds.toml"
    uri = "file:///data?protocol=csv"
    file.write_text(f'[[changefeed]]\nid = "shop"\nsink-uri = "{uri}"\n{table}\n')
    return load_changefeeds(file)["shop"]


def test_a_catalog_is_declared_by_a_table_of_its_own(tmp_path: Path) -> None:
    assert declare(tmp_path, "").catalogs == ()
    assert declare(tmp_path, "[changefeed.catalog.glue]").catalogs == (GlueCatalog(),)
    table = '[changefeed.catalog.glue]\ndatabase-prefix = "tidb_"\nregion = "eu-west-1"\n'
    table += 'profile = "lake"\nendpoint = "https://vpce-1.glue.example"\naccount = "123456789012"'
    assert declare(tmp_path, table).catalogs == (
        GlueCatalog("tidb_", "eu-west-1", "lake", "https://vpce-1.glue.example", "123456789012"),
    )
    table = '[changefeed.catalog.hive]\nuri = "thrift://[::1]:9083"\n[changefeed.catalog.glue]'
    hive, glue = declare(tmp_path, table).catalogs
    assert (hive, glue) == (HiveCatalog("thrift://[::1]:9083"), GlueCatalog())
    assert hive.address == ("::1", 9083)
    assert HiveCatalog("thrift://metastore").address == ("metastore", 9083)
    table = '[changefeed.catalog.unity]\nuri = "https://h:8080"\ncatalog = "main"\n'
    table += 'token-env = "UNITY_TOKEN"\ndatabase-prefix = "tidb_"\n'
    table += '[changefeed.catalog.iceberg-rest]\nuri = "https://h/api/catalog"\n'
    table += 'warehouse = "lake"\nprofile = "polaris"'
    assert declare(tmp_path, table).catalogs == (
        UnityCatalog("https://h:8080", "main", "tidb_", "UNITY_TOKEN"),
        IcebergRestCatalog("https://h/api/catalog", "", "lake", "polaris"),
    )


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("catalog = 1", "must be a table such as"),
        ("catalog.glue = 1", "glue must be a table, written"),
        ("[changefeed.catalog.blue]", r"blue is not a catalog that is known: write \[changefeed"),
        ('[changefeed.catalog.glue]\nregoin = "x"', "glue.regoin .* did you mean region"),
        ('[changefeed.catalog.glue]\naccess-key = "hunter22"', "never from this file"),
        ('[changefeed.catalog.glue]\nsecret-access-key = "hunter22"', "never from this file"),
        ('[changefeed.catalog.glue]\ndatabase-prefix = "TiDB-"', "database-prefix must be up to"),
        ("[changefeed.catalog.glue]\naccount = 123456789012", "12 digits .* in quotes"),
        ("[changefeed.catalog.hive]", "hive.uri is missing: it must be a URI"),
        ('[changefeed.catalog.hive]\nuri = "thrift://u:hunter22@h"', "hive.uri must be a URI"),
        ('[changefeed.catalog.unity]\nuri = "https://h"', "unity.catalog is missing: it must be"),
        (
            '[changefeed.catalog.unity]\nuri = "https://h/api"',
            "unity.uri must be .* without a path",
        ),
        ('[changefeed.catalog.unity]\ntoken = "hunter22"', "never from this file"),
        ('[changefeed.catalog.unity]\ncatalog = "a.b"', "unity.catalog must be the name"),
        ('[changefeed.catalog.iceberg-rest]\nprofile = "x"', "iceberg-rest.uri is missing"),
        ('[changefeed.catalog.iceberg-rest]\nuri = "https://u:hunter22@h"', "uri must be the URL"),
        ('[changefeed.catalog.iceberg-rest]\ncredential = "hunter22"', "never from this file"),
        ('[changefeed.catalog.glue]\nregion = ""', "region must be the name"),
        ('[changefeed.catalog.glue]\nendpoint = "https://u:hunter22@h"', "endpoint must be a URL"),
        ('[changefeed.catalog.glue]\nendpoint = "https://h/?token=hunter22"', "must be a URL"),
    ],
)
def test_what_cannot_work_is_an_error_that_quotes_no_value(
    tmp_path: Path, table: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        declare(tmp_path, table)
    assert caught.value.setting == "changefeed shop.catalog"
    assert "hunter" not in str(caught.value)
