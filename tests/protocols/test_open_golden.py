"""Open Protocol: every golden message, value by value against the same workload's simple-json."""

from collections import defaultdict
from zoneinfo import ZoneInfo

import pytest

from tests.golden import datasets, find_folder, records
from tests.protocols import oracle
from tests.usual import usual_datasets
from ticdc_assets.events import (
    Column,
    ColumnType,
    Event,
    Op,
    Quarantined,
    RowChange,
    SchemaChange,
    TableSchema,
    Watermark,
)
from ticdc_assets.protocols.open_protocol.decoder import OpenProtocolDecoder
from ticdc_assets.protocols.open_protocol.flags import redecode

TOPICS = datasets("*open-protocol*")


def decoded(dataset: str) -> list[Event]:
    decoder = OpenProtocolDecoder(
        tz=ZoneInfo(oracle.zone(dataset)),
        compression=oracle.compression(dataset),
        payloads=oracle.Folder(find_folder(dataset) / "claim-check"),
        updated_columns_only="only-updated" in dataset,
    )
    return [event for record in records(dataset) for event in decoder.decode(record)]


def schema_of(event: RowChange, workload: oracle.Workload) -> TableSchema:
    types = workload.types[event.database, event.table, event.commit_ts]
    columns = tuple(Column(name, ColumnType(of)) for name, of in types.items())
    return TableSchema(event.database, event.table, columns)


@pytest.mark.parametrize("dataset", usual_datasets(TOPICS))
def test_a_topic_has_the_events_of_the_simple_protocol(dataset: str) -> None:
    events = decoded(dataset)
    assert not [event for event in events if isinstance(event, Quarantined)]
    if oracle.repeats_another(dataset):
        return

    workload = oracle.workload(dataset)
    rows = [event for event in events if isinstance(event, RowChange)]
    assert all(workload.knows_key_of(event) for event in rows)
    assert any(event.table_id for event in rows)
    assert all(event.key_columns for event in rows) or "force-replicate" in dataset
    redecoded = rows
    # Only the new generation sends flags of before a DDL.
    if "newarch" in dataset:
        redecoded = [redecode(event, schema_of(event, workload)) for event in rows]
    assert not workload.ddl_differences(e for e in events if isinstance(e, SchemaChange))
    marks = defaultdict(set)
    for event in events:
        if isinstance(event, Watermark):
            marks[event.position.topic, event.position.partition].add(event.ts)
    assert set.union(*marks.values()) == workload.watermarks

    partial = [
        event
        for event in redecoded
        if event.handle_key_only or ("delete-handle-key" in dataset and event.op is Op.DELETE)
    ]
    assert not workload.partial_differences(partial)
    assert bool(partial) == ("handle-key" in dataset)

    # A row without its old values may be an insert or an update of which nothing is left to show.
    unclear = [event for event in redecoded if event.op is Op.UPSERT]
    assert bool(unclear) == ("only-updated" in dataset)
    inserts = [with_op(event, Op.INSERT) for event in unclear]
    unknown, missing = workload.differences(
        [event for event in redecoded if event not in partial and event.op is not Op.UPSERT]
        + inserts
    )
    assert not unknown
    assert len(missing) == len(partial), "only what came with some columns may be missing"
    assert any(event.claim_check_digest for event in rows) == ("claim-check" in dataset)


def with_op(event: RowChange, op: Op) -> RowChange:
    return RowChange(
        **{name: getattr(event, name) for name in event.__struct_fields__} | {"op": op}
    )


def test_a_row_with_stale_flags_is_decoded_again_by_its_schema() -> None:
    dataset = "random_1/newarch-open-protocol"
    workload = oracle.workload(dataset)
    rows = [event for event in decoded(dataset) if isinstance(event, RowChange)]
    changed = [
        (event, redecoded)
        for event in rows
        if (redecoded := redecode(event, schema_of(event, workload))) is not event
    ]
    # `c37` was an INT, whose binary flag is still sent with the VARCHAR that it has become.
    assert {(event.database, event.table) for event, _ in changed} == {("rnd_b", "t3")}
    for event, redecoded in changed:
        assert '"c37":"varbinary"' in (event.observed or "")
        assert '"c37":"varchar"' in (redecoded.observed or "")
    unknown, _ = workload.differences(event for event, _ in changed)
    assert unknown
