"""The whole graph on one screen: the changefeeds that are declared, and all that runs for each."""

import json
import logging
from collections.abc import Iterable

import dagster as dg

# Nothing public tells a code location that is loaded from a run that loads it again.
from dagster._core.definitions.definitions_load_context import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
)

from resources.catalog import read_catalog
from resources.deployment import LakeResource, SparkResource
from resources.lake import get_lake_root
from ticdc_assets.assets import specs
from ticdc_assets.assets.advance import advance_job, feed_assets
from ticdc_assets.assets.maintenance import maintenance_job
from ticdc_assets.changefeed import Changefeed, find_changefeeds_file, load_changefeeds
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.log.catalog import LakeCatalog
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.naming import identifier
from ticdc_assets.sensors.alert import alert_sensors
from ticdc_assets.sensors.checkpoint import checkpoint_sensor
from ticdc_assets.sensors.schedule import maintenance_schedule

# Which versions of the lakes' catalogs the code location was loaded from.
PINNED = "ticdc/catalogs"

log = logging.getLogger("dagster.ticdc")


@dg.definitions
def defs() -> dg.Definitions:
    """Everything that is declared; where that cannot work, one asset that says why."""
    try:
        feeds = load_changefeeds(find_changefeeds_file(None)).values()
        return graph(feeds, get_lake_root(), _pinned())
    except ConfigError as error:
        log.error("No asset was loaded: %s", error)  # noqa: TRY400 (it names the setting; no trace)
        return dg.Definitions(assets=[specs.nothing_spec(str(error))])


def graph(
    feeds: Iterable[Changefeed], root: str, pinned: dict[str, dict[str, int]] | None = None
) -> dg.Definitions:
    """The assets of all changefeeds, and what runs them."""
    parts = [dg.Definitions(resources=_resources(root), executor=dg.in_process_executor)]
    read_at = {}
    for feed in feeds:
        lake = Lake(root, feed.id)
        catalog = read_catalog(lake, None if pinned is None else pinned.get(feed.id, {}))
        read_at[feed.id] = dict(catalog.read_at)
        parts.append(_of(feed, lake, catalog))
    pins = dg.MetadataValue.code_location_reconstruction(json.dumps(read_at))
    parts.append(dg.Definitions(sensors=alert_sensors(), metadata={PINNED: pins}))
    return dg.Definitions.merge(*parts)


def _of(feed: Changefeed, lake: Lake, catalog: LakeCatalog) -> dg.Definitions:
    assets = feed_assets(feed, lake, catalog)
    advance, maintain = advance_job(feed, assets), maintenance_job(feed)
    s3 = _s3(feed)
    return dg.Definitions(
        assets=[specs.source_spec(feed), assets],
        jobs=[advance, maintain],
        # Brokers are not read yet: there is nothing to watch.
        sensors=[checkpoint_sensor(feed, advance, *s3)] if feed.transport != "kafka" else [],
        schedules=[maintenance_schedule(feed, maintain)],
        resources=s3,
    )


def _s3(feed: Changefeed) -> dict[str, object]:
    """The client that the source is read with, by the key it is known by; none where not on S3."""
    if feed.scheme != "s3":
        return {}
    from resources.s3 import make_s3_resource

    found = make_s3_resource(feed)
    return {} if found is None else {f"s3_{identifier(feed.id)}": found}


def _resources(root: str) -> dict[str, object]:
    return {"spark": SparkResource(), "lake": LakeResource(root=root)}


def _pinned() -> dict[str, dict[str, int]] | None:
    """What a run that loads the graph again has to read it from; None for the newest there is.

    A run was planned with the tables that the code location had; since then some may have come and
    others gone.
    """
    context = DefinitionsLoadContext.get()
    if context.load_type != DefinitionsLoadType.RECONSTRUCTION:
        return None
    stated = context.reconstruction_metadata.get(PINNED)
    pinned: dict[str, dict[str, int]] | None = None if stated is None else json.loads(stated)
    return pinned
