"""Decode the control files of a folder, schema files and the checkpoint, on the driver.

They are few and small, `raw` holds their contents, and data files cannot be read without them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

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
from ticdc_assets.lake.events.decode_workers import FolderReader, keep_greatest_watermark
from ticdc_assets.lake.events.pending_files import RawFile
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.registry import make_file_decoder
from ticdc_assets.store.event_rows import Arrival
from ticdc_assets.stream.reading import read_checkpoint, read_schema_events
from ticdc_assets.stream.schema_versions import TableVersion

# Finds the schemas of table versions, given the statements that are not in `events` yet.
FindSchemas = Callable[
    [Collection[TableVersion], list[SchemaChange | Bootstrap]], Mapping[TableVersion, TableSchema]
]

# The bytes of a data file that are read first to find its table; more if they do not name it.
_HEAD_BYTES = 64 << 10


def decode_control_files(rows: Iterable[RawFile]) -> list[Arrival]:
    """Decode the rows of `raw` that are not data files, in their order; keep one checkpoint."""
    arrivals: list[Arrival] = []
    checkpoints: dict[tuple[str, int | None], Arrival] = {}
    for row in rows:
        for index, event in enumerate(_decode_control_file(row)):
            arrival = Arrival(row["batch"], row["seq"], index, event)
            if row["role"] == "metadata" and not isinstance(event, Quarantined):
                keep_greatest_watermark(checkpoints, arrival)
            else:
                arrivals.append(arrival)
    return [*arrivals, *checkpoints.values()]


def _decode_control_file(row: RawFile) -> Iterable[Event]:
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
    """Finds the table of each CSV file: from its path, or else from its first record."""

    def __init__(self, feed: Changefeed, folder: FolderReader) -> None:
        decoder = make_file_decoder(feed)
        self._decoder = decoder if isinstance(decoder, CsvDecoder) else None
        self._has_id_paths = feed.use_table_id_as_path
        self._folder = folder
        self._names_by_id: dict[tuple[int, int], tuple[str, str]] = {}

    def need_schemas(self) -> bool:
        """Return whether files can only be read with their table's schema."""
        return self._decoder is not None

    def find_version(self, row: RawFile) -> TableVersion | None:
        """Find a file's table version; None if no record names the table.  Raise `OSError`."""
        if self._has_id_paths:
            # A table has one id, and one name per version.
            key = row["table_id"], row["version"]
            names = self._names_by_id.get(key)
            if names is None:
                names = self._read_first_names(row)
                if names is not None:
                    self._names_by_id[key] = names
        elif "/" in row["table"]:
            names = self._read_first_names(row)
        else:
            names = row["database"], row["table"]
        return None if names is None else (*names, row["version"])

    def _read_first_names(self, row: RawFile) -> tuple[str, str] | None:
        if self._decoder is None:
            return None
        size = _HEAD_BYTES
        while True:
            head = self._folder.head(row["path"], size)
            # The last record may be cut off; within a record the names come before the values.
            names = self._decoder.table_of(head)
            if names is not None or len(head) < size:
                return names
            size *= 16
