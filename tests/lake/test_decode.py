"""Events in the lake equal those of the reference, however the input was split and damaged."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from tests.golden import find_folder, open_lines, records, storage_tree
from tests.lake.intake import Intake, count_events
from tests.reference.golden_feeds import feed_of
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import FilePosition, Quarantined, RowChange
from ticdc_assets.lake import advance
from ticdc_assets.lake.advance import RecordSource
from ticdc_assets.lake.events import decode_topic
from ticdc_assets.lake.events.decode_topic import TopicDecode
from ticdc_assets.lake.events.event_commits import DecodeResult
from ticdc_assets.lake.raw import ingest_records
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.dump import read_dump
from ticdc_assets.resources.storage import open_claim_check_folder
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.store.writer import LakeWriter
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.reading import read_folder_events, read_topic_events

CSV = "lifecycle/storage-csv-full"


@pytest.mark.parametrize(
    "dataset",
    [
        "types/simple-avro-checksum",
        "lifecycle/simple-json-claim-check",
        # The tests of the decoders read all of these records.
        pytest.param("lifecycle/canal-json-ext-replayed", marks=pytest.mark.all_cases),
        pytest.param("types/open-protocol", marks=pytest.mark.all_cases),
    ],
)
def test_a_topic_that_grows(spark: SparkSession, tmp_path: Path, dataset: str) -> None:
    feed = feed_of(dataset)
    intake = Intake(spark, tmp_path, feed)
    sent = list(records(dataset))
    cut = len(sent) // 3
    assert intake.ingest(sent[:cut]).items == cut
    first = intake.decode()
    # Several batches; the first one is already ingested.
    whole = intake.ingest(sent, bytes_per_batch=sum(len(m.value or b"") for m in sent) // 4)
    assert (whole.items, whole.batches > 2) == (len(sent) - cut, True)
    second = intake.decode(since=first.done_through)
    assert second.done_through == whole.last_batch
    truth = list(read_topic_events(feed, sent, open_claim_check_folder(feed)))
    assert count_events(intake.events()) == count_events(truth)
    assert first.rows + second.rows == sum(isinstance(e, RowChange) for e in truth)
    # Without new input nothing happens.
    before = intake.count("events")
    assert intake.ingest(sent).batches == 0
    assert (intake.decode().rows, intake.count("events")) == (0, before)


@pytest.mark.parametrize(
    "dataset",
    [
        "types/storage-canal-json",
        "lifecycle/newarch-storage-csv-table-id-path",
        pytest.param("lifecycle/storage-csv-default", marks=pytest.mark.all_cases),
        pytest.param("types/storage-csv-custom", marks=pytest.mark.all_cases),
    ],
)
def test_a_folder_that_grows(spark: SparkSession, tmp_path: Path, dataset: str) -> None:
    feed, tree = feed_of(dataset), storage_tree(dataset)
    intake = Intake(spark, tmp_path, feed)
    steps = [
        {file["path"] for file in step["files"] or ()}
        for step in open_lines(find_folder(dataset) / "manifest.jsonl")
    ]
    early = set().union(*steps[: len(steps) // 2]) & set(tree)
    intake.put({path: tree[path] for path in early})
    intake.ingest()
    first = intake.decode()
    intake.put({path: content for path, content in tree.items() if path not in early})
    # Batches so small that `metadata` arrives in a later one than the files it covers.
    assert intake.ingest(bytes_per_batch=1 << 14).batches > 1
    second = intake.decode(since=first.done_through)
    truth = list(read_folder_events(feed, tree, tree.__getitem__))
    assert count_events(intake.events()) == count_events(truth)
    assert first.rows + second.rows == sum(isinstance(e, RowChange) for e in truth)
    assert len(second.waiting) == 0
    before = intake.count("events")
    assert intake.ingest().batches == 0
    assert (intake.decode().rows, intake.count("events")) == (0, before)


def test_files_that_wait_change_and_vanish(spark: SparkSession, tmp_path: Path) -> None:
    feed, tree = feed_of(CSV), storage_tree(CSV)
    intake = Intake(spark, tmp_path, feed)
    data = sorted(path for path in tree if path.endswith(".csv"))
    schemas = {path for path in tree if "/shop/orders/meta/schema_" in f"/{path}"}
    waiting = [path for path in data if path.startswith("shop/orders/")]
    cut, gone, *_ = [path for path in data if path not in waiting]
    # A file ends in the middle of a record, a schema file is late, a file vanishes.
    there = {path: content for path, content in tree.items() if path not in schemas}
    there[cut] = tree[cut][:-4]
    intake.put(there)
    intake.ingest()
    (intake.folder / gone).unlink()
    first = intake.decode()
    assert (len(first.waiting), first.done_through) == (len(waiting), 0)
    assert first.quarantined == 2
    assert intake.count("quarantine") == 2
    # They continue to wait and cause no commit.
    before = intake.count("events")
    assert len(intake.decode().waiting) == len(waiting)
    assert intake.count("events") == before
    # Everything is repaired except for the vanished file, which is reported once.
    intake.put({path: tree[path] for path in [*schemas, cut]})
    intake.ingest()
    second = intake.decode()
    assert (len(second.waiting), second.done_through) == (0, 2)
    lost = Quarantined(
        position=FilePosition(gone), error="MissingFile", reason="the file does not exist"
    )
    whole = {path: content for path, content in tree.items() if path != gone}
    truth = [*read_folder_events(feed, whole, whole.__getitem__), lost]
    assert count_events(intake.events()) == count_events(truth)
    quarantined = read_table(intake.lake, "quarantine").select("source", "error").collect()
    assert [tuple(row) for row in quarantined] == [(gone, "MissingFile")]
    assert intake.decode().rows == 0
    assert count_events(intake.events()) == count_events(truth)


def test_a_dump_whose_last_line_is_cut_off(spark: SparkSession, tmp_path: Path) -> None:
    feed = changefeed_from_uri("dump:///d?protocol=canal-json&enable-tidb-extension=true")
    intake = Intake(spark, tmp_path, feed)
    lines = [
        json.dumps({"topic": "t", "partition": 0, "offset": offset, "payload": value})
        for offset, value in enumerate(['{"type": "?"}', _row('a/b.c"d'), _row("x`'\\")])
    ]
    dump = tmp_path / "dump.jsonl"
    dump.write_text("\n".join(lines)[:-9])
    assert intake.ingest(read_dump(dump)).items == 3
    assert intake.ingest(read_dump(dump)).items == 0
    assert intake.decode().quarantined == 2
    dump.write_text("\n".join(lines))
    assert intake.ingest(read_dump(dump)).items == 1
    assert intake.decode().rows == 1
    events = intake.events()
    whole = list(read_topic_events(feed, read_dump(dump), None))
    cut = [e for e in events if isinstance(e, Quarantined) and isinstance(e.position, FilePosition)]
    assert [e.position.record for e in cut] == [3]
    assert count_events(e for e in events if e not in cut) == count_events(whole)
    names = read_table(intake.lake, "events").where("kind = 'row'").select("name").collect()
    assert {row["name"] for row in names} == {'`db`.`a/b.c"d`', "`db`.`x``'\\`"}
    # The quarantine keeps the input as it arrived.
    quarantined = read_table(intake.lake, "quarantine").select("number", "raw").collect()
    assert {(row["number"], row["raw"] and bytes(row["raw"])) for row in quarantined} == {
        (0, b'{"type": "?"}'),
        (3, None),
    }


def _row(table: str) -> str:
    row = {"id": 1, "database": "DB", "table": table, "type": "INSERT", "isDdl": False}
    row |= {"es": 1, "ts": 2, "data": [{"a": "1"}], "old": None, "pkNames": ["a"]}
    row |= {"mysqlType": {"a": "int"}, "sqlType": {"a": 4}, "_tidb": {"commitTs": 1 << 60}}
    return json.dumps(row)


def test_a_folder_with_names_that_need_care(spark: SparkSession, tmp_path: Path) -> None:
    # A schema `a` with two tables: one name contains slashes, the other SQL syntax.
    source, tree = "shop/customers/", storage_tree(CSV)
    feed = feed_of(CSV)
    named = {}
    for table in ("b/5/c.d", "it's `\"\\"):
        for path, content in tree.items():
            if not path.startswith(source):
                continue
            if path.endswith(".json"):
                schema = json.loads(content)
                schema |= {"Table": table, "Schema": "a", "Query": ""}
                content = json.dumps(schema).encode()
            else:
                in_csv = table.replace('"', '""').encode()
                content = content.replace(b'"customers","shop"', b'"%s","a"' % in_csv)
            named[f"a/{table}/{path.removeprefix(source)}"] = content
    intake = Intake(spark, tmp_path, feed)
    intake.put(named)
    intake.ingest()
    assert len(intake.decode().waiting) == 0
    truth = list(read_folder_events(feed, named, named.__getitem__))
    assert {e.table for e in truth if isinstance(e, RowChange)} == {"b/5/c.d", "it's `\"\\"}
    assert count_events(intake.events()) == count_events(truth)
    # Every file changes: its earlier events are replaced, whatever its path is.
    cut = {p: c[:-3] for p, c in named.items() if p.endswith(".csv") and c.count(b"\r\n") > 1}
    intake.put(cut)
    named |= cut
    intake.ingest()
    intake.decode(since=1)
    assert count_events(intake.events()) == count_events(
        read_folder_events(feed, named, named.__getitem__)
    )


def test_killed_between_its_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = "lifecycle/canal-json"
    feed, sent = feed_of(dataset), list(records(dataset))
    sent.insert(5, Quarantined(position=FilePosition("d", 6), error="MalformedMessage", reason="?"))
    intake = Intake(spark, tmp_path, feed)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    # During ingest: one batch is committed, the next one is not.
    with pytest.raises(KeyboardInterrupt):
        intake.ingest(_until(sent, 30), bytes_per_batch=4000)
    intake.ingest(sent)
    # Before the events are committed, and between them and the quarantine.
    for step in ("make_record_worker", "update_quarantine"):
        with monkeypatch.context() as patch:
            patch.setattr(decode_topic, step, die)
            with pytest.raises(KeyboardInterrupt):
                intake.decode()
    assert intake.count("quarantine") == 0
    assert intake.decode().rows == 0
    assert intake.count("quarantine") == 1
    assert count_events(intake.events()) == count_events(read_topic_events(feed, sent, None))


def test_many_records_are_decoded_from_the_files_of_raw(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = "lifecycle/canal-json-ext-replayed"
    feed, sent = feed_of(dataset), list(records(dataset))
    sent.insert(5, Quarantined(position=FilePosition("d", 6), error="MalformedMessage", reason="?"))
    monkeypatch.setattr(decode_topic, "_RECORDS_PER_TASK", 40)
    monkeypatch.setattr(ingest_records, "_ROWS_PER_GROUP", 16)
    intake = Intake(spark, tmp_path, feed)

    def decode_in_workers(since: int = 0) -> DecodeResult:
        with monkeypatch.context() as patch:
            patch.setattr(LakeReader, "is_small", lambda *_, **__: False)
            patch.setattr(decode_topic, "_BYTES_PER_COMMIT", 1)
            return intake.decode(since)

    intake.ingest(sent[:300], bytes_per_batch=100_000)
    first = decode_in_workers()
    whole = intake.ingest(sent, bytes_per_batch=100_000)
    assert (first.done_through > 1, whole.batches > 1) == (True, True)
    # A file has batches that are decoded, and such that are not; and only Spark writes `events`.
    reader = LakeReader(intake.lake.location)
    LakeWriter(intake.lake.location).compact(reader.open("raw"))
    assert reader.measure(reader.open("raw")).number == 1
    spark.sql(f"ALTER TABLE {intake.lake.sql('events')} CLUSTER BY (name)").collect()
    second = decode_in_workers()
    truth = list(read_topic_events(feed, sent, None))
    assert count_events(intake.events()) == count_events(truth)
    assert first.rows + second.rows == sum(isinstance(e, RowChange) for e in truth)
    assert second.done_through == whole.last_batch
    markers = read_table(intake.lake, "events").where("kind = 'batch'").select("batch", "seq")
    ends = read_table(intake.lake, "raw").groupBy("batch").max("seq")
    assert sorted(markers.collect()) == sorted(ends.collect())
    assert decode_in_workers().rows == 0


def test_killed_while_records_are_decoded_and_others_are_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = "lifecycle/canal-json-ext-replayed"
    feed, sent = feed_of(dataset), list(records(dataset))
    intake = Intake(spark, tmp_path, feed)
    decode_many, decoded = TopicDecode.decode_many, Event()

    def decode(self: TopicDecode) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(LakeReader, "is_small", lambda *_, **__: False)
            decode_many(self)
        decoded.set()

    def read(_: ReadOffsets) -> Iterator[Message]:
        yield from sent[:400]
        assert decoded.wait(100)
        yield from sent[400:500]
        raise KeyboardInterrupt

    monkeypatch.setattr(TopicDecode, "decode_many", decode)
    monkeypatch.setattr(advance, "MANY_ROWS", 0)
    ingest = partial(ingest_records.ingest_records, bytes_per_batch=150_000)
    monkeypatch.setattr(advance, "ingest_records", ingest)
    with pytest.raises(KeyboardInterrupt):
        advance.advance(intake.lake, RecordSource(read))
    batches = read_table(intake.lake, "raw").select("batch").distinct().count()
    markers = read_table(intake.lake, "events").where("kind = 'batch'").count()
    # Some batches were decoded before the source was read to its end.
    assert 0 < markers <= batches
    advance.advance(intake.lake, RecordSource(lambda _: sent))
    truth = list(read_topic_events(feed, sent, None))
    assert count_events(intake.events()) == count_events(truth)


def _until(sent: list, number: int):
    yield from sent[:number]
    raise KeyboardInterrupt
