"""Convert events to rows of the `events` table, and back.

A row holds every field of its event.  Arrow texts cannot hold lone surrogates: in names U+FFFD
replaces them; images and statements are JSON, where they are escaped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, cast

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import (
    Bootstrap,
    Checksum,
    Event,
    FilePosition,
    Op,
    Ordering,
    Position,
    Quarantined,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.schema.inference import sort_observed_columns
from ticdc_assets.store.arrow import arrow_schema, make_array
from ticdc_assets.store.contracts import EVENTS
from ticdc_assets.store.sql import quote_identifier

SCHEMA = arrow_schema(EVENTS)
_CHECKSUM = SCHEMA.field("checksum").type
# The fields of a row change that are columns of the same name.
_ROW_FIELDS = (
    *("database", "table", "op", "commit_ts", "ordering", "before", "after"),
    *("schema_version", "table_id", "observed", "key_columns", "handle_key_only"),
    *("member_names", "checksum", "build_ts", "claim_check_digest"),
)
_ROW_FIELD_GETTERS = {name: attrgetter(name) for name in _ROW_FIELDS}


class Arrival(Struct, frozen=True, gc=False):
    """An event and the input it came from."""

    batch: int
    seq: int
    # The event's index in its record, or the number of its record in a file.
    event_index: int
    event: Event


@lru_cache(maxsize=4096)
def make_table_name(database: str, table: str) -> str | None:
    """Name a table uniquely, by its names as TiDB compares them; None if there is no table."""
    return (
        f"{quote_identifier(fold_name(database))}.{quote_identifier(fold_name(table))}"
        if table
        else None
    )


def to_arrow(arrivals: Sequence[Arrival]) -> Iterator[pa.RecordBatch]:
    """Convert events to rows; an event with a value that no column can hold is quarantined."""
    try:
        yield from list(_make_batches(arrivals))
        return
    except (OverflowError, pa.ArrowException):
        pass
    for arrival in arrivals:
        try:
            yield from list(_make_batches([arrival]))
        except (OverflowError, pa.ArrowException) as error:
            reason = MalformedMessage(f"a value is out of range: {error}")
            event = Quarantined.from_error(reason, arrival.event.position)
            yield from _make_batches([replace(arrival, event=event)])


def make_batch(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Make rows of the events table from their columns that are not null."""
    return pa.RecordBatch.from_arrays(
        [make_array([row.get(field.name) for row in rows], field.type) for field in SCHEMA],
        schema=SCHEMA,
    )


def read_statements(rows: Iterable[Mapping[str, Any]]) -> list[SchemaChange | Bootstrap]:
    """Read rows of the kinds `ddl` and `bootstrap` back as events."""
    return [
        read_json(row["statement"], SchemaChange)
        if row["kind"] == "ddl"
        else read_json(row["statement"], Bootstrap)
        for row in rows
    ]


def read_row_change(row: Mapping[str, Any]) -> RowChange:
    """Read a row of the kind `row` back as an event."""
    checksum, keys = row["checksum"], row["key_columns"]
    return RowChange(
        op=Op(row["op"]),
        commit_ts=row["commit_ts"],
        database=row["database"],
        table=row["table"],
        position=read_position(row),
        before=row["before"],
        after=row["after"],
        ordering=cast("Ordering", row["ordering"]),
        table_id=row["table_id"],
        schema_version=row["schema_version"],
        observed=row["observed"],
        key_columns=None if keys is None else tuple(keys),
        handle_key_only=row["handle_key_only"],
        upstream=row["statement"],
        member_names=row["member_names"],
        checksum=None if checksum is None else Checksum(**_get_fields(checksum)),
        build_ts=row["build_ts"],
        claim_check_digest=row["claim_check_digest"],
    )


def _get_fields(checksum: Any) -> dict[str, Any]:
    """Return a checksum's fields, whether it is a mapping or a Spark row."""
    return dict(checksum) if isinstance(checksum, Mapping) else dict(checksum.asDict())


def read_position(row: Mapping[str, Any]) -> Position:
    """Read the position of a row of the kind `row`."""
    if row["partition"] is None:
        return FilePosition(row["source"], row["number"])
    return TopicPosition(row["source"], row["partition"], row["number"], row["index"])


def _make_batches(arrivals: Sequence[Arrival]) -> Iterator[pa.RecordBatch]:
    changes = [a for a in arrivals if type(a.event) is RowChange]
    if changes:
        yield _make_row_changes(changes)
    if len(changes) < len(arrivals):
        yield make_batch([_make_other_row(a) for a in arrivals if type(a.event) is not RowChange])


def _make_row_changes(arrivals: Sequence[Arrival]) -> pa.RecordBatch:
    count = len(arrivals)
    events = cast("list[RowChange]", [arrival.event for arrival in arrivals])
    columns: dict[str, Sequence[Any]] = {
        "batch": [arrival.batch for arrival in arrivals],
        "seq": [arrival.seq for arrival in arrivals],
        "index": [arrival.event_index for arrival in arrivals],
    }
    columns |= {name: list(map(get, events)) for name, get in _ROW_FIELD_GETTERS.items()}
    columns["name"] = [
        make_table_name(*names) for names in zip(columns["database"], columns["table"], strict=True)
    ]
    columns["statement"] = [event.upstream for event in events]
    columns["observed"] = [o and sort_observed_columns(o) for o in columns["observed"]]
    columns.update(_make_positions([event.position for event in events]))
    arrays = []
    for field in SCHEMA:
        if field.name == "kind":
            arrays.append(pa.repeat(pa.scalar("row", pa.string()), count))
        elif field.name == "checksum":
            arrays.append(_make_checksums(columns["checksum"]))
        elif field.name in columns:
            arrays.append(make_array(columns[field.name], field.type))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _make_positions(positions: list[Position]) -> dict[str, Sequence[Any]]:
    of_topics = [isinstance(p, TopicPosition) for p in positions]
    if all(of_topics):
        topics = cast("list[TopicPosition]", positions)
        return {
            "source": [p.topic for p in topics],
            "partition": [p.partition for p in topics],
            "number": [p.offset for p in topics],
        }
    places = [_make_position(p) for p in positions]
    return {name: [place.get(name) for place in places] for name in ("source", "number")}


def _make_position(position: Position) -> dict[str, Any]:
    if isinstance(position, TopicPosition):
        place = {"source": position.topic, "partition": position.partition}
        return {**place, "number": position.offset}
    return {"source": position.path, "number": position.record}


def _make_checksums(values: Sequence[Checksum | None]) -> pa.Array:
    if not any(values):
        return pa.nulls(len(values), _CHECKSUM)
    return pa.array([v and msgspec.structs.asdict(v) for v in values], _CHECKSUM)


def _make_other_row(arrival: Arrival) -> dict[str, Any]:
    """Make the row of any event but a row change, without its nulls."""
    event = arrival.event
    row: dict[str, Any] = {"batch": arrival.batch, "seq": arrival.seq, "index": arrival.event_index}
    row |= _make_position(event.position)
    match event:
        case SchemaChange():
            row |= {"kind": "ddl", "commit_ts": event.commit_ts, "ordering": event.ordering}
            row |= _make_names(event.database, event.table)
            row |= {"build_ts": event.build_ts, "statement": write_json(event)}
            if event.schema is not None:
                row |= _make_version(event.schema)
        case Bootstrap(schema=schema):
            row |= {"kind": "bootstrap", **_make_names(schema.database, schema.table)}
            row |= _make_version(schema)
            row |= {"build_ts": event.build_ts, "statement": write_json(event)}
        case Watermark():
            row |= {"kind": "watermark", "commit_ts": event.ts, "build_ts": event.build_ts}
        case Quarantined():
            row |= {"kind": "quarantined", "error": event.error, "statement": event.reason}
    return row


def _make_version(schema: TableSchema) -> dict[str, Any]:
    return {"schema_version": schema.version, "table_id": schema.table_id}


def _make_names(database: str, table: str) -> dict[str, Any]:
    return {"database": database, "table": table, "name": make_table_name(database, table)}
