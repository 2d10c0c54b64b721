"""The family of a changefeed's checks: their specs, and one evaluation of all over one window."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import dagster as dg

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks import models, results
from ticdc_assets.checks.invariants import (
    INVARIANTS,
    TABLE_INVARIANTS,
    CheckContext,
    Found,
    NotEvaluated,
    SnapshotRange,
    TableInvariant,
)
from ticdc_assets.lake.events.event_rows import table_name
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.naming import layer_asset_key
from ticdc_assets.plan.state import Incarnation

# Whether a check failed when it was last evaluated.
HasFailed = Callable[[dg.AssetCheckKey], bool]

# Which asset shows the check of which table of the lake.
_ASSET_OF = {
    "raw": "raw",
    "events": "events",
    "quarantine": "quarantine",
    "schema_history": "checkpoints",
    "tables": "checkpoints",
    "applied": "checkpoints",
}
# Whether a table goes on is what it is now: no window has a part in it.
_OF_STOPS = TABLE_INVARIANTS[0]
_SHAPE = (
    "The lake's table {} has the columns of its contract, and in them what belongs there: kinds and"
    " states that there are, numbers and timestamps that can be."
)


def check_specs(feed: Changefeed, table_keys: Mapping[str, dg.AssetKey]) -> list[dg.AssetCheckSpec]:
    """The checks of a changefeed; `table_keys` are the assets of its current tables by `name`.

    The name is what tells tables apart, `lake.event_rows.table_name(database, table)`.
    """
    specs = [
        _spec(i.name, layer_asset_key(feed, i.layer), i.promise, i)
        for i in INVARIANTS
        if i.holds_for(feed)
    ]
    specs += [
        _spec(
            _shape_name(name), layer_asset_key(feed, layer), _SHAPE.format(name), results.CONTRACT
        )
        for name, layer in _ASSET_OF.items()
    ]
    specs += [
        _spec(i.name, key, i.promise, i) for key in table_keys.values() for i in TABLE_INVARIANTS
    ]
    return specs


def _shape_name(table: str) -> str:
    return f"{table}_matches_contract"


def _spec(name: str, asset: dg.AssetKey, promise: str, weight: results.Weight) -> dg.AssetCheckSpec:
    said = {"ticdc/severity": weight.severity}
    return dg.AssetCheckSpec(
        name, asset=asset, description=promise, blocking=weight.blocking, metadata=said
    )


def evaluate_checks(
    lake: LakeSession,
    window: SnapshotRange,
    table_keys: Mapping[str, dg.AssetKey],
    selected: Collection[dg.AssetCheckKey] | None = None,
    has_failed: HasFailed | None = None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Look at what a window applied, and say of every selected check what was found.

    Nothing is said of tables that the window did not change, unless they are stopped; nor anything
    at all of an empty window but that.  A table that failed a check is looked at from its beginning
    until it passes or is made anew: what is wrong with it need not lie in what has changed since.
    """
    with CheckContext(lake, window) as scene:
        if not window.is_empty:
            yield from _of_layers(scene, selected)
        asked = _asked(scene, table_keys, selected)
        doubted = [] if has_failed is None else _doubted(scene, asked, has_failed)
        apart = {one.check for one in doubted}
        for one, found in _found(scene, [one for one in asked if one.check not in apart]):
            yield _told(scene, one, found)
    if doubted:
        with CheckContext(
            lake, SnapshotRange(0, window.through), {one.table.id for one in doubted}
        ) as scene:
            for one, found in _found(scene, doubted):
                # What cannot be told does not take back what was found.
                if not isinstance(found, NotEvaluated):
                    yield _told(scene, one, found)


def _of_layers(
    scene: CheckContext, selected: Collection[dg.AssetCheckKey] | None
) -> Iterator[dg.AssetCheckEvaluation]:
    feed, words = scene.feed, scene.words
    for invariant in INVARIANTS:
        check = dg.AssetCheckKey(layer_asset_key(feed, invariant.layer), invariant.name)
        if invariant.holds_for(feed) and _is_chosen(check, selected):
            yield results.told(check, invariant.find(scene), invariant, words)
    shapes = {
        name: check
        for name in models.TABLES
        for check in [dg.AssetCheckKey(layer_asset_key(feed, _ASSET_OF[name]), _shape_name(name))]
        if _is_chosen(check, selected)
    }
    if shapes:
        news = {name: _new_rows(scene, name) for name in shapes}
        yield from results.shaped(shapes, scene, news, words)


def _new_rows(scene: CheckContext, name: str) -> str:
    """Which rows of a table of the lake the window made."""
    if scene.window.is_whole or name == "tables":
        return "true"
    if name == "applied":
        return f"seq > {scene.window.since} AND seq <= {scene.window.through}"
    if name == "schema_history":
        return f"valid_from >= {scene.before.ts} OR valid_from IS NULL"
    return f"batch > {scene.before.batch} OR batch IS NULL"


class _Asked(NamedTuple):
    """A check of a table that something is to be said of."""

    invariant: TableInvariant
    table: Incarnation
    check: dg.AssetCheckKey


def _asked(
    scene: CheckContext,
    table_keys: Mapping[str, dg.AssetKey],
    selected: Collection[dg.AssetCheckKey] | None,
) -> list[_Asked]:
    there = [
        (table, key)
        for table in scene.named
        for key in [table_keys.get(table_name(table.schema.database, table.schema.table) or "")]
        if key is not None
    ]
    changed = {t.id for t, _ in there if not scene.window.is_empty and scene.has_changed(t)}
    return [
        _Asked(invariant, table, check)
        for invariant in TABLE_INVARIANTS
        for table, key in there
        for check in [dg.AssetCheckKey(key, invariant.name)]
        if table.id in changed or (table.is_stopped and invariant is _OF_STOPS)
        if _is_chosen(check, selected)
    ]


def _doubted(scene: CheckContext, asked: Sequence[_Asked], has_failed: HasFailed) -> list[_Asked]:
    """Those whose table failed the check when it was last looked at, and is the same still."""
    if scene.window.is_whole:
        return []
    before = scene.before.state.incarnations
    return [
        one
        for one in asked
        if one.invariant is not _OF_STOPS
        if one.table.id in before and one.table.id not in scene.replayed
        if has_failed(one.check)
    ]


def _found(
    scene: CheckContext, asked: Sequence[_Asked]
) -> Iterator[tuple[_Asked, Found | NotEvaluated]]:
    for invariant in TABLE_INVARIANTS:
        chosen = [one for one in asked if one.invariant is invariant]
        if chosen:
            found = invariant.find(scene, [one.table for one in chosen])
            for one in chosen:
                yield one, found[one.table.id]


def _told(scene: CheckContext, one: _Asked, found: Found | NotEvaluated) -> dg.AssetCheckEvaluation:
    show = results.stopped if one.invariant is _OF_STOPS else results.told
    return show(one.check, found, one.invariant, scene.words)


def _is_chosen(check: dg.AssetCheckKey, selected: Collection[dg.AssetCheckKey] | None) -> bool:
    return selected is None or check in selected
