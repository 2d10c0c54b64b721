"""The asset graph: the declared changefeeds, and the jobs, sensors and schedules that run them."""

import logging
from collections.abc import Collection, Mapping

import dagster as dg

from ticdc_assets.assets.pinned_catalogs import Versions, pin_catalogs, read_pinned_catalogs
from ticdc_assets.assets.specs import NOT_DECLARED, no_changefeed_spec
from ticdc_assets.changefeed import Changefeed, find_declared_changefeeds
from ticdc_assets.graph import LakeGraph, build_graph, read_catalogs
from ticdc_assets.resources.dagster_settings import read_webhook
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.sensors.alert import alert_sensors
from ticdc_assets.sensors.lag import lag_sensors
from ticdc_assets.sensors.new_tables import list_shown, new_tables_sensor

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
    catalogs = read_catalogs(feeds, root, pinned)
    found = {id: None if isinstance(each, str) else each for id, each in catalogs.items()}
    loaded = {id: None if each is None else list_shown(each) for id, each in found.items()}
    read_at = {id: {} if each is None else each.read_at for id, each in found.items()}
    sensors = [new_tables_sensor(feeds, root, loaded), *alert_sensors(), *lag_sensors(feeds)]
    return dg.Definitions.merge(
        build_graph(LakeGraph(feeds, root), catalogs),
        dg.Definitions(
            executor=dg.in_process_executor, sensors=sensors, metadata=pin_catalogs(read_at)
        ),
    )
