"""Read a changefeed's output into events: the records of a topic, or the files of a folder.

This module opens nothing: the caller passes in records and a function that reads a file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import (
    CONTENT_ERRORS,
    ChecksumMismatch,
    DecodeError,
    MalformedMessage,
    MissingFile,
    MissingSchema,
    describe_content_error,
)
from ticdc_assets.events import (
    Bootstrap,
    Event,
    FilePosition,
    Position,
    Quarantined,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
)
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.message import DataFile, Message
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.protocols.registry import make_file_decoder, make_topic_decoder
from ticdc_assets.storage_sink.metadata import read_metadata
from ticdc_assets.storage_sink.path import DatabaseSchemaPath, DataPath, TableSchemaPath, parse
from ticdc_assets.storage_sink.schema_file import read_schema_file, to_event
from ticdc_assets.stream.folder_files import (
    METADATA,
    data_file_order,
    describe_path_mismatch,
    is_named_like_data,
    make_layout,
)
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.schema_versions import TableVersion, complete_schema_versions

# Returns the content of a file of the folder.
ReadFile = Callable[[str], bytes]


def read_topic_events(
    feed: Changefeed, records: Iterable[Message | Quarantined], payloads: PayloadStore | None
) -> Iterator[Event]:
    """Decode the records of a topic in their order, each once; pass quarantined ones through."""
    decoder = make_topic_decoder(feed, payloads)
    offsets = ReadOffsets()
    for record in records:
        if isinstance(record, Quarantined):
            yield record
        elif offsets.add(record.topic, record.partition, record.offset):
            yield from decode_record(decoder.decode, record)


def decode_record(decode: Callable[[Message], Iterable[Event]], record: Message) -> list[Event]:
    """Decode a record as `decode_safely` does, which would make a generator for each."""
    events: list[Event] = []
    try:
        events.extend(decode(record))
    except MemoryError:
        raise
    except Exception as error:
        position = TopicPosition(record.topic, record.partition, record.offset)
        events.append(_describe_failure(error, position))
    return events


def decode_safely(
    decode: Callable[[Any], Iterable[Any]], content: Any, position: Position
) -> Iterator[Any]:
    """Decode; turn any error that decoders promise not to raise into a quarantined event too."""
    try:
        yield from decode(content)
    except MemoryError:
        raise
    except Exception as error:
        yield _describe_failure(error, position)


def _describe_failure(error: Exception, position: Position) -> Quarantined:
    reason = f"the decoder failed: {type(error).__name__}: {error}"
    return Quarantined.from_error(MalformedMessage(reason), position)


def read_folder_events(feed: Changefeed, paths: Iterable[str], read: ReadFile) -> Iterator[Event]:
    """Decode a folder: the checkpoint, then all schema files, then data files by table and number.

    `metadata` is read before the first path is taken.  Pass a lazy listing: the checkpoint covers
    only files that existed before it was read.
    """
    yield from _read_metadata(read)
    layout = make_layout(feed)
    files = []
    for path in paths:
        file = parse(path, layout)
        if file is not None:
            files.append((path, file))
        elif is_named_like_data(path):
            yield Quarantined.from_error(
                MalformedMessage(describe_path_mismatch(path, layout)), FilePosition(path)
            )
    schemas: list[SchemaChange | Bootstrap] = []
    for path, file in sorted(files, key=lambda pair: pair[0]):
        if isinstance(file, TableSchemaPath | DatabaseSchemaPath):
            for event in read_schema_events(path, file.checksum, read):
                if not isinstance(event, Quarantined):
                    schemas.append(event)
                yield event
    versions = complete_schema_versions(schemas, feed.keys)
    data = [(path, file) for path, file in files if isinstance(file, DataPath)]
    yield from _read_data(feed, sorted(data, key=data_file_order), versions, read)


def read_checkpoint(content: bytes) -> Watermark | Quarantined:
    """Read the checkpoint from the content of `metadata`."""
    try:
        return Watermark(ts=read_metadata(content), position=FilePosition(METADATA))
    except DecodeError as error:
        return Quarantined.from_error(error, FilePosition(METADATA))


def read_schema_events(
    path: str, checksum: int | None, read: ReadFile
) -> Iterator[SchemaChange | Bootstrap | Quarantined]:
    """Read a schema file into its event, and a `Quarantined` if the checksum in its name differs.

    The event counts all the same: servers may write unusual defaults in another way, so a different
    checksum is a reason to look at the file, not to stop.  `checksum` is None if the name has none.
    """
    try:
        file = read_schema_file(_read_content(path, read))
        yield to_event(file, FilePosition(path))
        if checksum is not None and file.checksum != checksum:
            raise ChecksumMismatch(
                f"the file's name says {checksum:010}, its content gives {file.checksum:010}"
            )
    except DecodeError as error:
        yield Quarantined.from_error(error, FilePosition(path))
    except CONTENT_ERRORS as error:
        reason = MalformedMessage(describe_content_error(error))
        yield Quarantined.from_error(reason, FilePosition(path))


def _read_metadata(read: ReadFile) -> Iterator[Watermark | Quarantined]:
    try:
        content = read(METADATA)
    except (FileNotFoundError, KeyError):
        # TiCDC writes it with its first flush.
        return
    except OSError as error:
        yield Quarantined.from_error(MissingFile(str(error)), FilePosition(METADATA))
        return
    yield read_checkpoint(content)


def _read_data(
    feed: Changefeed,
    files: Iterable[tuple[str, DataPath]],
    versions: Mapping[TableVersion, TableSchema],
    read: ReadFile,
) -> Iterator[Event]:
    decoder = make_file_decoder(feed)
    for path, parts in files:
        try:
            content = _read_content(path, read)
        except MissingFile as error:
            yield Quarantined.from_error(error, FilePosition(path))
            continue
        file = DataFile(
            path=path,
            data=content,
            version=parts.version,
            table_id=parts.partition_id or parts.table_id,
        )
        if isinstance(decoder, CsvDecoder):
            names = decoder.table_of(file.data)
            schema = versions.get((*names, parts.version)) if names is not None else None
            if schema is None and names is not None:
                reason = f"no schema file of {names[0]}.{names[1]} version {parts.version}"
                yield Quarantined.from_error(MissingSchema(reason), FilePosition(path))
                continue
            file = replace(file, schema=schema)
        yield from decode_safely(decoder.decode_file, file, FilePosition(path))


def _read_content(path: str, read: ReadFile) -> bytes:
    try:
        return read(path)
    except OSError as error:
        raise MissingFile(str(error)) from None
