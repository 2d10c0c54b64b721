"""The life of a few tables whose names come and go, and what stands at their addresses."""

from pathlib import Path

import pyarrow as pa
from deltalake import QueryBuilder
from deltalake.exceptions import TableNotFoundError
from pyarrow.fs import FileSelector, FileType
from pyspark.sql import SparkSession

from tests.lake.canal import FEED, ddl, placed, row, watermark
from ticdc_assets.lake.advance import RecordSource
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.open_table import open_table
from ticdc_assets.store.reader import LakeReader

GONE = None
# Ids by table; None for a name that is gone.
Shown = dict[str, list[int] | None]


def create(table: str, ts: int) -> Message:
    sql = f"CREATE TABLE {table} (id INT PRIMARY KEY)"
    return ddl("d", table, ts, "CREATE", sql)


def rename(sql: str, ts: int) -> Message:
    return ddl("d", "", ts, "RENAME", f"RENAME TABLE {sql}")


# The messages of a window, up to its watermark, and what the names have then.
LIFE: list[tuple[list[Message], Shown]] = [
    (
        [create("a", 2), create("b", 3), row("d", "a", 5, id="1"), row("d", "b", 6, id="2")],
        {"a": [1], "b": [2]},
    ),
    ([row("d", "a", 12, id="3")], {"a": [1, 3], "b": [2]}),
    ([rename("d.a TO d.c", 25)], {"a": GONE, "b": [2], "c": [1, 3]}),
    ([row("d", "c", 32, id="4")], {"a": GONE, "b": [2], "c": [1, 3, 4]}),
    (
        [rename("d.b TO d.tmp, d.c TO d.b, d.tmp TO d.c", 45)],
        {"a": GONE, "b": [1, 3, 4], "c": [2]},
    ),
    (
        [row("d", "b", 52, id="5"), row("d", "c", 53, id="6"), create("a", 54)],
        {"a": [], "b": [1, 3, 4, 5], "c": [2, 6]},
    ),
    (
        [
            ddl("d", "b", 62, "TRUNCATE", "TRUNCATE TABLE b"),
            row("d", "b", 63, id="7"),
            row("d", "a", 64, id="8"),
        ],
        {"a": [8], "b": [7], "c": [2, 6]},
    ),
    ([ddl("d", "c", 72, "ERASE", "DROP TABLE c")], {"a": [8], "b": [7], "c": GONE}),
    ([create("c", 82), row("d", "c", 83, id="9")], {"a": [8], "b": [7], "c": [9]}),
]


def open_lake(folder: Path | str) -> LakeSession:
    return LakeSession(need_none, Lake(f"{folder}/lake", FEED.id), FEED)


def need_none() -> SparkSession:
    raise AssertionError("small work needs no Spark")


def send(windows: int) -> RecordSource:
    messages: list[Message] = []
    for number, (each, _) in enumerate(LIFE[:windows]):
        messages += [*each, watermark(number * 10 + 9)]
    return RecordSource(lambda _: placed(messages))


def read_addresses(lake: LakeSession) -> Shown:
    """Read what stands at every address with a reader that knows nothing but its path."""
    shown: Shown = {}
    reader = LakeReader(lake.location)
    for entry in reader.open_folder("current").get_file_info(FileSelector("")):
        if entry.type is not FileType.Directory:
            continue
        try:
            table = open_table(f"{lake.path('current')}/{entry.base_name}")
        except TableNotFoundError:
            # Files were copied there already.
            continue
        about = table.metadata()
        rows = QueryBuilder().register("t", table).execute("SELECT id FROM t").read_all()
        ids = sorted(pa.table(rows)["id"].to_pylist())
        is_gone = about.configuration["ticdc.status"] == "dropped"
        assert not (is_gone and ids)
        assert about.name == about.configuration["ticdc.table"]
        assert about.description == f"{about.name} of TiDB, by changefeed {FEED.id}"
        shown[about.name.removeprefix("d.")] = GONE if is_gone else ids
    return shown
