"""`raw` holds all input of the source once, even with concurrent runs."""

import dataclasses
import os
from pathlib import Path

import pyarrow.compute as pc
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.lake.intake import Intake
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.lake.raw import ingest_records
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore
from ticdc_assets.store.small_tables import read_table

TOPIC = changefeed_from_uri("dump:///d?protocol=open-protocol")
FOLDER = dataclasses.replace(
    changefeed_from_uri("file:///data?protocol=canal-json"), date_separator="none"
)


def test_records_are_stored_once_as_they_came(spark: SparkSession, tmp_path: Path) -> None:
    intake = Intake(spark, tmp_path, TOPIC)
    sent = [
        Message("t", 0, 7, b"\0k", None, 1_700_000_000_123),
        Message("t", 1, 7, None, b"\xff", None),
        Message("t-1", 0, 0, b"", b"", 1 << 62),
    ]
    assert intake.ingest(sent).items == 3
    # Another topic and partition each has its own offsets; what was there before is passed over.
    more = [*sent, replace(sent[1], offset=8), Message("t", 2, 0, b"", b"v", 0)]
    # A record with a wrong offset hides none after it, in this run or a later one.
    more += [replace(sent[0], offset=2**63 - 1, timestamp_ms=0), replace(sent[0], offset=8)]
    assert intake.ingest(iter(more)).items == 4
    rows = read_table(intake.lake, "raw").orderBy("seq").toArrow().to_pylist()
    assert [(row["batch"], row["seq"]) for row in rows] == [
        *((1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6), (2, 7)),
    ]
    for row, record in zip(rows, [*sent, *more[3:]], strict=True):
        place = (row["topic"], row["partition"], row["offset"])
        assert place == (record.topic, record.partition, record.offset)
        assert (row["key"], row["value"]) == (record.key, record.value)
    assert rows[0]["timestamp"].timestamp() == 1_700_000_000.123
    # Without the commits' own word it is read from the rows.
    reader = LakeReader(intake.lake.location)
    restore(intake.lake.location, "raw", reader.open("raw").version(), 1)
    assert intake.ingest([*more, replace(sent[0], offset=9)]).items == 5
    restore(intake.lake.location, "raw", reader.open("raw").version(), 2)
    assert intake.ingest([*more, replace(sent[0], offset=9)]).items == 1
    assert intake.count("raw") == 8


def test_one_of_two_concurrent_ingests_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch
) -> None:
    intake = Intake(spark, tmp_path, TOPIC)
    sent = [Message("t", 0, offset, b"", b"v" * 100, 0) for offset in range(10)]
    begun = ingest_records.read_raw_end(intake.lake)
    intake.ingest(sent[:4])
    # This one began before the other was done, and has more.
    with monkeypatch.context() as patch:
        patch.setattr(ingest_records, "read_raw_end", lambda *_: begun)
        assert intake.ingest(sent, bytes_per_batch=500).items == 0
    assert intake.ingest(sent).items == 6
    offsets = read_table(intake.lake, "raw").select("offset").collect()
    assert sorted(row["offset"] for row in offsets) == list(range(10))


def test_new_and_changed_files_are_ingested_without_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    def start() -> SparkSession:
        raise AssertionError("Spark is not needed")

    intake = Intake(spark, tmp_path, FOLDER)
    intake.lake = LakeSession(start, intake.lake.location, FOLDER)
    schema = "db/t/meta/schema_470608603860172800_0000000001.json"
    data = "db/t/470608603860172800/CDC00000000000000000001.json"
    stray = "db/t/2026-01-01/CDC00000000000000000001.json"
    of_csv = "db/t/470608603860172800/CDC00000000000000000002.csv"
    index = "db/t/470608603860172800/meta/CDC.index"
    files = {"metadata": b"1", schema: b"s", data: b"d", stray: b"", of_csv: b"", index: b"i"}
    files |= {"README": b"", f"{data}.tmp": b"", "db/t/meta/schema_1_2.json": b""}
    intake.put(files)
    (intake.folder / "db" / "away").symlink_to("/")
    first = intake.ingest()
    # Whatever is there is listed: the nine files, and the link.
    assert (first.items, first.listed) == (6, len(files) + 1)

    def roles(batch: int) -> list[tuple[str, str, bytes | None]]:
        reader = LakeReader(intake.lake.location)
        columns = ["seq", "role", "path", "content"]
        rows = reader.read(reader.open("raw"), columns, pc.field("batch") == batch).sort_by("seq")
        return [(row["role"], row["path"], row["content"]) for row in rows.to_pylist()]

    assert roles(1) == [
        ("schema", schema, b"s"),
        ("stray", "db/away", None),
        ("stray", stray, None),
        ("stray", of_csv, None),
        ("data", data, None),
        ("metadata", "metadata", b"1"),
    ]
    # Only written again: a checkpoint of the same content is no news, a schema file's is none.
    later = 1_900_000_000
    for path in ("metadata", schema, data):
        _touch(intake.folder / path, later)
    assert intake.ingest().items == 2
    assert roles(2) == [("same schema", schema, None), ("changed data", data, None)]
    assert intake.ingest().items == 0
    intake.put({"metadata": b"2", schema: b"S"})
    assert intake.ingest().items == 2
    assert roles(3) == [("changed schema", schema, b"S"), ("metadata", "metadata", b"2")]


def _touch(path: Path, at: int) -> None:
    os.utime(path, (at, at))
