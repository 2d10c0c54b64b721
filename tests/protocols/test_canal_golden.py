"""Canal-JSON: every golden message, value by value against the same workload's simple-json."""

from collections import Counter, defaultdict
from zoneinfo import ZoneInfo

import pytest

from tests.golden import datasets, find_folder, meta, records, storage_tree
from tests.protocols import oracle
from tests.usual import usual_datasets
from ticdc_assets.events import Event, Op, Quarantined, RowChange, SchemaChange, Watermark
from ticdc_assets.protocols.canal_json.decoder import CanalJsonDecoder
from ticdc_assets.protocols.message import DataFile

STORAGE = datasets("*storage-canal-json*")
TOPICS = [name for name in datasets("*canal-json*") if name not in STORAGE]


def decoded(dataset: str) -> list[Event]:
    decoder = CanalJsonDecoder(
        tz=ZoneInfo(oracle.zone(dataset)),
        compression=oracle.compression(dataset),
        payloads=oracle.Folder(find_folder(dataset) / "claim-check"),
        raw_payloads="raw" in dataset.split("-"),
    )
    return [event for record in records(dataset) for event in decoder.decode(record)]


@pytest.mark.parametrize("dataset", usual_datasets(TOPICS))
def test_a_topic_has_the_events_of_the_simple_protocol(dataset: str) -> None:
    events = decoded(dataset)
    assert not [event for event in events if isinstance(event, Quarantined)]
    if oracle.repeats_another(dataset):
        return

    extended = "-ext" in dataset
    workload = oracle.workload(dataset, milliseconds=not extended)
    rows = [event for event in events if isinstance(event, RowChange)]
    ddls = [event for event in events if isinstance(event, SchemaChange)]
    ordering = "commit_ts" if extended else "milliseconds"
    assert {event.ordering for event in (*rows, *ddls)} == {ordering}
    assert not workload.ddl_differences(ddls)
    if extended:
        marks = defaultdict(set)
        for event in events:
            if isinstance(event, Watermark):
                marks[event.position.topic, event.position.partition].add(event.ts)
        assert set.union(*marks.values()) == workload.watermarks
    else:
        assert not any(isinstance(event, Watermark) for event in events)

    assert all(workload.knows_key_of(event) for event in rows)
    handle_keys_only = "delete-handle-key" in dataset
    partial = [
        event
        for event in rows
        if event.handle_key_only or (handle_keys_only and event.op is Op.DELETE)
    ]
    assert not workload.partial_differences(partial)
    unknown, missing = workload.differences(event for event in rows if event not in partial)
    assert not unknown
    assert len(missing) == len(partial), "only what came with some columns may be missing"
    assert bool(partial) == ("handle-key" in dataset)
    assert any(event.claim_check_digest for event in rows) == ("claim-check" in dataset)


@pytest.mark.parametrize("dataset", usual_datasets(STORAGE))
def test_a_folder_has_the_rows_of_the_simple_protocol(dataset: str) -> None:
    extended = "enable-tidb-extension=true" in meta(dataset)["sink-uri"]
    decoder = CanalJsonDecoder(tz=ZoneInfo(oracle.zone(dataset)))
    events: list[Event] = []
    for path, data in storage_tree(dataset).items():
        *folders, name = path.split("/")
        if not (name.startswith("CDC") and name.endswith(".json")):
            continue
        version = next(int(folder) for folder in folders if folder.isdigit() and len(folder) > 15)
        file = DataFile(path, data, version, table_id=77)
        rows = list(decoder.decode_file(file))
        assert len(rows) == data.count(b"\r\n")
        for event in rows:
            assert isinstance(event, RowChange)
            assert (event.schema_version, event.table_id) == (version, 77)
            assert event.commit_ts >= version or extended
            assert (event.commit_ts == version) == (event.ordering == "table_version")
        events += rows
    rows = [event for event in events if isinstance(event, RowChange)]
    orderings = Counter(event.ordering for event in rows)
    assert set(orderings) == {"commit_ts"} if extended else orderings["commit_ts"] == 0
    if oracle.repeats_another(dataset):
        return
    # A version takes the place of a commit ts within its own millisecond only.
    unknown, missing = oracle.workload(dataset, milliseconds=not extended).differences(rows)
    assert not unknown
    # Without partition directories the partitions of a table overwrite each other's files.
    assert not missing or dataset.endswith("-day")
