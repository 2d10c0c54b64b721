"""Events as rows of the `events` table, and back.

Everything an event says is in its row.  Arrow texts hold no lone surrogates: names that do are
written with U+FFFD in their place; images and statements are JSON, where they are escaped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, cast

import msgspec
import pyarrow as pa

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
from ticdc_assets.events.table_schema import folded
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.lake.store.arrow_text import array
from ticdc_assets.lake.store.sql import quote_identifier

_CHECKSUM = pa.struct(
    [
        ("version", pa.int32()),
        ("corrupted", pa.bool_()),
        ("current", pa.int64()),
        ("previous", pa.int64()),
    ]
)
# The columns of `tables.EVENTS`.
SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("seq", pa.int64()),
        ("index", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("database", pa.string()),
        ("table", pa.string()),
        ("op", pa.string()),
        ("commit_ts", pa.int64()),
        ("ordering", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("schema_version", pa.int64()),
        ("table_id", pa.int64()),
        ("observed", pa.string()),
        ("columns", pa.string()),
        ("key_columns", pa.list_(pa.string())),
        ("handle_key_only", pa.bool_()),
        ("member_names", pa.bool_()),
        ("checksum", _CHECKSUM),
        ("build_ts", pa.int64()),
        ("claim_check_digest", pa.string()),
        ("source", pa.string()),
        ("partition", pa.int32()),
        ("number", pa.int64()),
        ("statement", pa.string()),
        ("error", pa.string()),
    ]
)
# What the columns of a row change are read from, in this order.
_OF_ROW = (
    *("database", "table", "op", "commit_ts", "ordering", "before", "after"),
    *("schema_version", "table_id", "observed", "key_columns", "handle_key_only"),
    *("member_names", "checksum", "build_ts", "claim_check_digest"),
)
_of_row = attrgetter(*_OF_ROW)


class Arrival(NamedTuple):
    """An event and the input it came of."""

    batch: int
    seq: int
    # In a record the event's place in it, in a file the record.
    place: int
    event: Event


@lru_cache(maxsize=4096)
def table_name(database: str, table: str) -> str | None:
    """What tells tables apart: the names as TiDB compares them; None where no table is named."""
    return (
        f"{quote_identifier(folded(database))}.{quote_identifier(folded(table))}" if table else None
    )


def to_arrow(arrivals: Sequence[Arrival]) -> Iterator[pa.RecordBatch]:
    """Write events as rows; what a column cannot hold makes its event a rejected one."""
    try:
        yield from list(_batches(arrivals))
        return
    except (OverflowError, pa.ArrowException):
        pass
    for arrival in arrivals:
        try:
            yield from list(_batches([arrival]))
        except (OverflowError, pa.ArrowException) as error:
            reason = MalformedMessage(f"a value is out of range: {error}")
            event = Quarantined.from_error(reason, arrival.event.position)
            yield from _batches([arrival._replace(event=event)])


def from_dicts(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows of the events table from what is not null in them."""
    return pa.RecordBatch.from_arrays(
        [array([row.get(field.name) for row in rows], field.type) for field in SCHEMA],
        schema=SCHEMA,
    )


def statements(rows: Iterable[Mapping[str, Any]]) -> list[SchemaChange | Bootstrap]:
    """The events of the kinds `ddl` and `bootstrap`, as they were."""
    return [
        read_json(row["statement"], SchemaChange)
        if row["kind"] == "ddl"
        else read_json(row["statement"], Bootstrap)
        for row in rows
    ]


def row_change(row: Mapping[str, Any]) -> RowChange:
    """The event of a row of kind `row`, as it was."""
    checksum, keys = row["checksum"], row["key_columns"]
    return RowChange(
        op=Op(row["op"]),
        commit_ts=row["commit_ts"],
        database=row["database"],
        table=row["table"],
        position=_position(row),
        before=row["before"],
        after=row["after"],
        ordering=cast("Ordering", row["ordering"]),
        table_id=row["table_id"],
        schema_version=row["schema_version"],
        observed=row["observed"],
        key_columns=None if keys is None else tuple(keys),
        handle_key_only=row["handle_key_only"],
        member_names=row["member_names"],
        checksum=None if checksum is None else Checksum(**_fields(checksum)),
        build_ts=row["build_ts"],
        claim_check_digest=row["claim_check_digest"],
    )


def _fields(checksum: Any) -> dict[str, Any]:
    """The checksum as a mapping, be it one or a row of Spark's."""
    return dict(checksum) if isinstance(checksum, Mapping) else dict(checksum.asDict())


def _position(row: Mapping[str, Any]) -> Position:
    if row["partition"] is None:
        return FilePosition(row["source"], row["number"])
    return TopicPosition(row["source"], row["partition"], row["number"], row["index"])


def _batches(arrivals: Sequence[Arrival]) -> Iterator[pa.RecordBatch]:
    changes = [a for a in arrivals if type(a.event) is RowChange]
    if changes:
        yield _row_changes(changes)
    if len(changes) < len(arrivals):
        yield from_dicts([_other(a) for a in arrivals if type(a.event) is not RowChange])


def _row_changes(arrivals: Sequence[Arrival]) -> pa.RecordBatch:
    count = len(arrivals)
    batch, seq, index, events = zip(*arrivals, strict=True)
    columns: dict[str, Sequence[Any]] = {"batch": batch, "seq": seq, "index": index}
    columns.update(zip(_OF_ROW, zip(*map(_of_row, events), strict=True), strict=True))
    columns["name"] = [
        table_name(*names) for names in zip(columns["database"], columns["table"], strict=True)
    ]
    columns["observed"] = [None if o is None else canonical(o) for o in columns["observed"]]
    columns.update(_positions([event.position for event in events]))
    arrays = []
    for field in SCHEMA:
        if field.name == "kind":
            arrays.append(pa.repeat(pa.scalar("row", pa.string()), count))
        elif field.name == "checksum":
            arrays.append(_checksums(columns["checksum"]))
        elif field.name in columns:
            arrays.append(array(columns[field.name], field.type))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _positions(positions: list[Position]) -> dict[str, Sequence[Any]]:
    of_topics = [isinstance(p, TopicPosition) for p in positions]
    if all(of_topics):
        topics = cast("list[TopicPosition]", positions)
        return {
            "source": [p.topic for p in topics],
            "partition": [p.partition for p in topics],
            "number": [p.offset for p in topics],
        }
    places = [_place_columns(p) for p in positions]
    return {name: [place.get(name) for place in places] for name in ("source", "number")}


def _place_columns(position: Position) -> dict[str, Any]:
    if isinstance(position, TopicPosition):
        place = {"source": position.topic, "partition": position.partition}
        return {**place, "number": position.offset}
    return {"source": position.path, "number": position.record}


def _checksums(values: Sequence[Checksum | None]) -> pa.Array:
    if not any(values):
        return pa.nulls(len(values), _CHECKSUM)
    return pa.array([v and msgspec.structs.asdict(v) for v in values], _CHECKSUM)


def _other(arrival: Arrival) -> dict[str, Any]:
    """The row of any event but a row change, without its nulls."""
    event = arrival.event
    row: dict[str, Any] = {"batch": arrival.batch, "seq": arrival.seq, "index": arrival.place}
    row |= _place_columns(event.position)
    match event:
        case SchemaChange():
            row |= {"kind": "ddl", "commit_ts": event.commit_ts, "ordering": event.ordering}
            row |= _named(event.database, event.table)
            row |= {"build_ts": event.build_ts, "statement": write_json(event)}
            if event.schema is not None:
                row |= _version(event.schema)
        case Bootstrap(schema=schema):
            row |= {"kind": "bootstrap", **_named(schema.database, schema.table)}
            row |= _version(schema)
            row |= {"build_ts": event.build_ts, "statement": write_json(event)}
        case Watermark():
            row |= {"kind": "watermark", "commit_ts": event.ts, "build_ts": event.build_ts}
        case Quarantined():
            row |= {"kind": "quarantined", "error": event.error, "statement": event.reason}
    return row


def _version(schema: TableSchema) -> dict[str, Any]:
    return {"schema_version": schema.version, "table_id": schema.table_id}


def _named(database: str, table: str) -> dict[str, Any]:
    return {"database": database, "table": table, "name": table_name(database, table)}


@lru_cache(maxsize=4096)
def canonical(observed: str) -> str:
    """`observed` with its columns sorted: servers write them in any order."""
    try:
        return _encode(_decode(observed)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return observed


_decode = msgspec.json.Decoder(dict[str, str | None]).decode
_encode = msgspec.json.Encoder(order="sorted").encode
