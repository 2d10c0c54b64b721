"""The files of a changefeed's folder: how it names them, and the order to read data files in."""

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.protocols.registry import PROTOCOLS, get_traits
from ticdc_assets.storage_sink.path import FIRST_SCHEMA_FILE, DataPath, Layout

METADATA = "metadata"
_EXTENSIONS = tuple({traits.file_extension for traits in PROTOCOLS.values()})


def make_layout(feed: Changefeed) -> Layout:
    """Return the path settings of a changefeed."""
    return Layout(
        date_separator=feed.date_separator,
        partition_separator=feed.enable_partition_separator,
        digits=feed.file_index_digit,
        table_id_as_path=feed.use_table_id_as_path,
        across_nodes=feed.enable_table_across_nodes,
        extension=get_traits(feed).file_extension,
    )


def is_named_like_data(path: str) -> bool:
    """Return whether a file is named like a data file, of any protocol and wherever it is."""
    name = path.rpartition("/")[2]
    return name.startswith("CDC") and name.endswith(_EXTENSIONS)


def is_named_like_schema(path: str) -> bool:
    """Return whether a file is named like a schema file, wherever in the folder it is."""
    name = path.rpartition("/")[2]
    return name == FIRST_SCHEMA_FILE or (name.startswith("schema_") and name.endswith(".json"))


def describe_path_mismatch(path: str, layout: Layout) -> str:
    """Name the settings, in TiCDC's words, that a data file's path does not match."""
    if not path.endswith(layout.extension):
        return f"this data file is not of the declared protocol, which has {layout.extension} files"
    return (
        "the path of this data file does not match the declared"
        f" date-separator = {layout.date_separator!r},"
        f" enable-partition-separator = {str(layout.partition_separator).lower()},"
        f" use-table-id-as-path = {str(layout.table_id_as_path).lower()}"
        "; servers 6.5.0 to 6.5.2, 6.6.0 and 7.0.0 have other defaults: declare server-version"
    )


def data_file_order(file: tuple[str, DataPath]) -> tuple[object, ...]:
    """Return the sort key of a data file: by table version, then writer, then file number."""
    _, path = file
    return (
        path.database or "",
        path.table or "",
        path.version,
        path.partition_id or path.table_id or 0,
        path.dispatcher or "",
        path.date or "",
        path.number,
    )
