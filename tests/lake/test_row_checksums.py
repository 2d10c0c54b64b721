"""A row that differs from the checksum TiCDC sent with it is not applied, and never shown later."""

from collections.abc import Collection
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.lake.reading import read_lines
from tests.reference.golden_feeds import feed_of, messages
from tests.schema.hashed_values import MAKERS, make_row
from ticdc_assets.checks.invariants import CheckContext, NotEvaluated, SnapshotRange
from ticdc_assets.checks.invariants.current import row_checksums_match
from ticdc_assets.events import (
    Bootstrap,
    Column,
    Op,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
)
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.protocols.message import Message
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.rows.images import ImageReader, Images
from ticdc_assets.rows.left_out import find_mismatches
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.verify.sampled_rows import SampleVerifier
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger

# Of some of their values the messages hold the text as it is.
TABLES = ("t_str", "t_json", "t_def", "t_cpk")


class Flipped(NamedTuple):
    """A lake of some tables, of which one row each had a bit of a value flipped on the way."""

    lake: LakeSession
    ts: int
    # By position: the name of the table.
    flipped: dict[TopicPosition, str]
    # The same stream without these rows.
    expected: ModelReplay
    records: list[Message]


@cache
def recorded(encoding: str) -> list[tuple[Message, list[object]]]:
    """Return the records of the tables, each with its events."""
    feed = feed_of(f"types/simple-{encoding}-checksum")
    found = []
    for message in messages(feed):
        events = list(read_topic_events(feed, [message], None))
        named = {e.table for e in events if isinstance(e, RowChange | SchemaChange)}
        named |= {e.schema.table for e in events if isinstance(e, Bootstrap)}
        if named <= {"", *TABLES}:
            found.append((message, events))
    return found


def flip(message: Message, change: RowChange) -> Message | None:
    """Flip the last bit of a value that stands once in an insert, or in none."""
    key = set(change.key_columns or ())
    value = message.value
    assert value is not None
    assert change.after is not None
    for name, text in sorted(load(change.after).items(), reverse=True):
        raw = (text or "").encode(errors="replace")
        if name in key or len(raw) < 4 or value.count(raw) != 1 or not raw[-1:].isalnum():
            continue
        at = value.index(raw) + len(raw) - 1
        return replace(message, value=value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])
    return None


def _can_be_flipped(change: RowChange, flipped: Collection[str]) -> bool:
    is_hashed = change.checksum is not None and not change.checksum.corrupted
    return is_hashed and change.op is Op.INSERT and change.table not in flipped


def flip_one_row_per_table(encoding: str) -> tuple[list[Message], dict[TopicPosition, str]]:
    records, flipped = [], {}
    for message, events in recorded(encoding):
        (change,) = events if isinstance(events[0], RowChange) else (None,)
        changed = None
        if isinstance(change, RowChange) and _can_be_flipped(change, flipped.values()):
            changed = flip(message, change)
        if changed is not None:
            assert isinstance(change.position, TopicPosition)
            flipped[change.position] = change.table
        records.append(changed or message)
    return records, flipped


@pytest.fixture(scope="module", params=["json", pytest.param("avro", marks=pytest.mark.all_golden)])
def made(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Flipped:
    feed = feed_of(f"types/simple-{request.param}-checksum")
    records, flipped = flip_one_row_per_table(request.param)
    root = tmp_path_factory.mktemp("checksums")
    lake = LakeSession(spark, Lake(str(root), "flipped"), feed)
    done = advance(lake, RecordSource(lambda _: iter(records)))
    expected = ModelReplay(feed)
    for _, events in recorded(request.param):
        expected.add(e for e in events if e.position not in flipped)
    expected.advance(done.applied.resolved_ts)
    return Flipped(lake, done.applied.resolved_ts, flipped, expected, records)


def test_a_row_with_a_flipped_bit_is_quarantined_and_all_others_are_applied(made: Flipped) -> None:
    assert sorted(made.flipped.values()) == sorted(TABLES)
    rows = [row.asDict() for row in read_table(made.lake, "quarantine").collect()]
    found = {
        TopicPosition(row["source"], row["partition"], row["number"], row["index"]): row
        for row in rows
    }
    assert len(found) == len(rows)
    assert {place: row["table"] for place, row in found.items()} == made.flipped
    for row in rows:
        assert row["stage"] == "apply"
        assert row["raw"]
        if row["error"] == "RowChecksumMismatch":
            assert "the current checksum is stated as" in row["reason"]
    errors = [row["error"] for row in rows]
    # A flip may also make a text that its column cannot hold.
    assert errors.count("RowChecksumMismatch") >= 3
    shown = as_of(made.lake, made.ts)
    tables = {t.schema.table: t for t in shown.tables()}
    assert set(TABLES) <= set(tables)
    for table in TABLES:
        theirs = made.expected.encode_table(made.expected.find_table(f"types_db.{table}"))
        assert theirs is not None
        assert sorted(read_lines(made.lake, shown, tables[table])) == sorted(theirs), table
    ledger = build_ledger(LakeReader(made.lake.location), read_last_snapshot(made.lake))
    assert ledger.adds_up


def test_the_reference_model_quarantines_the_same_rows(made: Flipped) -> None:
    model = ModelReplay(made.lake.feed)
    model.add(read_topic_events(made.lake.feed, made.records, None))
    model.advance(made.ts)
    found = {p.position: p.table for p in model.problems() if p.kind == "quarantined"}
    assert found == made.flipped


def test_stored_rows_have_their_checksums_until_one_is_altered(made: Flipped) -> None:
    lake, snapshot = made.lake, read_last_snapshot(made.lake)
    tables = {table.schema.table: table for table in snapshot.state.incarnations.values()}
    chosen = [tables[name] for name in TABLES]
    changed = SnapshotRange(0, snapshot.snapshot_id)
    verifier = SampleVerifier(LakeReader(lake.location))
    samples = {
        t.schema.table: verifier.verify(t.id, snapshot.versions[t.id], 1000, Random(1))
        for t in chosen
    }
    assert {name: sample.altered for name, sample in samples.items() if sample.altered} == {}
    # Nearly all rows of these tables came with a checksum, and none was altered by a DDL.
    assert {name for name, sample in samples.items() if not sample.right} == set()
    assert sum(sample.right for sample in samples.values()) > 80
    table = tables["t_str"]
    version = snapshot.versions[table.id]
    assert verifier.verify(table.id, version, 5, Random(1)).right <= 5

    name, row = alter(lake, table.id, version)
    with CheckContext(lake, changed) as context:
        found = row_checksums_match.find(context, chosen)
    assert not any(isinstance(result, NotEvaluated) for result in found.values())
    rows = {id: result.collect() for id, result in found.items()}
    ((id, (violation,)),) = [(id, some) for id, some in rows.items() if some]
    assert (id, violation["file"]) == (table.id, name)
    events = read_table(lake, "events").where(f"kind = 'row' AND commit_ts = {row['_commit_ts']}")
    places = [
        str(TopicPosition(e["source"], e["partition"], e["number"], e["index"]))
        for e in events.collect()
        if e["after"] and load(e["after"])["id"] == str(row["id"])
    ]
    assert [violation["position"]] == places
    assert violation["stated"] != violation["computed"]
    assert "altered" not in str(violation)


def alter(lake: LakeSession, incarnation: str, version: int) -> tuple[str, dict[str, Any]]:
    """Alter a value in a table's data file; return the file's name and the row."""
    (file,) = StoredRows(LakeReader(lake.location), f"current/{incarnation}", version).state.files
    path = Path(lake.current_path(incarnation), file.path)
    stored = pq.read_table(path)
    at, texts = 3, stored["vc"].to_pylist()
    texts[at] = "altered"
    column = stored.schema.get_field_index("vc")
    pq.write_table(stored.set_column(column, stored.field(column), pa.array(texts)), path)
    return file.path, stored.slice(at, 1).to_pylist()[0]


def test_rows_of_every_type_are_verified_as_they_are_stored() -> None:
    types = map(parse_type, MAKERS)
    schema = TableSchema("d", "t", tuple(Column(f"c{n}", type) for n, type in enumerate(types)))
    random = Random(7)
    rows = [make_row(random) for _ in range(300)]
    after = pa.array([dump(texts) for texts, _ in rows])
    none = pa.nulls(len(rows), pa.string())
    # Every tenth checksum is wrong.
    stated = [
        {"version": 1, "corrupted": False, "current": crc ^ (n % 10 == 0), "previous": 0}
        for n, (_, crc) in enumerate(rows)
    ]
    events = pa.table({"before": none, "after": after, "checksum": stated})
    _, new = ImageReader(schema, None, member_names=False).read(Images(none, after))
    key_only = pa.array([False] * len(rows))
    assert set(find_mismatches(events, new, key_only, schema)) == set(range(0, 300, 10))
