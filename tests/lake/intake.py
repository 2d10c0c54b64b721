"""Ingest golden data into a lake and read its events back, to compare them with the reference."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace
from pyarrow import fs
from pyspark.sql import SparkSession

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import (
    Bootstrap,
    Event,
    FilePosition,
    Quarantined,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.lake.events.decode_folder import decode_folder
from ticdc_assets.lake.events.decode_topic import TopicDecode
from ticdc_assets.lake.events.event_commits import DecodeResult
from ticdc_assets.lake.raw.ingest_folder import ingest_folder
from ticdc_assets.lake.raw.ingest_records import IngestResult, ingest_records
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.storage import Folder, open_claim_check_folder
from ticdc_assets.store import event_rows
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.store.tables import create_tables
from ticdc_assets.stream.schema_versions import complete_schema_versions


class Intake:
    """A lake of one changefeed, and its source."""

    def __init__(self, spark: SparkSession, root: Path, feed: Changefeed) -> None:
        self.spark = spark
        self.feed = feed
        self.lake = LakeSession(spark, Lake(str(root / "lake"), "golden"), feed)
        self.folder = root / "folder"
        self.folder.mkdir(parents=True, exist_ok=True)
        create_tables(self.lake)

    def put(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(content)

    def open_folder(self) -> Folder:
        return Folder(fs.LocalFileSystem(), str(self.folder))

    def ingest(
        self, records: Iterable[Message | Quarantined] = (), **settings: int
    ) -> IngestResult:
        if self.feed.transport == "storage":
            return ingest_folder(self.lake, self.open_folder(), **settings)
        return ingest_records(self.lake, lambda _: records, **settings)

    def decode(self, since: int = 0) -> DecodeResult:
        if self.feed.transport != "storage":
            open_payloads = partial(open_claim_check_folder, self.feed)
            return TopicDecode(self.lake, open_payloads, since=since).finish()
        open_folder = partial(Folder, fs.LocalFileSystem(), str(self.folder))
        return decode_folder(self.lake, open_folder, self._find_schemas, since=since)

    def _find_schemas(
        self, wanted: object, fresh: list[SchemaChange | Bootstrap]
    ) -> Mapping[tuple[str, str, int], TableSchema]:
        events = read_table(self.lake, "events").where("kind IN ('ddl', 'bootstrap')")
        known = event_rows.read_statements(events.select("kind", "statement").collect())
        return complete_schema_versions([*known, *fresh], self.feed.keys)

    def events(self) -> list[Event]:
        rows = read_table(self.lake, "events").toArrow().to_pylist()
        return [event for row in rows if (event := _event(row)) is not None]

    def count(self, table: str) -> int:
        return read_table(self.lake, table).count()


def _event(row: dict) -> Event | None:
    match row["kind"]:
        case "row":
            return event_rows.read_row_change(row)
        case "ddl" | "bootstrap":
            return event_rows.read_statements([row])[0]
    if row["partition"] is None:
        position = FilePosition(row["source"], row["number"] or 0)
    else:
        position = TopicPosition(row["source"], row["partition"], row["number"], row["index"])
    match row["kind"]:
        case "watermark":
            return Watermark(ts=row["commit_ts"], position=position, build_ts=row["build_ts"])
        case "quarantined":
            return Quarantined(position=position, error=row["error"], reason=row["statement"])
    return None


def count_events(events: Iterable[Event]) -> Counter[bytes]:
    """Count events by a text that identifies them; of watermarks count the greatest only."""
    resolved: dict[tuple[str, ...], int] = {}
    others: Counter[bytes] = Counter()
    for event in events:
        if isinstance(event, Watermark):
            position = event.position
            is_topic = isinstance(position, TopicPosition)
            place = ("topic", position.topic, str(position.partition)) if is_topic else ()
            resolved[place] = max(event.ts, resolved.get(place, 0))
            continue
        if isinstance(event, RowChange) and event.observed is not None:
            columns = json.loads(event.observed)
            event = replace(event, observed=str(sorted(columns.items())))
        others[type(event).__name__.encode() + msgspec.json.encode(event)] += 1
    marks = {f"{place} {ts}".encode(): 1 for place, ts in resolved.items()}
    return others + Counter(marks)
