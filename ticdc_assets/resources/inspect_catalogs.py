"""Inspect the declared catalogs: they answer, and engines can reach what they name."""

from collections.abc import Iterator

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.catalog import CatalogSettings, GlueCatalog, IcebergRestCatalog
from ticdc_assets.errors import CatalogError, ConfigError
from ticdc_assets.resources.catalogs import open_catalog
from ticdc_assets.resources.finding import Finding, blame, note

_FIX = (
    "let this user read and change databases and tables in it (docs/settings.md, Catalogs);"
    " credentials come from the environment, or a profile"
)
_UNREACHABLE = "the engines of AWS read S3 only, and the lake is at {}"
_NO_ICEBERG = "no table is an Iceberg table, so this catalog gets none"
_NAME_TABLES = 'name some, such as iceberg = ["shop.*"]'
_MOVE = "keep the lake in a bucket, or use the catalog with engines of your own that reach it"


def inspect_catalogs(feed: Changefeed, root: str) -> list[Finding]:
    """List the databases of each catalog; change nothing."""
    return [finding for each in feed.catalogs for finding in _inspect(feed, each, root)]


def _inspect(feed: Changefeed, settings: CatalogSettings, root: str) -> Iterator[Finding]:
    try:
        catalog = open_catalog(settings)
        databases = catalog.list_databases()
    except ConfigError as error:
        yield blame("failure", "catalog", error, _FIX, feed.id)
        return
    except CatalogError as error:
        silent = ConfigError(error.reason, setting=f"catalog.{settings.kind}")
        yield blame("failure", "catalog", silent, _FIX, feed.id)
        return
    if isinstance(settings, IcebergRestCatalog) and not feed.iceberg:
        none = ConfigError(_NO_ICEBERG, setting=f"catalog.{settings.kind}")
        yield blame("warning", "catalog", none, _NAME_TABLES, feed.id)
    if isinstance(settings, GlueCatalog) and not root.startswith("s3a://"):
        far = ConfigError(_UNREACHABLE.format(root), setting=f"catalog.{settings.kind}")
        yield blame("warning", "catalog", far, _MOVE, feed.id)
    has = f"{len(databases):,} databases"
    yield note("catalog", f"{settings.kind} at {catalog.place} has {has}", feed.id)
