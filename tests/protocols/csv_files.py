"""The real CSV files, each with the schema of its table version."""

from functools import cache

from msgspec.structs import replace as with_fields

from tests.golden import find_folder, meta, storage_tree
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.events import TableSchema
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.message import DataFile
from ticdc_assets.storage_sink.path import DataPath, Layout, TableSchemaPath, parse
from ticdc_assets.storage_sink.schema_file import read_schema_file

# What the statements in the schema files say, and the files' columns do not.
VIRTUAL = {("types_db", "t_gen"): {"v", "jx"}}


def feed_of(dataset: str) -> Changefeed:
    about = meta(dataset)
    config = find_folder(dataset) / "changefeed.toml"
    return changefeed_from_uri(about["sink-uri"], config=config, tz=about["timezone"])


def marked(schema: TableSchema) -> TableSchema:
    virtual = VIRTUAL.get((schema.database, schema.table), set())
    columns = (
        with_fields(column, generated="virtual") if column.name in virtual else column
        for column in schema.columns
    )
    return with_fields(schema, columns=tuple(columns))


@cache
def data_files(dataset: str) -> list[DataFile]:
    feed = feed_of(dataset)
    layout = Layout(
        date_separator=feed.date_separator,
        partition_separator=feed.enable_partition_separator,
        digits=feed.file_index_digit,
        table_id_as_path=feed.use_table_id_as_path,
    )
    tree = storage_tree(dataset)
    places = {path: parse(path, layout) for path in tree}
    schemas = {}
    for path, place in places.items():
        if isinstance(place, TableSchemaPath):
            schema = read_schema_file(tree[path]).table_schema
            assert schema is not None
            schemas[place.version, (schema.database, schema.table)] = marked(schema)
    decoder = CsvDecoder(dialect=feed.csv, tz=feed.tz)
    files = []
    for path, place in places.items():
        if isinstance(place, DataPath):
            # Where ids stand for names, only the rows tell the table of a partition.
            names = decoder.table_of(tree[path])
            if place.table is not None:
                assert names == (place.database, place.table)
            table_id = place.partition_id or place.table_id
            schema = schemas[place.version, names]
            files.append(DataFile(path, tree[path], place.version, table_id, schema))
    return files
