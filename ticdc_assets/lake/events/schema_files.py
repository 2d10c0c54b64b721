"""What a folder says of itself: schema files and the checkpoint, decoded on the driver.

They are few and small, their contents are in `raw`, and data files cannot be read without them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import MalformedMessage, MissingFile
from ticdc_assets.events import (
    Bootstrap,
    Event,
    FilePosition,
    Quarantined,
    SchemaChange,
    TableSchema,
)
from ticdc_assets.lake.events.decode_workers import FolderReader, keep_greatest
from ticdc_assets.lake.events.event_rows import Arrival
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.registry import make_file_decoder
from ticdc_assets.stream.reading import read_checkpoint, read_schema_events

# A table at one version.
Version = tuple[str, str, int]
# Asked for the schemas of table versions, with what was stated since the last commit.
SchemasFor = Callable[
    [Collection[Version], list[SchemaChange | Bootstrap]], Mapping[Version, TableSchema]
]
Row = Mapping[str, Any]

_HEAD = 64 << 10


def control_arrivals(rows: Iterable[Row]) -> list[Arrival]:
    """The events of raw rows that are no data files, in their order."""
    arrivals: list[Arrival] = []
    checkpoints: dict[tuple[str, int | None], Arrival] = {}
    for row in rows:
        for place, event in enumerate(_events(row)):
            arrival = Arrival(row["batch"], row["seq"], place, event)
            if row["role"] == "metadata" and not isinstance(event, Quarantined):
                keep_greatest(checkpoints, arrival)
            else:
                arrivals.append(arrival)
    return [*arrivals, *checkpoints.values()]


def _events(row: Row) -> Iterable[Event]:
    path, content, problem = row["path"], row["content"], row["problem"]
    if row["role"] == "same schema":
        return ()
    if problem is not None:
        error = MissingFile if row["role"] == "metadata" else MalformedMessage
        return (Quarantined.from_error(error(problem), FilePosition(path)),)
    if row["role"] == "metadata":
        return (read_checkpoint(content),)
    return read_schema_events(path, row["checksum"], lambda _: bytes(content))


class CsvTables:
    """Which table each CSV file is of: its path says it, or else its first record."""

    def __init__(self, feed: Changefeed, folder: FolderReader) -> None:
        decoder = make_file_decoder(feed)
        self._decoder = decoder if isinstance(decoder, CsvDecoder) else None
        self._by_id = feed.use_table_id_as_path
        self._folder = folder
        self._of_ids: dict[tuple[int, int], tuple[str, str]] = {}

    def needed(self) -> bool:
        """Whether files can only be read with their table's schema."""
        return self._decoder is not None

    def version(self, row: Row) -> Version | None:
        """The table version; None if not one record says it.  Raise OSError."""
        if self._by_id:
            # One table has one id, and one name at a version.
            place = row["table_id"], row["version"]
            names = self._of_ids.get(place)
            if names is None:
                names = self._first_names(row)
                if names is not None:
                    self._of_ids[place] = names
        elif "/" in row["table"]:
            names = self._first_names(row)
        else:
            names = row["database"], row["table"]
        return None if names is None else (*names, row["version"])

    def _first_names(self, row: Row) -> tuple[str, str] | None:
        if self._decoder is None:
            return None
        size = _HEAD
        while True:
            head = self._folder.head(row["path"], size)
            # The last record may be cut off; the names stand before all that is long in one.
            names = self._decoder.table_of(head)
            if names is not None or len(head) < size:
                return names
            size *= 16
