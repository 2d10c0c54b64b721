"""The asset graph: the declared changefeeds, and the jobs, sensors and schedules that run them."""

import logging
from collections.abc import Collection, Mapping

import dagster as dg

from ticdc_assets.assets.advance import advance_job, feed_assets
from ticdc_assets.assets.load import load_job
from ticdc_assets.assets.maintenance import maintenance_job
from ticdc_assets.assets.pinned_catalogs import Versions, pin_catalogs, read_pinned_catalogs
from ticdc_assets.assets.rebuild import rebuild_job
from ticdc_assets.assets.specs import (
    NOT_DECLARED,
    lake_error_spec,
    no_changefeed_spec,
    source_spec,
    upstream_spec,
)
from ticdc_assets.assets.verification import verification_job
from ticdc_assets.changefeed import Changefeed, find_declared_changefeeds
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.log.catalog import LakeCatalog
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.dagster_settings import read_webhook
from ticdc_assets.resources.deployment import LakeResource, SparkResource
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.sensors.alert import alert_sensors
from ticdc_assets.sensors.checkpoint import checkpoint_sensor, source_resources
from ticdc_assets.sensors.lag import lag_sensors
from ticdc_assets.sensors.new_tables import Shown, list_shown, new_tables_sensor
from ticdc_assets.sensors.schedule import maintenance_schedule, verification_schedule
from ticdc_assets.store.lake import Lake

log = logging.getLogger("dagster.ticdc")


@dg.definitions
def defs() -> dg.Definitions:
    """Load the declared changefeeds; without any, one asset that says how to declare one.

    A wrong setting is an error: Dagster then shows its message in place of the code location, and
    `dg check defs` fails.
    """
    with redacted_errors():
        # What only runs and sensors need would fail them one by one.
        read_webhook()
        read_preview_rows()
        feeds = find_declared_changefeeds().values()
        if not feeds:
            log.warning(NOT_DECLARED)
            return dg.Definitions(assets=[no_changefeed_spec()])
        return graph(feeds, get_lake_root(), read_pinned_catalogs())


def graph(
    feeds: Collection[Changefeed], root: str, pinned: Mapping[str, Versions] | None = None
) -> dg.Definitions:
    """Define all changefeeds over a lake, from its newest catalogs or at pinned Delta versions."""
    resources = {"spark": SparkResource(), "lake": LakeResource(root=root)}
    parts = [dg.Definitions(resources=resources, executor=dg.in_process_executor)]
    read_at: dict[str, Versions] = {}
    loaded: dict[str, Shown | None] = {}
    for feed in feeds:
        lake = Lake(root, feed.id)
        try:
            catalog = read_catalog(lake, None if pinned is None else pinned.get(feed.id, {}))
            loaded[feed.id] = list_shown(catalog)
        except ConfigError as error:
            # The other changefeeds can do without it.
            log.error("Changefeed %s has no tables: %s", feed.id, error)  # noqa: TRY400
            catalog, loaded[feed.id] = LakeCatalog(), None
            parts.append(dg.Definitions(assets=[lake_error_spec(feed, str(error))]))
        read_at[feed.id] = catalog.read_at
        parts.append(_define_feed(feed, lake, catalog))
    sensors = [new_tables_sensor(feeds, root, loaded), *alert_sensors(), *lag_sensors(feeds)]
    parts.append(dg.Definitions(sensors=sensors, metadata=pin_catalogs(read_at)))
    return dg.Definitions.merge(*parts)


def _define_feed(feed: Changefeed, lake: Lake, catalog: LakeCatalog) -> dg.Definitions:
    assets = feed_assets(feed, lake, catalog)
    advance, maintain = advance_job(feed, assets), maintenance_job(feed)
    defined = dg.Definitions(
        assets=[source_spec(feed), assets],
        jobs=[advance, load_job(feed), maintain, rebuild_job(feed, assets)],
        sensors=[checkpoint_sensor(feed, advance)],
        schedules=[maintenance_schedule(feed, maintain)],
        resources=source_resources(feed),
    )
    upstream = upstream_spec(feed)
    if upstream is None:
        return defined
    verify = verification_job(feed)
    schedule = verification_schedule(feed, verify)
    return dg.Definitions.merge(
        defined, dg.Definitions(assets=[upstream], jobs=[verify], schedules=[schedule])
    )
