"""The sensor that keeps the graph in step: it reloads the definitions when a lake has other tables.

Definitions are loaded once per process.  A code server (`dagster code-server start`; `dagster dev`
starts one too) loads them in a process of its own, and anew on request.  The web server
and the daemon watch it, and show what it has within seconds.  Runs that a former process started
go on.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import dagster as dg

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.catalog import LakeCatalog
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.resources.dagster_settings import read_poll_interval
from ticdc_assets.safe_text import escape_control, redacted_errors
from ticdc_assets.store.lake import Lake

RELOAD = "reload_definitions"
# Seconds that the code server may take; Dagster ends a tick after a minute.
_TIMEOUT = 50
_MAX_NAMES = 5

# What the graph shows of each table, by its name: its status, and why it has that.
Shown = Mapping[str, tuple[str, str | None]]
# What renews the state that definitions are loaded from.
Refresh = Callable[[dg.DagsterInstance], object]


def list_shown(catalog: LakeCatalog) -> Shown:
    """Return what the graph shows of the tables in a catalog."""
    return {table.name: (table.status, table.reason) for table in catalog.named().values()}


def new_tables_sensor(
    feeds: Collection[Changefeed],
    root: str,
    loaded: Mapping[str, Shown | None],
    *,
    name: str = RELOAD,
    refresh: Refresh | None = None,
) -> dg.SensorDefinition:
    """Define the sensor that compares lakes with what the graph was loaded from, by changefeed.

    None stands for a lake that could not be read.  `refresh` renews the state that definitions are
    loaded from, where there is one.
    """

    @dg.sensor(
        name=name,
        description="Reloads the definitions when tables have appeared, disappeared or changed"
        " their status.",
        minimum_interval_seconds=min(map(read_poll_interval, feeds), default=None),
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def _sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        changes = find_changes(root, loaded)
        if not changes:
            return dg.SensorResult(skip_reason="the graph shows the tables as they are", cursor="")
        with redacted_errors():
            return _reload(context, changes, refresh)

    return _sensor


def find_changes(root: str, loaded: Mapping[str, Shown | None]) -> list[str]:
    """Describe which tables of lakes the graph does not show as they are."""
    changes: list[str] = []
    for feed, shown in loaded.items():
        try:
            now = list_shown(read_catalog(Lake(root, feed)))
        except ConfigError:
            # It cannot be read, or a run is writing it: the next tick tries again.
            continue
        if shown is None:
            changes.append(f"{feed} can be read")
            continue
        names = [name for name in now.keys() | shown.keys() if now.get(name) != shown.get(name)]
        listed = ", ".join(map(escape_control, sorted(names)[:_MAX_NAMES]))
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        changes += [f"{feed}: {listed}{more}"] if names else []
    return changes


def _reload(
    context: dg.SensorEvaluationContext,
    changes: Sequence[str],
    refresh: Refresh | None,
) -> dg.SensorResult:
    changed = "; ".join(changes)
    # How the process that evaluates this is reached; only a code server has a client.
    connect = getattr(context.code_location_origin, "create_client", None)
    if connect is None:
        first = "" if refresh is None else "run `dg utils refresh-defs-state`, then "
        by_hand = (
            f"{first}reload the definitions by hand (Deployment, then Reload), or run a code server"
        )
        return dg.SensorResult(skip_reason=f"the graph does not show yet: {changed}; {by_hand}")
    if context.cursor == changed:
        reason = f"the code server did not reload, and the graph does not show yet: {changed};"
        return dg.SensorResult(
            skip_reason=f"{reason} start that server by `dagster code-server start`",
            cursor=changed,
        )
    if refresh is not None:
        refresh(context.instance)
    connect().reload_code(timeout=_TIMEOUT)
    return dg.SensorResult(skip_reason=f"reloaded the definitions: {changed}", cursor=changed)
