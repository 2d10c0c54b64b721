"""From a changefeed's output to its events: a topic's records, or a folder's files in a sane order.

Nothing is opened here: records and file contents are handed in.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

from msgspec.structs import replace

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import (
    ChecksumMismatch,
    DecodeError,
    MalformedMessage,
    MissingFile,
    MissingSchema,
)
from ticdc_assets.events import (
    Bootstrap,
    Event,
    FilePosition,
    Quarantined,
    SchemaChange,
    TableSchema,
    Watermark,
)
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.message import DataFile, Message
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.protocols.registry import file_decoder, topic_decoder
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import CatalogState, SchemaCatalog
from ticdc_assets.schema.reconciliation import reconcile
from ticdc_assets.storage_sink.metadata import read_metadata
from ticdc_assets.storage_sink.path import (
    DatabaseSchemaPath,
    DataPath,
    Layout,
    TableSchemaPath,
    parse,
)
from ticdc_assets.storage_sink.schema_file import read_schema_file, to_event
from ticdc_assets.stream.ddl_order import order_ddls

_METADATA = "metadata"
# A table at one version.
_Version = tuple[str, str, int]


def read_topic_events(
    feed: Changefeed, records: Iterable[Message | Quarantined], payloads: PayloadStore | None
) -> Iterator[Event]:
    """Decode a topic's records in the order given; what is no record is passed on."""
    decoder = topic_decoder(feed, payloads)
    for record in records:
        if isinstance(record, Quarantined):
            yield record
        else:
            yield from decoder.decode(record)


def read_folder_events(
    feed: Changefeed, paths: Iterable[str], read: Callable[[str], bytes]
) -> Iterator[Event]:
    """Decode a folder: the checkpoint, then all schema files, then data files by table and number.

    `metadata` is read before the first path is asked for, so hand in a listing that is made only
    then: a checkpoint is about the files that were there before it.
    """
    yield from _checkpoint(read)
    layout = make_layout(feed)
    found = []
    for path in paths:
        parsed = parse(path, layout)
        if parsed is not None:
            found.append((path, parsed))
        elif is_named_like_data(path, layout):
            yield _rejected(path, MalformedMessage(describe_path_mismatch(layout)))
    stated: list[SchemaChange | Bootstrap] = []
    for path, parsed in sorted(found, key=lambda pair: pair[0]):
        if isinstance(parsed, TableSchemaPath | DatabaseSchemaPath):
            for event in read_schema_events(path, parsed.checksum, read):
                if not isinstance(event, Quarantined):
                    stated.append(event)
                yield event
    versions = complete_schema_versions(stated, feed.keys)
    data = [(path, parsed) for path, parsed in found if isinstance(parsed, DataPath)]
    yield from _data_events(feed, sorted(data, key=data_file_order), versions, read)


def make_layout(feed: Changefeed) -> Layout:
    """How the changefeed's paths are built."""
    return Layout(
        date_separator=feed.date_separator,
        partition_separator=feed.enable_partition_separator,
        digits=feed.file_index_digit,
        table_id_as_path=feed.use_table_id_as_path,
        across_nodes=feed.enable_table_across_nodes,
        extension=".csv" if feed.protocol == "csv" else ".json",
    )


def is_named_like_data(path: str, layout: Layout) -> bool:
    """Whether a path that does not parse has the name of a data file all the same."""
    name = path.rpartition("/")[2]
    return name.startswith("CDC") and name.endswith(layout.extension)


def describe_path_mismatch(layout: Layout) -> str:
    """Why a data file's path does not parse: the settings that decide, in TiCDC's words."""
    return (
        "the path of this data file does not fit the declared"
        f" date-separator = {layout.date_separator!r},"
        f" enable-partition-separator = {str(layout.partition_separator).lower()},"
        f" use-table-id-as-path = {str(layout.table_id_as_path).lower()}"
    )


def complete_schema_versions(
    stated: Iterable[SchemaChange | Bootstrap],
    declared_keys: Mapping[str, tuple[str, ...]],
    known_before: CatalogState | None = None,
) -> dict[_Version, TableSchema]:
    """Every stated table version, completed by what the statements before it say.

    Schema files list virtual columns without a mark, and data files lack them: only the statement
    that made the column tells.
    """
    catalog = SchemaCatalog(declared_keys)
    if known_before is not None:
        catalog.restore(known_before)
    versions: dict[_Version, TableSchema] = {}
    for _, together in groupby(sorted(stated, key=_stated_ts), key=_stated_ts):
        events = list(together)
        for change in order_ddls((e for e in events if isinstance(e, SchemaChange)), catalog):
            apply_ddl(change, catalog)
        for event in events:
            schema = event.schema
            if schema is None or schema.version is None:
                continue
            known = catalog.get(schema.database, schema.table)
            if known is None and isinstance(event, Bootstrap):
                known = catalog.register(schema)
            completed = reconcile(known, schema) if known is not None else schema
            versions[schema.database, schema.table, schema.version] = completed
    return versions


def _stated_ts(event: SchemaChange | Bootstrap) -> tuple[int, int]:
    if isinstance(event, SchemaChange):
        return event.commit_ts, 0
    return event.schema.version or 0, 1


def _checkpoint(read: Callable[[str], bytes]) -> Iterator[Event]:
    try:
        content = read(_METADATA)
    except (FileNotFoundError, KeyError):
        # There is none before the first flush.
        return
    except OSError as error:
        yield _rejected(_METADATA, MissingFile(str(error)))
        return
    yield read_checkpoint(content)


def read_checkpoint(content: bytes) -> Watermark | Quarantined:
    """What the content of `metadata` says."""
    try:
        return Watermark(ts=read_metadata(content), position=FilePosition(_METADATA))
    except DecodeError as error:
        return _rejected(_METADATA, error)


def read_schema_events(
    path: str, checksum: int, read: Callable[[str], bytes]
) -> Iterator[SchemaChange | Bootstrap | Quarantined]:
    """What a schema file states, and what is wrong with it; `checksum` is of its name."""
    try:
        file = read_schema_file(_content(path, read))
        yield to_event(file, FilePosition(path))
        if file.checksum != checksum:
            # Reason to look, not to stop: servers may write odd defaults another way.
            raise ChecksumMismatch(
                f"the file's name says {checksum:010}, its content gives {file.checksum:010}"
            )
    except DecodeError as error:
        yield _rejected(path, error)


def _content(path: str, read: Callable[[str], bytes]) -> bytes:
    try:
        return read(path)
    except OSError as error:
        raise MissingFile(str(error)) from None


def data_file_order(found: tuple[str, DataPath]) -> tuple[object, ...]:
    """How data files are sorted: within one table version, those of one writer by number."""
    _, path = found
    return (
        path.database or "",
        path.table or "",
        path.version,
        path.partition_id or path.table_id or 0,
        path.dispatcher or "",
        path.date or "",
        path.number,
    )


def _data_events(
    feed: Changefeed,
    data: Iterable[tuple[str, DataPath]],
    versions: Mapping[_Version, TableSchema],
    read: Callable[[str], bytes],
) -> Iterator[Event]:
    decoder = file_decoder(feed)
    for path, parsed in data:
        try:
            content = _content(path, read)
        except MissingFile as error:
            yield _rejected(path, error)
            continue
        file = DataFile(
            path=path,
            data=content,
            version=parsed.version,
            table_id=parsed.partition_id or parsed.table_id,
        )
        if isinstance(decoder, CsvDecoder):
            names = decoder.table_of(file.data)
            schema = versions.get((*names, parsed.version)) if names is not None else None
            if schema is None and names is not None:
                reason = f"no schema file of {names[0]}.{names[1]} version {parsed.version}"
                yield _rejected(path, MissingSchema(reason))
                continue
            file = replace(file, schema=schema)
        yield from decoder.decode_file(file)


def _rejected(path: str, error: DecodeError) -> Quarantined:
    return Quarantined(position=FilePosition(path), error=type(error).__name__, reason=error.reason)
