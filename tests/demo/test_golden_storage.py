"""What real servers wrote to folders, written again: the same bytes."""

import json
from decimal import Decimal
from itertools import groupby

import pytest

from tests.demo.golden_tables import (
    canal_invalid,
    canal_row,
    canonical,
    mysql_text,
    of_schema_file,
    only,
)
from tests.golden import datasets, find_folder, meta, storage_tree
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.demo.canal_json import CanalLines
from ticdc_assets.demo.change import ChangedRow as Change
from ticdc_assets.demo.csv_lines import CsvLines
from ticdc_assets.demo.number import exponent_form
from ticdc_assets.demo.schema_file import encode_database_schema, encode_table_schema
from ticdc_assets.events import FilePosition, RowChange, TableSchema, row_image
from ticdc_assets.storage_sink.path import Layout, TableSchemaPath, parse
from ticdc_assets.stream.folder_files import make_layout
from ticdc_assets.stream.reading import read_folder_events

CSV = [name for name in datasets("newarch-storage-csv-*") if "table-id" not in name]


def feed_of(dataset: str) -> Changefeed:
    parameters = meta(dataset)["sink-uri"].partition("?")[2]
    return changefeed_from_uri(
        f"file:///data?{parameters}", config=find_folder(dataset) / "changefeed.toml"
    )


@pytest.mark.parametrize(
    "dataset", [n for n in datasets("newarch-storage-*") if "table-id" not in n]
)
def test_schema_files_and_their_names(dataset: str) -> None:
    tree = storage_tree(dataset)
    schema_files = [path for path in tree if "/schema_" in path]
    assert len(schema_files) > 20
    for path in schema_files:
        stated = json.loads(tree[path])
        about = stated["TableVersion"], stated["Query"], stated["Type"], Layout()
        if stated["Table"]:
            written = encode_table_schema(of_schema_file(stated), *about)
        else:
            written = encode_database_schema(stated["Schema"], *about)
        assert written == (path, tree[path])


def schemas_of(tree: dict[str, bytes], layout: Layout) -> dict[tuple[str, str, int], TableSchema]:
    found = {}
    for path, content in tree.items():
        if isinstance(parsed := parse(path, layout), TableSchemaPath):
            assert parsed.database is not None
            assert parsed.table is not None
            key = parsed.database, parsed.table, parsed.version
            found[key] = of_schema_file(json.loads(content))
    return found


def texts(image: str | None, schema: TableSchema) -> tuple[str | None, ...] | None:
    """A row image of a CSV row as MySQL prints the row."""
    if image is None:
        return None
    row = row_image.load(image)
    found = []
    for column in schema.columns:
        text, kind = row[column.name], column.type
        if text is None or kind.name in ("enum", "set"):
            found.append(text)
        elif kind.name in ("float", "double"):
            found.append(f"{Decimal(text):f}")
        else:
            found.append(mysql_text(text, kind))
    return tuple(found)


@pytest.mark.parametrize("dataset", CSV)
def test_csv_files(dataset: str) -> None:
    tree, feed = storage_tree(dataset), feed_of(dataset)
    schemas = schemas_of(tree, make_layout(feed))
    rows = [e for e in read_folder_events(feed, tree, tree.__getitem__) if isinstance(e, RowChange)]
    files = 0
    for path, events in groupby(rows, key=lambda row: _path(row)):
        changes = list(events)
        first = changes[0]
        assert first.schema_version is not None
        stated = schemas[first.database, first.table, first.schema_version]
        schema = only(stated, list(row_image.load(first.after or first.before or "{}")))
        write = CsvLines(schema, feed.csv)
        lines = [write.header]
        for change in changes:
            old, new = texts(change.before, schema), texts(change.after, schema)
            if change.op == "update" and old is None:
                # Without old values, only the new ones are in the file.
                old = ()
            lines.append(write(Change(schema, old, new), change.commit_ts))
        assert "".join(lines).encode("utf-8", "surrogateescape") == tree[path]
        files += 1
    assert files > 30


def _path(row: RowChange) -> str:
    assert isinstance(row.position, FilePosition)
    return row.position.path


@pytest.mark.parametrize(
    ("plain", "printed"),
    [
        ("0", "0"),
        ("999999.5", "999999.5"),
        ("1000000", "1e+06"),
        ("2097152", "2.097152e+06"),
        ("-12345678.5", "-1.23456785e+07"),
        ("123456.7", "123456.7"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("0.0000123", "1.23e-05"),
        ("100000000000000000000", "1e+20"),
    ],
)
def test_floats_as_go_prints_them(plain: str, printed: str) -> None:
    assert exponent_form(plain) == printed


@pytest.mark.parametrize("dataset", datasets("newarch-storage-canal-json"))
def test_canal_json_files(dataset: str) -> None:
    checked = 0
    for path, content in storage_tree(dataset).items():
        if not path.endswith(".json") or "/schema_" in path:
            continue
        *lines, rest = content.split(b"\r\n")
        assert rest == b""
        for line in lines:
            message = json.loads(line)
            if canal_invalid(message):
                continue
            change = canal_row(message)
            again = CanalLines(change.table)(change, message["_tidb"]["commitTs"], message["ts"])
            assert canonical(again.encode()) == canonical(line + b"\r\n")
            checked += 1
    assert checked > 250
