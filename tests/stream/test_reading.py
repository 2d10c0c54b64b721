"""Reading a folder: what is wrong in one file is said, and the rest goes on."""

import pytest
from msgspec.structs import replace

from tests.golden import records, storage_tree
from tests.reference.golden_feeds import feed_of
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import FilePosition, Quarantined, RowChange, SchemaChange
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.stream.reading import read_folder_events, read_topic_events

DATASET = "lifecycle/storage-csv-full"


def events_of(tree: dict[str, bytes]):
    return list(read_folder_events(feed_of(DATASET), tree, tree.__getitem__))


def test_a_schema_file_that_does_not_match_its_checksum_is_reported_and_used() -> None:
    tree = dict(storage_tree(DATASET))
    path = next(p for p in sorted(tree) if "shop/customers/meta/schema_" in p)
    tree[path] = tree[path].replace(b'"60"', b'"61"')
    doubts = [event for event in events_of(tree) if isinstance(event, Quarantined)]
    assert [(d.position, d.error) for d in doubts] == [(FilePosition(path), "ChecksumMismatch")]
    assert SchemaChange in {type(e) for e in events_of(tree) if e.position == FilePosition(path)}


def test_rows_without_their_schema_file_are_said_and_the_rest_goes_on() -> None:
    tree = dict(storage_tree(DATASET))
    lost = [path for path in tree if "shop/customers/meta/schema_" in path]
    whole = [e for e in events_of(tree) if isinstance(e, RowChange) and e.table != "customers"]
    for path in lost:
        del tree[path]
    events = events_of(tree)
    assert [e for e in events if isinstance(e, RowChange)] == whole
    said = [event for event in events if isinstance(event, Quarantined)]
    data = [p for p in tree if p.startswith("shop/customers/") and p.endswith(".csv")]
    assert {s.position for s in said} == {FilePosition(path) for path in data}
    assert {s.error for s in said} == {"MissingSchema"}


def test_a_row_that_differs_from_its_checksum_is_quarantined() -> None:

    feed = feed_of("types/simple-json-checksum")
    changed = [
        m if b'"table":"t_dec"' not in (m.value or b"") else _with(m, b'"d2":"', b'"d2":"1')
        for m in records("types/simple-json-checksum")
    ]
    replay = ModelReplay(feed)
    replay.add(read_topic_events(feed, changed, None))
    replay.advance(replay.default_ts)
    kinds = {(p.kind, p.table) for p in replay.model.problems if p.data_may_differ}
    assert kinds == {("quarantined", "t_dec")}


def _with(message, old: bytes, new: bytes):
    return replace(message, value=message.value.replace(old, new))


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("protocol=csv", "date-separator = 'day'"),
        ("protocol=canal-json", "which has .json files"),
    ],
)
def test_data_files_that_do_not_fit_the_declaration_are_said(declared: str, reason: str) -> None:
    tree = storage_tree(DATASET)
    feed = changefeed_from_uri(f"file:///data?{declared}")
    said = [
        e for e in read_folder_events(feed, tree, tree.__getitem__) if isinstance(e, Quarantined)
    ]
    assert {s.position for s in said} == {FilePosition(p) for p in tree if p.endswith(".csv")}
    assert all(reason in s.reason for s in said)
