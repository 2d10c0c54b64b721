"""Definitions as a run reads them upstream, for an engine."""

from collections.abc import Callable, Iterable

from tests.plan.engine import Engine
from ticdc_assets.events import Event, RowChange, SchemaChange, TableSchema
from ticdc_assets.plan.definitions import find_wanted, want_before
from ticdc_assets.schema.catalog import key_of
from ticdc_assets.stream.ordering import place_row

# The tables upstream at a ts.
Upstream = Callable[[int], Iterable[TableSchema]]


def read_wanted(
    engine: Engine,
    upstream: Upstream,
    sent: list[Event],
    ts: int,
    *,
    more_may_come: bool = True,
) -> list[str]:
    """Read definitions as a run does that applies what was sent up to a ts; list those missing."""
    missing: list[str] = []
    newest = ts - 1 if more_may_come else ts
    ready = [e for e in sent if getattr(e, "commit_ts", ts + 1) <= ts]
    rows = [
        want_before(
            place_row(e.commit_ts, e.ordering, engine.now.ts),
            e.database,
            e.table,
            e.schema_version,
        )
        for e in ready
        if isinstance(e, RowChange)
    ]
    changes = [e for e in ready if isinstance(e, SchemaChange) and e.commit_ts >= engine.now.ts]
    for key, wanted in find_wanted(engine.now, changes, rows).items():
        if wanted.ts > newest:
            continue
        shown = {key_of(schema): schema for schema in upstream(wanted.ts)}
        if key in shown:
            engine.define(wanted.ts, shown[key], wanted.version)
        else:
            missing.append(wanted.table)
    return missing
