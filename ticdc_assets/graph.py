"""The assets, jobs, sensors and schedules of the changefeeds of one lake, for any project.

The project's own code location and the component are uses of it.  Nothing here concerns the whole
project: it sets no executor, and alerts of nothing.
"""

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import dagster as dg

from ticdc_assets.assets.advance import advance_job, feed_assets
from ticdc_assets.assets.copy_verification import copy_job
from ticdc_assets.assets.load import load_job
from ticdc_assets.assets.maintenance import maintenance_job
from ticdc_assets.assets.rebuild import rebuild_job
from ticdc_assets.assets.specs import lake_error_spec, shows_upstream, source_spec, upstream_spec
from ticdc_assets.assets.verification import verification_job
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.catalog import LakeCatalog
from ticdc_assets.naming import FeedNames, Shown, resource_key, same_key
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.deployment import LakeResource, SparkResource
from ticdc_assets.sensors.checkpoint import checkpoint_sensor, source_resources
from ticdc_assets.sensors.schedule import Times, maintenance_schedule, verification_schedule
from ticdc_assets.store.lake import Lake

log = logging.getLogger("dagster.ticdc")
# The catalog of each changefeed, by its id; the reason where it cannot be read.
Catalogs = Mapping[str, LakeCatalog | str]


@dataclass(frozen=True)
class LakeGraph:
    """The changefeeds of a lake, and how a project shows them; `scope` as in `FeedNames`."""

    feeds: Collection[Changefeed]
    root: str
    scope: str = ""
    shown: Shown = field(default_factory=Shown)
    times: Times = field(default_factory=Times)


def read_catalogs(
    feeds: Collection[Changefeed],
    root: str,
    pinned: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, LakeCatalog | str]:
    """Read the catalogs of changefeeds, now or at pinned Delta versions."""
    found: dict[str, LakeCatalog | str] = {}
    for feed in feeds:
        versions = None if pinned is None else pinned.get(feed.id, {})
        try:
            found[feed.id] = read_catalog(Lake(root, feed.id), versions)
        except ConfigError as error:
            # The other changefeeds can do without it.
            log.error("Changefeed %s has no tables: %s", feed.id, error)  # noqa: TRY400
            found[feed.id] = str(error)
    return found


def build_graph(lake: LakeGraph, catalogs: Catalogs) -> dg.Definitions:
    """Define all changefeeds of a lake; those that have no catalog yet have no tables."""
    resources = {
        resource_key(lake.scope, "spark"): SparkResource(),
        resource_key(lake.scope, "lake"): LakeResource(root=lake.root),
    }
    parts = [dg.Definitions(resources=resources)]
    for feed in lake.feeds:
        names = FeedNames(feed, lake.scope, lake.shown)
        found = catalogs.get(feed.id, LakeCatalog())
        if isinstance(found, str):
            spec = names.translate(lake_error_spec(feed, found))
            parts.append(dg.Definitions(assets=[spec]))
            found = LakeCatalog()
        parts.append(_define_feed(names, lake, found))
    merged = dg.Definitions.merge(*parts)
    _require_own_keys(merged)
    return merged


def _define_feed(names: FeedNames, lake: LakeGraph, catalog: LakeCatalog) -> dg.Definitions:
    assets = feed_assets(names, Lake(lake.root, names.feed.id), catalog)
    advance, maintain = advance_job(names, assets), maintenance_job(names)
    defined = dg.Definitions(
        assets=[names.translate(source_spec(names)), assets],
        jobs=[advance, load_job(names), maintain, rebuild_job(names, assets)],
        sensors=[checkpoint_sensor(names, advance)],
        schedules=[maintenance_schedule(names, maintain, lake.times)],
        resources=source_resources(names),
    )
    if names.feed.copy is not None:
        defined = dg.Definitions.merge(defined, dg.Definitions(jobs=[copy_job(names)]))
    upstream = names.feed.upstream
    if upstream is None:
        return defined
    verify = verification_job(names)
    shown = [upstream_spec(names.feed, upstream)] if shows_upstream(names) else []
    return dg.Definitions.merge(
        defined,
        dg.Definitions(
            assets=[names.translate(spec) for spec in shown],
            jobs=[verify],
            schedules=[verification_schedule(names, verify, lake.times)],
        ),
    )


def _require_own_keys(defined: dg.Definitions) -> None:
    """Raise an error if a translation gives assets of two changefeeds one key."""
    counts: Counter[dg.AssetKey] = Counter()
    for asset in defined.assets or ():
        if isinstance(asset, dg.AssetSpec):
            counts[asset.key] += 1
        elif isinstance(asset, dg.AssetsDefinition):
            counts.update(asset.keys)
    for key, count in counts.items():
        if count > 1:
            raise same_key(key)
