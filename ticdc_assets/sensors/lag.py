"""Alerts for what fails in no run: a changefeed that lags behind, a sensor that is switched off.

Each state is posted once, until the changefeed is up to date again, which is posted once as well.
The cursor, which Dagster keeps, says what was posted; if posting fails, the next tick tries again.
Nothing here notices that the daemon itself has ended: that takes `ticdc-assets status`.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import dagster as dg
import msgspec

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events.duration import format_seconds
from ticdc_assets.naming import identifier
from ticdc_assets.resources.dagster_settings import read_webhook
from ticdc_assets.resources.deployment import LakeResource
from ticdc_assets.resources.max_lag import read_max_lag
from ticdc_assets.resources.patience import PatientCaller
from ticdc_assets.resources.source_state import has_watermarks, read_lake_states, read_source_states
from ticdc_assets.safe_text import redacted_errors
from ticdc_assets.sensors.alert import alert_sensors, format_line, join_lines, post
from ticdc_assets.sensors.new_tables import RELOAD
from ticdc_assets.views.status import (
    Lag,
    SourceState,
    judge,
    read_lake_progress,
)

_SECONDS_BETWEEN_TICKS = 60
# Twice as long, with the time to post, fits into a tick, which Dagster ends after a minute.
_PATIENCE = 15.0


class _Episode(msgspec.Struct):
    """Since when a changefeed has been behind, and which of its states were posted."""

    since: float
    posted: list[str] = []


class _Known(msgspec.Struct):
    """What the cursor knows: changefeeds that are behind, and sensors that are switched off."""

    behind: dict[str, _Episode] = {}
    off: list[str] = []


_decode = msgspec.json.Decoder(_Known).decode


def lag_sensors(feeds: Collection[Changefeed]) -> list[dg.SensorDefinition]:
    """Return the sensor that alerts of lag, if a webhook is configured."""
    max_lag = read_max_lag()
    watched = alert_sensors()
    if not watched:
        return []
    names = [
        *(f"{identifier(feed.id)}_checkpoint" for feed in feeds),
        *(RELOAD, *(sensor.name for sensor in watched)),
    ]
    caller = PatientCaller(_PATIENCE)

    @dg.sensor(
        name="alert_on_lag",
        description=f"Posts to the webhook when a changefeed lags more than"
        f" {format_seconds(max_lag)} behind, or a sensor is switched off; and when that is over.",
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"lake"},
    )
    def _sensor(context: dg.SensorEvaluationContext, **_: object) -> dg.SensorResult:
        # A direct call, as in a test, also passes resources by name.
        lake: LakeResource = context.resources.lake
        with redacted_errors():
            lags = find_lags(feeds, lake.root, max_lag, caller)
            return _evaluate(context, lags, find_switched_off(context, names), max_lag)

    return [_sensor]


def find_lags(
    feeds: Iterable[Changefeed], root: str, max_lag: float, caller: PatientCaller
) -> dict[str, Lag]:
    """Find how far changefeeds are behind; sources are read of those that are late only."""
    by_id = {feed.id: feed for feed in feeds}
    lakes = read_lake_states(by_id.values(), root, caller, read_lake_progress)
    lags = {id: judge(SourceState(), lakes[id], max_lag) for id in by_id}
    doubtful = [feed for id, feed in by_id.items() if lags[id].is_late or not has_watermarks(feed)]
    sources = read_source_states(doubtful, root, lakes, caller, max_lag)
    return lags | {id: judge(source, lakes[id], max_lag) for id, source in sources.items()}


def find_switched_off(context: dg.SensorEvaluationContext, names: Collection[str]) -> list[str]:
    """Find which sensors of this code location a person has switched off."""
    origin = context.code_location_origin
    return sorted(
        state.instigator_name
        for state in context.instance.all_instigator_state()
        if state.instigator_type.value == "SENSOR"
        and state.status.value == "STOPPED"
        and state.instigator_name in names
        and (origin is None or state.repository_selector.location_name == origin.location_name)
    )


def _evaluate(
    context: dg.SensorEvaluationContext, lags: Mapping[str, Lag], off: Sequence[str], max_lag: float
) -> dg.SensorResult:
    """Post what is new, and remember it."""
    known = _read_cursor(context.cursor)
    behind = _follow(known.behind, lags, max_lag, time.time())
    lines = [
        *_list_changes(known.behind, behind, lags),
        *(f"sensor {name} is switched off" for name in off if name not in known.off),
        *(f"sensor {name} is switched on again" for name in known.off if name not in off),
    ]
    if lines:
        post(read_webhook(), join_lines([format_line(line) for line in lines]))
    late = [f"{id} is {lags[id].state}" for id in behind]
    states = [*late, *(f"sensor {name} is switched off" for name in off)]
    return dg.SensorResult(
        skip_reason="; ".join(states) or "every changefeed is up to date, every sensor is on",
        cursor=msgspec.json.encode(_Known(behind, list(off))).decode(),
    )


def _read_cursor(cursor: str | None) -> _Known:
    try:
        return _decode(cursor or "{}")
    except msgspec.MsgspecError:
        # A person can set it.
        return _Known()


def _follow(
    known: Mapping[str, _Episode], lags: Mapping[str, Lag], max_lag: float, now: float
) -> dict[str, _Episode]:
    """Return the episodes as they are now, with the states that are to be posted, or were.

    What does not say by itself how long it has lasted has to last as long as the limit.
    """
    behind = {}
    for id, lag in lags.items():
        if not lag.is_late:
            continue
        before = known.get(id, _Episode(now))
        # A clock that was set back starts it anew.
        since = min(before.since, now)
        has_lasted = lag.seconds is not None or now - since >= max_lag
        posted = before.posted
        if has_lasted and lag.state not in posted:
            posted = [*posted, lag.state]
        behind[id] = _Episode(since, posted)
    return behind


def _list_changes(
    before: Mapping[str, _Episode], now: Mapping[str, _Episode], lags: Mapping[str, Lag]
) -> Iterator[str]:
    for id, lag in lags.items():
        was, posted = before.get(id, _Episode(0)).posted, now.get(id, _Episode(0)).posted
        if len(posted) > len(was):
            size = "" if lag.seconds is None else f" (lag: {format_seconds(lag.seconds)})"
            yield f"changefeed {id}: {lag.state}{size}: {lag.reason}"
        elif was and id not in now:
            yield f"changefeed {id}: up to date again"
