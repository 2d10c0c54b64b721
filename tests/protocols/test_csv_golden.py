import json
from collections import Counter
from functools import cache
from typing import Any, NamedTuple

import pytest

from tests.golden import datasets, meta, records
from tests.protocols.csv_files import data_files, feed_of
from tests.usual import usual_datasets
from ticdc_assets.events import RowChange, TableSchema, row_image
from ticdc_assets.protocols.csv.decoder import CsvDecoder


class Change(NamedTuple):
    op: str
    database: str
    table: str
    commit_ts: int | None
    before: str | None
    after: str | None


@cache
def truth(dataset: str) -> list[tuple[Change, int]]:
    """The row changes that a simple-json dataset states, and their physical table ids."""
    types: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = {}
    changes = []
    messages = [json.loads(record.value or b"") for record in records(dataset)]
    for message in messages:
        if schema := message.get("tableSchema"):
            types[schema["schema"], schema["table"], schema["version"]] = {
                column["name"]: column["dataType"] for column in schema["columns"]
            }
    for message in messages:
        if message["type"] in ("INSERT", "UPDATE", "DELETE"):
            of = types[message["database"], message["table"], message["schemaVersion"]]
            before, after = (stated_row(message.get(key), of) for key in ("old", "data"))
            place = message["database"], message["table"], message["commitTs"]
            change = Change(message["type"].lower(), *place, before, after)
            changes.append((change, message["tableID"]))
    return changes


def stated_row(row: dict[str, Any] | None, types: dict[str, dict[str, Any]]) -> str | None:
    if row is None:
        return None
    texts = {}
    for name, value in row.items():
        # The dataset comes from a server in UTC.
        text = value["value"] if isinstance(value, dict) else value
        kind = types[name]["mysqlType"]
        members = types[name].get("elements")
        if text is not None and kind == "enum":
            text = members[int(text) - 1]
        elif text is not None and kind == "set":
            text = ",".join(m for bit, m in enumerate(members) if int(text) >> bit & 1)
        texts[name] = text
    return comparable(texts, {name: kind["mysqlType"] for name, kind in types.items()})


def comparable(row: dict[str, str | None], types: dict[str, str]) -> str:
    """Floats may be written in several ways."""
    return json.dumps(
        {
            name: repr(float(text)) if text and types[name] in ("float", "double") else text
            for name, text in sorted(row.items())
        }
    )


def decoded_change(event: RowChange, schema: TableSchema) -> Change:
    types = {column.name: column.type.name for column in schema.columns}
    before, after = (
        None if image is None else comparable(row_image.load(image), types)
        for image in (event.before, event.after)
    )
    stated = event.commit_ts if event.ordering == "commit_ts" else None
    return Change(event.op.value, event.database, event.table, stated, before, after)


@pytest.mark.parametrize("dataset", usual_datasets(datasets("*storage-csv*")))
def test_real_files_have_the_rows_of_the_simple_protocol(dataset: str) -> None:
    feed = feed_of(dataset)
    decoder = CsvDecoder(dialect=feed.csv, tz=feed.tz)
    oracle = dataset.split("/")[0] + "/simple-json"
    for variant in ("force-replicate", "raw-change"):
        if dataset.endswith(variant):
            oracle += f"-{variant}"
    filtered_out = meta(dataset).get("filtered_out", [])
    expected: Counter[Change] = Counter()
    ids = set()
    for change, table_id in truth(oracle):
        if f"{change.database}.{change.table}" in filtered_out:
            continue
        if not feed.csv.include_commit_ts:
            change = change._replace(commit_ts=None)
        if change.op == "update" and not feed.csv.output_old_value:
            change = change._replace(before=None)
        expected[change] += 1
        ids.add((change, table_id))
    found: Counter[Change] = Counter()
    for file in data_files(dataset):
        assert file.schema is not None
        for event in decoder.decode_file(file):
            assert isinstance(event, RowChange), event
            assert event.schema_version == file.version
            assert event.member_names
            change = decoded_change(event, file.schema)
            if event.ordering == "table_version":
                assert event.commit_ts == file.version
            if event.table_id is not None:
                assert (change, event.table_id) in ids
            found[change] += 1
    if "restart" in dataset:
        # Some rows are sent again.
        assert found >= expected
        assert found.keys() == expected.keys()
    else:
        assert found == expected
