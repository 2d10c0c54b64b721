"""Paths of storage-sink folders: parsing and building."""

import re
import tomllib

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.golden import datasets, find_folder, released_datasets, storage_tree
from ticdc_assets.storage_sink.path import (
    DatabaseSchemaPath,
    DataPath,
    IndexPath,
    Layout,
    MetadataPath,
    StoragePath,
    TableSchemaPath,
    build,
    parse,
)

NOW = 470608230758219776  # a table version

names = st.one_of(
    st.sampled_from(
        ["meta", "5", "2024", "2024-01-02", "metadata", "a.b", "a b", "表 名", "CDC", "..."]
    ),
    st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1),
).filter(lambda name: name not in (".", ".."))
ids = st.integers(1, 1 << 48)
versions = st.integers(NOW, (1 << 64) - 1)
dispatchers = st.none() | st.integers(1 << 64, 1 << 128).map(str)
layouts = st.builds(
    Layout,
    date_separator=st.sampled_from(["none", "year", "month", "day"]),
    partition_separator=st.booleans(),
    digits=st.integers(6, 20),
    table_id_as_path=st.booleans(),
    across_nodes=st.booleans(),
    extension=st.sampled_from([".csv", ".json"]),
)
DATES = {"none": st.none(), "year": st.dates().map(lambda day: f"{day.year:04}")}
DATES["month"] = st.dates().map(lambda day: f"{day.year:04}-{day.month:02}")
DATES["day"] = st.dates().map(str)


@st.composite
def stored(draw: st.DrawFn) -> tuple[StoragePath, Layout]:
    layout = draw(layouts)
    owner: dict[str, object] = {"database": draw(names), "table": draw(names)}
    if layout.table_id_as_path:
        owner = {"table_id": draw(ids)}
    place = owner | {"version": draw(versions), "date": draw(DATES[layout.date_separator])}
    if layout.partition_separator and not layout.table_id_as_path:
        place["partition_id"] = draw(st.none() | ids)
    checksum = {"version": draw(versions), "checksum": draw(st.integers(0, (1 << 32) - 1))}
    first = {"version": draw(versions), "checksum": None}
    kinds: list[StoragePath] = [
        MetadataPath(),
        TableSchemaPath(**owner, **checksum),
        IndexPath(**place, dispatcher=draw(dispatchers)),
        DataPath(**place, dispatcher=draw(dispatchers), number=draw(st.integers(1, 999_999))),
    ]
    if not layout.table_id_as_path:
        kinds.append(DatabaseSchemaPath(database=draw(names), **checksum))
        kinds.append(TableSchemaPath(**owner, **first))
    return draw(st.sampled_from(kinds)), layout


@given(stored())
def test_every_built_path_parses_to_the_same_value(case: tuple[StoragePath, Layout]) -> None:
    parsed, layout = case
    assert parse(build(parsed, layout), layout) == parsed


@given(st.text(st.sampled_from("a5/_.CDC0128metaschj.nov-"), max_size=60), layouts)
@example("a//1/CDC000001.csv", Layout(date_separator="none"))
@example("../../1/CDC000001.csv", Layout(date_separator="none"))
@example("a/b/٣/CDC000001.csv", Layout(date_separator="none"))
@example("a/b/18446744073709551616/CDC000001.csv", Layout(date_separator="none"))
@example("a/meta/schema_1_9999999999.json", Layout())
@example("a/b/7/schema.json", Layout())
@example("a/7/schema.json", Layout())
@example("a/b/7/schema.json", Layout(table_id_as_path=True))
def test_every_parsed_path_builds_to_the_same_path(path: str, layout: Layout) -> None:
    parsed = parse(path, layout)
    if parsed is None:
        return
    if isinstance(parsed, DataPath):
        width = re.search(r"([0-9]+)\.[a-z]+$", path)
        assume(width is not None and len(width[1]) == layout.digits)
    assert build(parsed, layout) == path


def data(path: str, **settings: object) -> tuple[object, ...] | None:
    parsed = parse(path, Layout(**settings))
    if parsed is None:
        return None
    assert isinstance(parsed, DataPath)
    return parsed.database, parsed.table, parsed.version, parsed.partition_id, parsed.date


@pytest.mark.parametrize(
    ("path", "date_separator", "expected"),
    [
        ("a/b/9/123/CDC000001.csv", "none", ("a", "b", 9, 123, None)),
        ("a/b/9/2024/CDC000001.csv", "year", ("a", "b", 9, None, "2024")),
        ("a/b/9/123/2024/CDC000001.csv", "year", ("a", "b", 9, 123, "2024")),
        ("5/6/4500000/CDC000001.csv", "none", ("5", "6", 4500000, None, None)),
        ("db/meta/123456/CDC000001.csv", "none", ("db", "meta", 123456, None, None)),
        ("a/b/9/CDC000001.csv", "day", None),
        ("a/b/9/2024-02/CDC000001.csv", "day", None),
        # A slash in a name makes one more level.
        ("a/b/c/9/CDC000001.csv", "none", ("a", "b/c", 9, None, None)),
        (f"a/b/5/{NOW}/CDC000001.csv", "none", ("a", "b/5", NOW, None, None)),
        (f"a/b/5/{NOW}/77/CDC000001.csv", "none", ("a", "b/5", NOW, 77, None)),
    ],
)
def test_a_directory_is_parsed_by_the_layout(
    path: str, date_separator: str, expected: tuple[object, ...] | None
) -> None:
    assert data(path, date_separator=date_separator) == expected


def test_without_partition_directories_a_number_belongs_to_the_table() -> None:
    path = f"a/5/{NOW}/CDC000001.csv"
    assert data(path, date_separator="none", partition_separator=False) == (
        "a", "5", NOW, None, None,
    )  # fmt: skip


def test_a_table_named_meta_has_its_own_meta_directory() -> None:
    name = f"schema_{NOW}_0000000007.json"
    assert parse(f"db/meta/{name}", Layout()) == DatabaseSchemaPath(
        database="db", version=NOW, checksum=7
    )
    assert parse(f"db/meta/meta/{name}", Layout()) == TableSchemaPath(
        database="db", table="meta", version=NOW, checksum=7
    )


@pytest.mark.parametrize("width", [6, 11, 20])
def test_file_numbers_of_any_width_are_read(width: int) -> None:
    parsed = parse(f"a/b/9/CDC{7:0{width}}.csv", Layout(date_separator="none", digits=20))
    assert isinstance(parsed, DataPath)
    assert parsed.number == 7


@pytest.mark.parametrize(
    "path",
    [
        "a/b/9/CDC000001.csv.tmp",
        "a/b/9/CDC000001.csv.tmp.5f0c0a52-6f2e-4d3a-9b0c-1de2f1ad0c3a",
        "a/b/9/CDC00001.csv",
        "a/b/9/CDC000001.json",
        "a/b/9/CDC_000001.csv",
        "a/b/09/CDC000001.csv",
        "a/9/CDC000001.csv",
        "a/b/9/meta/CDC.index.tmp",
        "a/b/meta/schema_1_123.json",
        "a/b/meta/schema_1_0000000123.json.tmp",
        "meta/schema_1_0000000123.json",
        "metadata.tmp",
        "x/metadata",
        "CDC000001.csv",
        "",
        "/",
    ],
)
def test_temporary_and_foreign_files_parse_to_none(path: str) -> None:
    assert parse(path, Layout(date_separator="none")) is None


def test_names_parse_to_none_if_the_layout_uses_table_ids() -> None:
    layout = Layout(date_separator="none", table_id_as_path=True)
    assert parse("120/9/CDC000001.csv", layout) == DataPath(table_id=120, version=9, number=1)
    assert parse("120/meta/schema_9_0000000001.json", layout) == TableSchemaPath(
        table_id=120, version=9, checksum=1
    )
    assert parse("a/b/9/CDC000001.csv", layout) is None
    assert parse("a/meta/schema_9_0000000001.json", layout) is None


def golden_layout(dataset: str) -> Layout:
    settings = tomllib.loads((find_folder(dataset) / "changefeed.toml").read_text()).get("sink", {})
    return Layout(
        date_separator=settings.get("date-separator", "day"),
        partition_separator=settings.get("enable-partition-separator", True),
        digits=settings.get("file-index-digit", 20),
        table_id_as_path="table-id-path" in dataset,
        across_nodes="across-nodes" in dataset,
        extension=".json" if "canal" in dataset else ".csv",
    )


@pytest.mark.parametrize("dataset", [*datasets("*storage*"), *released_datasets("*storage*")])
def test_every_path_of_a_recorded_folder_survives_a_round_trip(dataset: str) -> None:
    layout = golden_layout(dataset)
    for path in storage_tree(dataset):
        parsed = parse(path, layout)
        assert parsed is not None, path
        assert build(parsed, layout) == path
