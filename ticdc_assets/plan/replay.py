"""Which tables a replay is about: those asked for, and all that cannot be told without them."""

from collections.abc import Iterable

from msgspec.structs import replace

from ticdc_assets.events import SchemaChange
from ticdc_assets.plan.plan import Plan
from ticdc_assets.plan.state import Incarnation, State
from ticdc_assets.plan.steps import ApplyRows, Exchange
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.stream.ordering import OrderKey


def tables_fed_by(then: Plan, name: TableKey, first: OrderKey) -> set[str]:
    """The tables that take rows of this name from a place on."""
    return {
        work.incarnation
        for work in then.work.values()
        for step in work.steps
        if isinstance(step, ApplyRows)
        and step.high >= first
        and table_key(step.schema.database, step.schema.table) == name
    }


def tables_changed_by(then: Plan, change: SchemaChange) -> set[str]:
    """The tables that a DDL created, changed or ended."""
    return {
        version.incarnation
        for version in then.history
        if (version.valid_from, version.sql) == (change.commit_ts, change.sql)
        and version.incarnation
    }


def replay_targets(now: State, then: Plan, asked: Iterable[str]) -> set[str]:
    """The tables that have to be carried out if those asked for are.

    With them go tables that the replay knows otherwise than the present does, and those that
    exchange rows with any of them.
    """
    chosen = set(asked)
    for id, table in then.state.incarnations.items():
        if id not in now.incarnations or _lasting(table) != _lasting(now.incarnations[id]):
            chosen.add(id)
    while True:
        partners = {
            step.other
            for id in chosen & then.work.keys()
            for step in then.work[id].steps
            if isinstance(step, Exchange)
        }
        if partners <= chosen:
            return chosen
        chosen |= partners


def _lasting(table: Incarnation) -> Incarnation:
    """A table without what depends on where a plan began, and on rows."""
    return replace(
        table,
        stopped_ts=None,
        stopped_snapshot_id=None,
        reason=None,
        rows_in_wrong_partitions=False,
        created_ts=0,
    )
