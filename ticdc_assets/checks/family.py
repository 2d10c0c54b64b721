"""The family of a changefeed's checks: their specs, and one evaluation of all over one window."""

from collections.abc import Collection, Iterator, Mapping

import dagster as dg
from pyspark.sql import SparkSession

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks import models, results
from ticdc_assets.checks.invariants import (
    INVARIANTS,
    TABLE_INVARIANTS,
    Scene,
    Severity,
    Window,
)
from ticdc_assets.lake.event_rows import table_name
from ticdc_assets.lake.tables import Lake
from ticdc_assets.naming import layer_key

# Which asset shows the check of which table of the lake.
_ASSET_OF = {
    "raw": "raw",
    "events": "events",
    "quarantine": "quarantine",
    "schema_history": "checkpoints",
    "tables": "checkpoints",
    "applied": "checkpoints",
}
_SHAPE = (
    "The lake's table {} has the columns of its contract, and in them what belongs there: kinds and"
    " states that there are, numbers and timestamps that can be."
)


def specs_for(feed: Changefeed, table_keys: Mapping[str, dg.AssetKey]) -> list[dg.AssetCheckSpec]:
    """The checks of a changefeed; `table_keys` are the assets of its current tables by `name`.

    The name is what tells tables apart, `lake.event_rows.table_name(database, table)`.
    """
    specs = [
        _spec(i.name, layer_key(feed, i.layer), i.promise, i.severity, i.blocking)
        for i in INVARIANTS
        if i.holds_for(feed)
    ]
    specs += [
        _spec(_shape_name(name), layer_key(feed, layer), _SHAPE.format(name), "ERROR", True)
        for name, layer in _ASSET_OF.items()
    ]
    specs += [
        _spec(i.name, key, i.promise, i.severity, i.blocking)
        for key in table_keys.values()
        for i in TABLE_INVARIANTS
    ]
    return specs


def _shape_name(table: str) -> str:
    return f"{table}_fits_its_contract"


def _spec(
    name: str, asset: dg.AssetKey, promise: str, severity: Severity, blocking: bool
) -> dg.AssetCheckSpec:
    said = {"ticdc/severity": severity}
    return dg.AssetCheckSpec(
        name, asset=asset, description=promise, blocking=blocking, metadata=said
    )


def evaluate(
    spark: SparkSession,
    lake: Lake,
    feed: Changefeed,
    window: Window,
    table_keys: Mapping[str, dg.AssetKey],
    selected: Collection[dg.AssetCheckKey] | None = None,
) -> Iterator[dg.AssetCheckResult]:
    """Look at what a window applied, and say of every selected check what was found.

    Nothing is said of tables that the window did not change, unless they are stopped; nor anything
    at all of an empty window but that.
    """
    with Scene(spark, lake, feed, window) as scene:
        if not window.is_empty:
            yield from _of_layers(scene, selected)
        yield from _of_tables(scene, table_keys, selected)


def _of_layers(
    scene: Scene, selected: Collection[dg.AssetCheckKey] | None
) -> Iterator[dg.AssetCheckResult]:
    feed, words = scene.feed, scene.words
    for invariant in INVARIANTS:
        check = dg.AssetCheckKey(layer_key(feed, invariant.layer), invariant.name)
        if invariant.holds_for(feed) and _is_chosen(check, selected):
            yield results.told(check, invariant.find(scene), invariant.severity, words)
    shapes = {
        name: check
        for name in models.TABLES
        for check in [dg.AssetCheckKey(layer_key(feed, _ASSET_OF[name]), _shape_name(name))]
        if _is_chosen(check, selected)
    }
    if shapes:
        news = {name: _new_rows(scene, name) for name in shapes}
        yield from results.shaped(shapes, scene, news, words)


def _new_rows(scene: Scene, name: str) -> str:
    """Which rows of a table of the lake the window made."""
    if scene.window.is_whole or name == "tables":
        return "true"
    if name == "applied":
        return f"seq > {scene.window.since} AND seq <= {scene.window.through}"
    if name == "schema_history":
        return f"valid_from >= {scene.before.ts} OR valid_from IS NULL"
    return f"batch > {scene.before.batch} OR batch IS NULL"


def _of_tables(
    scene: Scene,
    table_keys: Mapping[str, dg.AssetKey],
    selected: Collection[dg.AssetCheckKey] | None,
) -> Iterator[dg.AssetCheckResult]:
    there = [
        (table, key)
        for table in scene.named
        for key in [table_keys.get(table_name(table.schema.database, table.schema.table) or "")]
        if key is not None
    ]
    changed = {t.id for t, _ in there if not scene.window.is_empty and scene.has_changed(t)}
    for invariant in TABLE_INVARIANTS:
        of_stops = invariant is TABLE_INVARIANTS[0]
        show = results.stopped if of_stops else results.told
        asked = [
            (table, check)
            for table, key in there
            for check in [dg.AssetCheckKey(key, invariant.name)]
            if table.id in changed or (table.stopped and of_stops)
            if _is_chosen(check, selected)
        ]
        if asked:
            found = invariant.find(scene, [table for table, _ in asked])
            for table, check in asked:
                yield show(check, found[table.id], invariant.severity, scene.words)


def _is_chosen(check: dg.AssetCheckKey, selected: Collection[dg.AssetCheckKey] | None) -> bool:
    return selected is None or check in selected
