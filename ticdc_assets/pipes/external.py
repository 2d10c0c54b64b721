"""A changefeed in a Dagster project whose runs are processes elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.assets import specs
from ticdc_assets.assets.advance import table_keys
from ticdc_assets.assets.check_results import read_last_evaluations
from ticdc_assets.changefeed import Changefeed, find_declared_changefeeds
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.catalog import LakeCatalog
from ticdc_assets.naming import FeedNames
from ticdc_assets.pipes.reports import (
    EXTRA,
    read_evaluation,
    read_metadata,
    write_evaluation,
    write_metadata,
)
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.store.lake import Lake


def find_changefeed(id: str) -> Changefeed:
    """Return a changefeed that this deployment declares."""
    feeds = find_declared_changefeeds()
    if id not in feeds:
        known = ", ".join(feeds) or "none"
        raise ConfigError(f"no changefeed {id} is declared, but {known}", setting="changefeed")
    return feeds[id]


@dataclass(frozen=True)
class ExternalRuns:
    """The assets of a changefeed as its lake has them, and what runs of them report."""

    feed: Changefeed
    lake: Lake

    @classmethod
    def open(cls, id: str) -> "ExternalRuns":
        """Open a changefeed of this deployment: TICDC_CHANGEFEEDS and TICDC_LAKE say where."""
        return cls(find_changefeed(id), Lake(get_lake_root(), id))

    @cached_property
    def _names(self) -> FeedNames:
        return FeedNames(self.feed)

    @cached_property
    def _catalog(self) -> LakeCatalog:
        return read_catalog(self.lake)

    @cached_property
    def specs(self) -> list[dg.AssetSpec]:
        """The assets: those of layers and tables."""
        found = [
            *specs.layer_specs(self.feed, self.lake),
            *specs.table_specs(self._names, self.lake, self._catalog),
        ]
        return [self._names.translate(spec) for spec in found]

    def make_extras(self, instance: dg.DagsterInstance) -> dict[str, Any]:
        """Return what a run has to know of earlier ones, which only Dagster's instance knows."""
        keys = [spec.key for spec in self.specs]
        found = (each.asset_entry.last_materialization for each in instance.get_asset_records(keys))
        pages = [event.asset_materialization for event in found if event is not None]
        checks = specs.list_checks(self._names, table_keys(self._names, self._catalog))
        last = read_last_evaluations(instance, [spec.key for spec in checks])
        # What the last run has reported is on its page.
        last_page = self._names.layer(naming.CHECKPOINTS)
        materializations = [
            {
                "asset_key": list(page.asset_key.path),
                "tags": dict(page.tags or {}),
                "metadata": write_metadata(page.metadata if page.asset_key == last_page else {}),
            }
            for page in pages
            if page is not None
        ]
        return {
            EXTRA: {
                "assets": [list(key.path) for key in keys],
                "materializations": materializations,
                "evaluations": [write_evaluation(each) for each in last],
            }
        }

    def list_events(
        self, done: dg.PipesClientCompletedInvocation
    ) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
        """Yield what a run has reported, for an op to log."""
        for message in done.get_custom_messages():
            each = message.get(EXTRA)
            if each is not None and "check_name" in each:
                yield read_evaluation(each)
            elif each is not None:
                key, metadata = dg.AssetKey(each["asset_key"]), read_metadata(each["metadata"])
                yield dg.AssetMaterialization(key, metadata=metadata, tags=each["tags"])
