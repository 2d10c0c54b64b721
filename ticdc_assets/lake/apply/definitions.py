"""Fetch how upstream defines the tables of which the changefeed sent no CREATE.

`plan.definitions` says which, and at which ts.  Whoever applies them from the lake's `definitions`
needs no upstream.

A run never fails for want of a definition: it goes on as without, and the next one tries again.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ticdc_assets.errors import CONTENT_ERRORS, ConfigError, describe_content_error
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.control_events import ControlEvents, find_definitions
from ticdc_assets.lake.events.large_rows import find_obstacle
from ticdc_assets.log.definitions import append_definitions
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.definitions import Definition, Wanted, find_wanted, want_before
from ticdc_assets.protocols.registry import get_ordering
from ticdc_assets.schema.catalog import key_of
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.stream.ordering import place_row
from ticdc_assets.stream.problem import Problem
from ticdc_assets.stream.routing import passes_filter
from ticdc_assets.upstream.ddl_jobs import explain_hidden_jobs
from ticdc_assets.upstream.definition import read_definition, read_definition_at
from ticdc_assets.upstream.snapshot import (
    OpenUpstream,
    RowsUnreadable,
    SnapshotTooOld,
    TableUnreadable,
    UpstreamRows,
)

_NOT_READ = "its definition could not be read upstream, so its schema is what the stream shows: "
_NONE_READ = "definitions of tables could not be read upstream; the next run tries again: "
_LOGICAL = (1 << 18) - 1


def fetch_definitions(
    lake: LakeSession, since: Snapshot, control: ControlEvents, open_upstream: OpenUpstream
) -> tuple[ControlEvents, list[Problem]]:
    """Read the definitions that a window needs and the lake lacks, keep them, and add them."""
    feed, end = lake.feed, control.resolved_ts
    if find_obstacle(feed) is not None:
        return control, []
    pending = {key_of(d.schema) for d in (*control.definitions, *control.late_definitions)}
    changes = [c for c in (*control.ddls, *control.late_ddls) if c.commit_ts <= end]
    found = find_wanted(since.state, changes, _find_first_rows(lake, since, control))
    # DDLs of the resolved ts itself may still arrive, and come before a definition of that ts.
    newest = end - 1 if control.more_may_come else end
    wanted = [
        each
        for key, each in sorted(found.items())
        if each.ts <= newest
        and key not in pending
        and passes_filter(feed, each.database, each.table)
    ]
    if not wanted:
        return control, []
    problems = _fetch(lake, wanted, open_upstream)
    return dataclasses.replace(control, **find_definitions(lake, since.state)), problems


def _fetch(
    lake: LakeSession, wanted: Iterable[Wanted], open_upstream: OpenUpstream
) -> list[Problem]:
    # An event that states milliseconds may be of any moment in them.
    within = _LOGICAL if get_ordering(lake.feed) == "milliseconds" else 0
    definitions: list[Definition] = []
    problems: list[Problem] = []
    try:
        with open_upstream() as upstream:
            if not upstream.is_tidb:
                # No other database shows a definition at a ts.
                return []
            hidden = explain_hidden_jobs(upstream.query)
            if hidden is not None:
                problems.append(Problem("definition", hidden))
            for each in wanted:
                read = _read(upstream, each, each.ts | within, sees_ddl=hidden is None)
                if isinstance(read, TableSchema):
                    schema, now = replace(read, version=each.version), datetime.now(UTC)
                    definitions.append(Definition(id=0, ts=each.ts, schema=schema, read_at=now))
                elif read is not None:
                    name = each.database, each.table
                    problems.append(Problem("definition", _NOT_READ + read, *name, each.ts))
    except ConfigError as error:
        problems.append(Problem("definition", _NONE_READ + str(error)))
    if definitions:
        append_definitions(lake, definitions)
    return problems


def _read(
    upstream: UpstreamRows, wanted: Wanted, ts: int, *, sees_ddl: bool
) -> TableSchema | str | None:
    """Read a definition, or say why it cannot be read; None if it is gone and may be."""
    database, table = wanted.database, wanted.table
    try:
        if sees_ddl:
            return read_definition_at(upstream, database, table, ts)
        upstream.read_at(ts)
        return read_definition(upstream.query, database, table)
    except SnapshotTooOld as error:
        # A table that only this window shows is followed from the next one on.
        return str(error) if wanted.is_followed else None
    except (RowsUnreadable, TableUnreadable) as error:
        return str(error)
    except CONTENT_ERRORS as error:
        return describe_content_error(error)


def _find_first_rows(
    lake: LakeSession, since: Snapshot, control: ControlEvents
) -> Iterator[Wanted]:
    """Find the first row of each table among those that the next window, or a replay, applies."""
    commit_ts = pc.field("commit_ts")
    is_new = (pc.field("batch") > since.batch) | (commit_ts > since.ts)
    unknown = [make_table_name(u.database, u.table) for u in since.state.unknown_tables]
    if unknown:
        is_new |= pc.field("name").isin(unknown)
    names = ("database", "table", "schema_version", "ordering")
    where = (pc.field("kind") == "row") & (commit_ts <= control.resolved_ts) & is_new
    # Those below a fold are not applied.
    where &= ~control.fold.is_below(pc.field)
    blocks = control.events.read_blocks("events", *names, "commit_ts", where=where)
    # There may be many rows of few tables.
    firsts = pa.concat_tables(_find_least(block, names, "commit_ts") for block in blocks)
    # In a folder, a schema file states each version.
    states_version = lake.feed.transport != "storage"
    for row in _find_least(firsts, names, "commit_ts").to_pylist():
        version = row["schema_version"] if states_version else None
        place = place_row(row["commit_ts"], row["ordering"], since.ts)
        yield want_before(place, row["database"], row["table"], version)


def _find_least(rows: pa.Table, names: Sequence[str], number: str) -> pa.Table:
    """Return the least number of every combination of other columns."""
    found = rows.group_by(names).aggregate([(number, "min")])
    return found.rename_columns({f"{number}_min": number})
