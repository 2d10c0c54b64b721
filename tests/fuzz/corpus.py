"""The seeds: recorded streams of one table each, a few records long, and other recorded texts."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

from tests.golden import GOLDEN, datasets, open_lines, records, storage_tree
from tests.reference.golden_feeds import feed_of
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import Bootstrap, RowChange, SchemaChange
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.registry import make_topic_decoder
from ticdc_assets.storage_sink.path import DatabaseSchemaPath, DataPath, TableSchemaPath, parse
from ticdc_assets.stream.folder_files import make_layout

TOPICS = (
    "types/canal-json-ext",
    "types/simple-json",
    "types/open-protocol",
    "types/simple-avro",
    "types/canal-json",
    "lifecycle/canal-json-ext",
    "lifecycle/simple-json",
    "lifecycle/open-protocol",
    "lifecycle/canal-json-ext-force-replicate",
    "lifecycle/newarch-open-protocol",
    "lifecycle/newarch-simple-avro",
    "types/open-protocol-only-updated",
    "types/canal-json-ext-only-updated",
    "types/simple-json-checksum",
    "types/open-protocol-tz-shanghai",
    "random_1/canal-json-ext-restart",
)
FOLDERS = (
    "types/storage-csv-full",
    "types/storage-canal-json",
    "lifecycle/storage-csv-full",
    "types/storage-csv-noquote",
    "types/storage-csv-custom",
    "types/storage-csv-default",
    "lifecycle/newarch-storage-csv-table-id-path",
)
# Of each dataset only its beginning is read, and of each table the first records.
_MOST_RECORDS = 2500
_RECORDS_PER_TABLE = 14
_FILES_PER_TABLE = 10


class TopicSeed(NamedTuple):
    """Records of one table, in the order in which they were sent."""

    feed: Changefeed
    records: list[Message]


class FolderSeed(NamedTuple):
    """The files of one table, by path."""

    feed: Changefeed
    files: dict[str, bytes]


@cache
def topic_seeds(dataset: str) -> list[TopicSeed]:
    """Cut a dataset into the records of each table."""
    feed = feed_of(dataset)
    decoder = make_topic_decoder(feed)
    by_table: dict[tuple[str, str], list[Message]] = defaultdict(list)
    for record in islice(records(dataset), _MOST_RECORDS):
        tables = set()
        for event in decoder.decode(record):
            match event:
                case RowChange() | SchemaChange():
                    tables.add((event.database, event.table))
                case Bootstrap(schema=schema):
                    tables.add((schema.database, schema.table))
        for table in tables:
            if len(by_table[table]) < _RECORDS_PER_TABLE:
                by_table[table].append(record)
    return [TopicSeed(feed, found) for _, found in sorted(by_table.items())]


@cache
def folder_seeds(dataset: str) -> list[FolderSeed]:
    """Cut a folder into the files of each table; `metadata` belongs to all."""
    feed = feed_of(dataset)
    layout = make_layout(feed)
    tree = storage_tree(dataset)
    by_table: dict[tuple[str, str], dict[str, bytes]] = defaultdict(dict)
    for path, content in sorted(tree.items()):
        match parse(path, layout):
            case DatabaseSchemaPath(database=database):
                by_table[database, ""][path] = content
            case TableSchemaPath() | DataPath() as file:
                table = str(file.database), f"{file.table} {file.table_id}"
                if len(by_table[table]) < _FILES_PER_TABLE:
                    by_table[table][path] = content
    metadata = {"metadata": tree["metadata"]}
    return [FolderSeed(feed, files | metadata) for _, files in sorted(by_table.items())]


@cache
def statements() -> list[str]:
    """List the statements of the recorded DDL histories."""
    histories = (GOLDEN / workload / "ddl_history.jsonl" for workload in ("types", "lifecycle"))
    return sorted({line["query"] for history in histories for line in open_lines(history)})


@cache
def schema_files() -> list[bytes]:
    """List recorded schema files."""
    found = {
        content
        for dataset in FOLDERS[:3]
        for path, content in storage_tree(dataset).items()
        if "/meta/schema_" in path
    }
    return sorted(found)


@cache
def declarations() -> list[tuple[str, bytes]]:
    """List the sink URI and the configuration file of every dataset."""
    return list(_read_declarations())


def _read_declarations() -> Iterator[tuple[str, bytes]]:
    for dataset in datasets():
        feed = feed_of(dataset)
        scheme = {"dump": "kafka", "storage": "file"}.get(feed.transport, feed.transport)
        place = "127.0.0.1:9092/topic" if scheme == "kafka" else "/data"
        uri = f"{scheme}://{place}?protocol={feed.protocol}"
        yield uri, (GOLDEN / dataset / "changefeed.toml").read_bytes()
