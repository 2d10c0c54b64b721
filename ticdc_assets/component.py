"""The component `ticdc_assets.TicdcLake`: the changefeeds of one lake, in any project of Dagster.

Its state is what the lakes' catalogs were when it was last refreshed, so that loading a code
location reads no lake.  Nothing here is private to Dagster.
"""

import asyncio
import logging
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import dagster as dg
from dagster.components import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig

from ticdc_assets.changefeed import Changefeed, declare_changefeeds, load_changefeeds
from ticdc_assets.errors import ConfigError
from ticdc_assets.graph import LakeGraph, build_graph, read_catalogs
from ticdc_assets.log.catalog_text import read_catalog_texts, write_catalog_texts
from ticdc_assets.naming import Granularity, Shown, Translate
from ticdc_assets.resources.lake import make_absolute
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.sensors.new_tables import RELOAD, Refresh, list_shown, new_tables_sensor
from ticdc_assets.sensors.schedule import Times
from ticdc_assets.translation import resolve_translation

log = logging.getLogger("dagster.ticdc")
# Other names of a project cannot be made of it and an id of a changefeed.
_NAME = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*")


def _find_folder(context: dg.ResolutionContext) -> Path:
    return dg.ComponentLoadContext.from_resolution_context(context).path


def _resolve_changefeeds(context: dg.ResolutionContext, stated: Any) -> list[Changefeed]:
    folder = _find_folder(context)
    resolved = context.resolve_value(stated)
    with redacted_errors():
        if isinstance(resolved, str):
            return list(load_changefeeds(folder / resolved).values())
        entries = [_read_start(entry) for entry in resolved]
        return list(declare_changefeeds(entries, folder / "defs.yaml").values())


def _read_start(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an entry whose `start` is a time: unlike TOML, a defs.yaml holds it as a text."""
    start = entry.get("start")
    try:
        moment = datetime.fromisoformat(start) if isinstance(start, str) else None
    except ValueError:
        moment = None
    return entry if moment is None else {**entry, "start": moment}


def _resolve_lake(context: dg.ResolutionContext, stated: str) -> str:
    root = str(context.resolve_value(stated))
    if "://" not in root:
        root = str(_find_folder(context) / root)
    return make_absolute(root, setting="lake")


class LakeScaffolder(dg.Scaffolder[Any]):
    """Writes a `defs.yaml` to start from, named as its folder."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        slug = re.sub(r"[^A-Za-z0-9]+", "_", request.target_path.name).strip("_") or "lake"
        attributes = {
            "name": slug,
            "lake": "{{ env.TICDC_LAKE }}",
            "changefeeds": [
                {
                    "id": slug,
                    "sink-uri": "s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true",
                }
            ],
            "translation": {"key_prefix": slug},
        }
        dg.scaffold_component(request, attributes)


@dg.scaffold_with(LakeScaffolder)
@dataclass(kw_only=True)
class TicdcLake(dg.StateBackedComponent, dg.Resolvable):
    """The changefeeds of one lake: their assets, checks, jobs, sensors and schedules."""

    name: Annotated[
        str,
        dg.Resolver.default(
            description="Begins the names of the jobs, sensors and resources of this lake: letters,"
            " digits and single underscores. Every lake of a project has another."
        ),
    ]
    lake: Annotated[
        str,
        dg.Resolver(
            _resolve_lake,
            model_field_type=str,
            description="The lake: a URI, or a path from the folder of this file.",
        ),
    ]
    changefeeds: Annotated[
        Sequence[Changefeed],
        dg.Resolver(
            _resolve_changefeeds,
            model_field_type=str | Sequence[Mapping[str, Any]],
            description="The changefeeds, with the settings of a changefeeds.toml; or the path of"
            " such a file from the folder of this one.",
        ),
    ]
    translation: Annotated[
        Translate | None,
        dg.Resolver(
            resolve_translation,
            model_field_type=str | dg.AssetAttributesModel,
            inject_before_resolve=False,
            description="How assets are shown; templates know changefeed, layer, database, table"
            " and spec.",
        ),
    ] = None
    asset_per: Annotated[
        Literal["table", "database", "layer"],
        dg.Resolver.default(
            description="What has an asset in the layers that hold tables: each table, each"
            " database, or the layer alone."
        ),
    ] = "table"
    show_upstream: Annotated[
        bool, dg.Resolver.default(description="Whether the database upstream is an asset.")
    ] = True
    show_histories: Annotated[
        bool, dg.Resolver.default(description="Whether histories and changes are assets.")
    ] = True
    table_checks: Annotated[
        bool, dg.Resolver.default(description="Whether tables have checks, or the layers alone.")
    ] = True
    maintenance_cron: Annotated[
        str | None,
        dg.Resolver.default(
            description="When files are compacted, and old ones removed: every night at 03:30."
        ),
    ] = None
    verification_cron: Annotated[
        str | None,
        dg.Resolver.default(
            description="When tables are compared with a declared upstream. Without it, a schedule"
            " is there, switched off."
        ),
    ] = None
    defs_state: ResolvedDefsStateConfig = field(
        default_factory=DefsStateConfigArgs.local_filesystem
    )

    @property
    def defs_state_config(self) -> DefsStateConfig:
        return DefsStateConfig.from_args(self.defs_state, default_key=f"TicdcLake[{self.name}]")

    def write_state_to_path(self, state_path: Path) -> None:
        with redacted_errors():
            catalogs = read_catalogs(self.changefeeds, self.lake)
            state_path.write_text(write_catalog_texts(catalogs))

    def build_defs_from_state(
        self, context: dg.ComponentLoadContext, state_path: Path | None
    ) -> dg.Definitions:
        with redacted_errors():
            if not _NAME.fullmatch(self.name):
                reason = "must be letters and digits, with single underscores between them"
                raise ConfigError(reason, setting="name")
            if state_path is None:
                log.warning("%s was never refreshed: it shows no tables yet", self.name)
            catalogs = {} if state_path is None else read_catalog_texts(state_path.read_text())
            loaded = {
                id: None if isinstance(found, str) else list_shown(found)
                for id, found in catalogs.items()
            }
            shown = {feed.id: loaded.get(feed.id, {}) for feed in self.changefeeds}
            granularity: Granularity = self.asset_per
            how = Shown(
                per=granularity,
                upstream=self.show_upstream,
                histories=self.show_histories,
                table_checks=self.table_checks,
                translate=self.translation,
            )
            times = Times(self.maintenance_cron, self.verification_cron)
            graph = LakeGraph(self.changefeeds, self.lake, self.name, how, times)
            sensor = new_tables_sensor(
                *(self.changefeeds, self.lake, shown),
                name=f"{self.name}__{RELOAD}",
                refresh=self._find_refresh(context.project_root),
            )
            return dg.Definitions.merge(
                build_graph(graph, catalogs), dg.Definitions(sensors=[sensor])
            )

    def _find_refresh(self, project_root: Path) -> Refresh | None:
        """Return what renews the state; None where loading the definitions does."""
        match self.defs_state_config.management_type.name:
            case "LEGACY_CODE_SERVER_SNAPSHOTS":
                return None
            case "VERSIONED_STATE_STORAGE":
                return self._upload_state
            case _:
                return lambda instance: asyncio.run(self.refresh_state(project_root))

    def _upload_state(self, instance: dg.DagsterInstance) -> None:
        """Store a new version of the state: `refresh_state` finds no storage in a sensor."""
        storage = instance.defs_state_storage
        if storage is None:
            reason = "needs a defs_state_storage in dagster.yaml"
            raise ConfigError(reason, setting="defs_state.management_type")
        with TemporaryDirectory() as folder:
            path = Path(folder) / "state"
            self.write_state_to_path(path)
            version = str(uuid.uuid4())
            storage.upload_state_from_path(self.defs_state_config.key, version, path)
