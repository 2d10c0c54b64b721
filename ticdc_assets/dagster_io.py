"""Read the tables of a lake as inputs of your own assets, in any code location.

A room of its own, beside `assets`: a code location that only reads imports neither Spark nor the
graph of the changefeeds.  Rule: it reads, and writes nothing.
"""

import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from weakref import WeakKeyDictionary

import dagster as dg
from pydantic import Field, PrivateAttr

from ticdc_assets import naming
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.reading import PinnedLake, PinnedTable, open_lake
from ticdc_assets.reading.rows import ReadableRows
from ticdc_assets.safe_text import quote_given

__all__ = ["TicdcIOManager"]

_ROWS = (naming.CURRENT, naming.HISTORY, naming.CHANGES)
# How rows are read for an annotation.  Whoever annotates with a type has imported its package.
_FORMS: Mapping[str, Callable[[ReadableRows], object]] = {
    "pyarrow.Table": ReadableRows.arrow,
    "pyarrow.RecordBatchReader": ReadableRows.batches,
    "polars.DataFrame": ReadableRows.polars,
    "pandas.DataFrame": ReadableRows.pandas,
    "duckdb.DuckDBPyRelation": lambda rows: rows.duckdb(),
    "ticdc_assets.reading.PinnedTable": lambda rows: rows,
    "ticdc_assets.reading.PinnedVersions": lambda rows: rows,
}
_Page = Mapping[str, dg.MetadataValue[typing.Any]]
# What inputs of one step share, for as long as the step runs.
_Opened = WeakKeyDictionary[object, dict[str, PinnedLake]]


class TicdcIOManager(dg.ConfigurableIOManager):
    """Load tables of changefeeds as inputs, each as the annotation of its parameter says.

    All inputs of a step from one changefeed are at one TSO: the newest that the materializations of
    these assets, or that of the changefeed's `checkpoints`, state when the step loads the first.
    """

    uri: str = Field(description="The lake: a path, or the URI of an object store.")
    _opened: _Opened = PrivateAttr(default_factory=WeakKeyDictionary)

    def load_input(self, context: dg.InputContext) -> object:
        """Load a table at the TSO of the step."""
        read = _choose_form(context.dagster_type.typing_type)
        key = context.asset_key if context.has_asset_key else None
        name = None if key is None else naming.table_of(_without_prefix(key))
        if key is None or name is None or key.path[-3] not in _ROWS:
            given = "an output of an op" if key is None else quote_given(key.to_user_string())
            reason = (
                f"{given} is no table of a lake: their keys are <changefeed>/current/<database>/"
                "<table>, and .../<table>.history or .../<table>.changes below history and changes,"
                " behind any prefix"
            )
            raise ConfigError(reason, setting=context.name)
        lake = self._open(context, dg.AssetKey(key.path[:-3]))
        table = lake.table(name)
        context.log.info(f"{key.to_user_string()}: {table.name} at {describe_ts(lake.resolved_ts)}")
        return read(_choose_rows(table, key.path[-3]))

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Raise an error: only the runs of a changefeed write its tables."""
        what = context.asset_key.to_user_string() if context.has_asset_key else context.name
        reason = (
            f"{what} is stored by {type(self).__name__}, which only reads: give it another"
            " io_manager_key, or store its rows in the asset and annotate its function with"
            " -> None; this one belongs in AssetIn(input_manager_key=...)"
        )
        raise ConfigError(reason, setting="io_manager_key")

    def _open(self, context: dg.InputContext, root: dg.AssetKey) -> PinnedLake:
        """Open a changefeed's tables at the TSO of the step: all its inputs show one moment.

        `root` is what the keys of its assets have in common: its id, behind any prefix.
        """
        changefeed = root.path[-1]
        step = _find_step(context)
        opened = {} if step is None else self._opened.setdefault(step, {})
        if changefeed not in opened:
            ts = _find_ts(context, root)
            newest = open_lake(self.uri, changefeed)
            if ts is None:
                context.log.warning(
                    f"not every input from {changefeed} has a materialization that states a"
                    f" TSO: reading the newest snapshot, {describe_ts(newest.resolved_ts)}"
                )
            opened[changefeed] = newest if ts in (None, newest.resolved_ts) else newest.at(ts)
        return opened[changefeed]


def _choose_form(annotation: object) -> Callable[[ReadableRows], object]:
    """Return what reads rows as a type; without an annotation, they stay unread."""
    members = [each for each in typing.get_args(annotation) if each is not types.NoneType]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType) and len(members) == 1:
        # A parameter with a default of None.
        return _choose_form(members[0])
    if annotation in (typing.Any, object):
        return _FORMS["ticdc_assets.reading.PinnedTable"]
    for name, read in _FORMS.items():
        package, _, type_name = name.rpartition(".")
        if annotation is getattr(sys.modules.get(package), type_name, read):
            return read
    given = quote_given(getattr(annotation, "__qualname__", str(annotation)))
    reason = f"no input is loaded as {given}: annotate it with one of {', '.join(_FORMS)}"
    raise ConfigError(reason, setting="annotation")


def _choose_rows(table: PinnedTable, layer: str) -> ReadableRows:
    match layer:
        case naming.HISTORY:
            return table.history()
        case naming.CHANGES:
            return table.changes()
    return table


def _find_step(context: dg.InputContext) -> typing.Any:
    """Return the step that loads an input; None where there is none, as in a notebook."""
    try:
        return context.step_context
    except dg.DagsterInvariantViolationError:
        return None


def _find_ts(context: dg.InputContext, root: dg.AssetKey) -> int | None:
    """Return the newest TSO at which the inputs are what their materializations state.

    A table that has not changed is not materialized, so that its own TSO may be an old one, of
    which the files may be gone: that of `checkpoints` says up to when it is the same.  None if an
    input has no materialization.
    """
    step = _find_step(context)
    # What Dagster compares the inputs of the step with, to say which are stale.
    records = {} if step is None else step.input_asset_records or {}
    tables = {key for key in (context.asset_key, *records) if _is_table(key, root)}
    checkpoints = dg.AssetKey([*root.path, naming.CHECKPOINTS])
    pages = _read_pages(context.instance, {*tables, checkpoints})
    if not tables <= pages.keys():
        return None
    return max(filter(None, map(_read_ts, pages.values())), default=None)


def _is_table(key: dg.AssetKey, root: dg.AssetKey) -> bool:
    is_table = naming.table_of(_without_prefix(key)) is not None and key.path[-3] in _ROWS
    return is_table and dg.AssetKey(key.path[:-3]) == root


def _without_prefix(key: dg.AssetKey) -> dg.AssetKey:
    return dg.AssetKey(key.path[-4:])


def _read_pages(
    instance: dg.DagsterInstance, keys: Collection[dg.AssetKey]
) -> dict[dg.AssetKey, _Page]:
    """Read the metadata of the newest materialization of each asset that has one."""
    records = instance.get_asset_records(list(keys))
    found = (record.asset_entry.last_materialization for record in records)
    events = [event.asset_materialization for event in found if event is not None]
    return {event.asset_key: event.metadata for event in events if event is not None}


def _read_ts(page: _Page) -> int | None:
    """Return the TSO of the snapshot that a page shows; None if it names none."""
    status, ts = page.get("ticdc/status"), page.get("ticdc/resolved_ts")
    # That of a table that stopped is no snapshot's.
    if status is not None and status.value in ("paused", "waiting"):
        return None
    return int(ts.value) if ts is not None and str(ts.value).isdecimal() else None
