"""What checks ask of each event: facts without its row images, computed where the images are."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import FETCHED, row_image
from ticdc_assets.events.written import read_json
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import EVENT_IDENTITY
from ticdc_assets.store.event_rows import read_position

_KEPT = (
    *("batch", "seq", "index", "kind", "name", "database", "table", "op", "commit_ts"),
    *("ordering", "schema_version", "source", "partition", "number"),
)
EVENT_COLUMNS = (*_KEPT, "before", "after", "observed", "key_columns", "statement", "checksum")
EVENT_FACTS = """
    batch bigint,
    seq bigint,
    index bigint,
    kind string,
    name string,
    database string,
    table string,
    op string,
    commit_ts bigint,
    ordering string,
    schema_version bigint,
    source string,
    partition int,
    number bigint,
    position string,              -- of a row event
    is_pending boolean,           -- whether the range had the row to apply
    incarnation string,           -- the table to which it had to apply it
    has_old boolean,
    has_new boolean,
    has_observed boolean,
    missing_key_columns string,   -- columns of the handle key that a pending row has no value for
    column_counts_differ boolean, -- of a pending update, between its images
    is_corrupted boolean,         -- of a pending row: TiCDC's own verdict on its checksum
    digest bigint,                -- equal for repetitions of a row event
    sql string                    -- of a DDL
"""
DIGEST_COLUMNS = ("batch", *EVENT_IDENTITY)
EVENT_DIGESTS = "batch bigint, name string, commit_ts bigint, digest bigint"
_FACTS, _DIGESTS = arrow_schema(EVENT_FACTS), arrow_schema(EVENT_DIGESTS)
_COMPUTED = pa.schema([field for field in _FACTS if field.name not in _KEPT])


class _Statement(msgspec.Struct):
    """Of a `SchemaChange`, what checks show."""

    sql: str


class NameInterval(NamedTuple):
    """Which incarnation bore a name after one DDL ts, up to and including another."""

    incarnation: str
    low: int
    high: int | None
    key: tuple[str, ...]


@dataclass(frozen=True)
class FactReader:
    """Reads the facts of events for a range after one ts and batch up to another ts."""

    after_batch: int
    after_ts: int
    ts: int
    intervals: Mapping[str, list[NameInterval]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            read = pa.RecordBatch.from_pylist([*map(self._read, batch.to_pylist())], _COMPUTED)
            columns = [*map(batch.column, _KEPT), *read.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=_FACTS)

    def _read(self, event: Mapping[str, Any]) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "is_pending": False,
            "has_old": event["before"] is not None,
            "has_new": event["after"] is not None,
            "has_observed": event["observed"] is not None,
        }
        if event["kind"] == "ddl":
            return facts | {"sql": read_json(event["statement"], _Statement).sql}
        if event["kind"] != "row":
            return facts
        interval = self._find_interval(event)
        facts |= {
            "position": str(read_position(event)),
            "digest": compute_digest(event),
            "incarnation": interval and interval.incarnation,
        }
        ts, is_new = event["commit_ts"], event["batch"] > self.after_batch
        if ts > self.ts or not (is_new or ts > self.after_ts):
            return facts
        key = event["key_columns"] or (interval and interval.key) or ()
        old, new = (_read_image(event[image]) for image in ("before", "after"))
        image = old if event["op"] == "delete" else new
        missing = [] if image is None else _list_missing(key, image)
        # Of a row that was fetched from upstream, the old row may hold the handle key only.
        is_whole_update = event["op"] == "update" and event["statement"] != FETCHED
        differ = is_whole_update and old is not None and new is not None and len(old) != len(new)
        return facts | {
            "is_pending": True,
            "missing_key_columns": ", ".join(missing) if missing else None,
            "column_counts_differ": differ,
            "is_corrupted": event["checksum"] is not None and event["checksum"]["corrupted"],
        }

    def _find_interval(self, event: Mapping[str, Any]) -> NameInterval | None:
        # Rows ordered by table version follow its DDL.
        order = event["commit_ts"] + (event["ordering"] == "table_version")
        return next(
            (
                each
                for each in self.intervals.get(event["name"], ())
                if each.low < order and (each.high is None or order <= each.high)
            ),
            None,
        )


def read_digests(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compute the digests of row events."""
    for batch in batches:
        rows = [
            {name: row.get(name) for name in _DIGESTS.names} | {"digest": compute_digest(row)}
            for row in batch.to_pylist()
        ]
        yield pa.RecordBatch.from_pylist(rows, _DIGESTS)


def compute_digest(event: Mapping[str, Any]) -> int:
    """Hash what identifies a row event, to compare it without its images."""
    identity = repr([event[name] for name in EVENT_IDENTITY])
    digest = hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), signed=True)


def _read_image(image: str | None) -> dict[str, str | None] | None:
    """Read a row image; None for one that is malformed: its row is in the quarantine."""
    try:
        return None if image is None else row_image.load(image)
    except MalformedMessage:
        return None


def _list_missing(key: Iterable[str], image: Mapping[str, str | None]) -> list[str]:
    """List the columns that an image has no value for, however it spells them."""
    missing = [name for name in key if image.get(name) is None]
    if not missing:
        return missing
    present = {name.lower() for name, value in image.items() if value is not None}
    return [name for name in missing if name.lower() not in present]
