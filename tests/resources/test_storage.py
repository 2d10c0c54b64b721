"""Folders are read and never written, whatever their names; errors name the place."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyarrow import fs

from tests.golden import GOLDEN, storage_tree
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import FilePosition, Quarantined, RowChange, Watermark
from ticdc_assets.resources import storage
from ticdc_assets.resources.storage import (
    Folder,
    open_claim_check_folder,
    open_export_folder,
    open_sink_folder,
)
from ticdc_assets.stream.reading import read_folder_events

DATASET = "types/storage-csv-full"


def write_tree(tree: dict[str, bytes], folder: Path) -> Path:
    for path, content in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def declared(folder: Path) -> Changefeed:
    config = GOLDEN / DATASET / "changefeed.toml"
    return changefeed_from_uri(f"file://{folder}?protocol=csv", config=config)


def read_state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    state = {str(p): (p.stat().st_mtime_ns, p.stat().st_mode, p.read_bytes()) for p in files}
    return state | {
        str(p): (p.stat().st_mtime_ns, p.stat().st_mode, b"")
        for p in [folder, *folder.rglob("*")]
        if p.is_dir()
    }


def test_listing_and_reading_changes_nothing(tmp_path: Path) -> None:
    tree = storage_tree(DATASET)
    write_tree(tree, tmp_path)
    before = read_state(tmp_path)
    folder = open_sink_folder(declared(tmp_path))
    assert folder.exists()
    assert list(folder.paths()) == sorted(tree)
    assert {path: folder.read(path) for path in folder.paths()} == tree
    assert RowChange in map(
        type, read_folder_events(declared(tmp_path), folder.paths(), folder.read)
    )
    assert read_state(tmp_path) == before


@pytest.mark.parametrize("name", ["a b", "表 with 空格", "per%20cent", "pre#fix", "dot.dot", "..."])
@pytest.mark.parametrize("end", ["", "/", "//"])
def test_a_prefix_may_have_any_name(tmp_path: Path, name: str, end: str) -> None:
    write_tree({"ws 数据/t 1/x.csv": b"1", "metadata": b"{}"}, tmp_path / name)
    escaped = name.replace("%", "%25").replace(" ", "%20").replace("#", "%23")
    folder = open_sink_folder(changefeed_from_uri(f"file://{tmp_path}/{escaped}{end}?protocol=csv"))
    assert list(folder.paths()) == ["metadata", "ws 数据/t 1/x.csv"]
    assert folder.read("ws 数据/t 1/x.csv") == b"1"


@pytest.mark.parametrize("way", ["{}/./x/../prefix", "{}//prefix/"])
def test_paths_are_relative_however_the_prefix_is_written(tmp_path: Path, way: str) -> None:
    write_tree({"d/t/1/CDC000001.csv": b""}, tmp_path / "prefix")
    (tmp_path / "x").mkdir()
    folder = open_sink_folder(changefeed_from_uri(f"file://{way.format(tmp_path)}?protocol=csv"))
    assert list(folder.paths()) == ["d/t/1/CDC000001.csv"]


def test_a_missing_path_and_a_file_are_no_folders(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nowhere", "file", "file/inside"):
        assert not open_sink_folder(declared(tmp_path / name)).exists()


def test_a_folder_that_vanishes_while_reading_is_reported_file_by_file(tmp_path: Path) -> None:
    tree = storage_tree(DATASET)
    folder = open_sink_folder(declared(write_tree(tree, tmp_path / "prefix")))
    events = read_folder_events(declared(tmp_path / "prefix"), folder.paths(), folder.read)
    assert isinstance(next(events), Watermark)
    first_schema = next(events)
    shutil.rmtree(tmp_path / "prefix")
    rest = list(events)
    assert {(type(event), event.error) for event in rest} == {(Quarantined, "MissingFile")}
    lost = {event.position for event in rest} | {first_schema.position}
    assert lost == {FilePosition(p) for p in tree if p.endswith((".json", ".csv"))}


def test_a_folder_that_vanishes_before_it_is_listed_is_empty(tmp_path: Path) -> None:
    folder = open_sink_folder(declared(tmp_path / "prefix"))
    assert (
        list(read_folder_events(declared(tmp_path / "prefix"), folder.paths(), folder.read)) == []
    )


def test_unreadable_files_are_reported_and_the_others_read(tmp_path: Path) -> None:
    tree = dict(storage_tree(DATASET))
    feed = declared(write_tree(tree, tmp_path))
    lost = [p for p in tree if p == "metadata" or "/t_dec/" in p]
    for path in lost:
        # Not even root can read a directory as a file.
        (tmp_path / path).unlink()
        (tmp_path / path).mkdir()
    folder = Folder(fs.LocalFileSystem(), str(tmp_path))
    events = list(read_folder_events(feed, sorted(tree), folder.read))
    quarantined = {event.position: event for event in events if isinstance(event, Quarantined)}
    assert set(quarantined) == {FilePosition(path) for path in lost if not path.endswith(".index")}
    assert {event.error for event in quarantined.values()} == {"MissingFile"}
    assert not any("\n" in event.reason for event in quarantined.values())
    tables = {event.table for event in events if isinstance(event, RowChange)}
    assert "t_dec" not in tables
    assert "t_int" in tables


def test_the_checkpoint_is_read_before_the_folder_is_listed() -> None:
    tree = storage_tree(DATASET)
    done: list[str] = []

    def listing() -> Iterator[str]:
        done.append("listed")
        yield from tree

    def read(path: str) -> bytes:
        done.append(path)
        return tree[path]

    events = list(read_folder_events(declared(Path("/nowhere")), listing(), read))
    assert done[:2] == ["metadata", "listed"]
    assert done.count("metadata") == 1
    assert [event.position for event in events if isinstance(event, Watermark)] == [
        FilePosition("metadata")
    ]


def test_a_listing_happens_at_first_use(tmp_path: Path) -> None:
    paths = Folder(fs.LocalFileSystem(), str(tmp_path)).paths()
    (tmp_path / "late").touch()
    assert list(paths) == ["late"]


def test_claim_check_objects_are_fetched_by_their_name(tmp_path: Path) -> None:
    write_tree({"one.json": b"1"}, tmp_path / "claims")
    uri = "dump:///x.jsonl?protocol=simple"
    assert open_claim_check_folder(changefeed_from_uri(uri)) is None
    claims = changefeed_from_uri(uri, claim_check_storage=f"file://{tmp_path}/claims")
    store = open_claim_check_folder(claims)
    assert store is not None
    assert store.fetch("one.json") == b"1"
    with pytest.raises(FileNotFoundError):
        store.fetch("two.json")


SECRETS = "access-key=AKIDSECRET1&secret-access-key=SECRET2%2F%2B&session-token=SECRET3"


@pytest.mark.parametrize(
    "uri",
    [
        f"s3://bucket/x?protocol=csv&endpoint=http://127.0.0.1:1&{SECRETS}",
        "s3://bucket/x?protocol=csv&endpoint=http://127.0.0.1:1&access-key=SECRET1",
        f"s3://bucket/x?protocol=csv&endpoint=http://127.0.0.1:1&{SECRETS}&role-arn=arn:aws:iam::1:role/x",
        "azure://bucket/x?protocol=csv&account-key=SECRET1",
        "azure://bucket/x?protocol=csv&account-name=a&account-key=SECRET1&sas-token=SECRET2",
        "azure://bucket/x?protocol=csv&account-name=a&account-key=SECRET!"
        "&endpoint=http://127.0.0.1:1/a",
    ],
)
def test_the_error_for_an_unreadable_bucket_is_one_line_without_secrets(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    feed = changefeed_from_uri(uri)
    for setting, open_folder in (
        ("sink-uri", lambda: open_sink_folder(feed)),
        ("DIR", lambda: open_export_folder(feed.location, feed.options)),
    ):
        with pytest.raises(ConfigError) as caught:
            open_folder().exists()
        assert caught.value.setting == setting
        assert "SECRET" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_gcs_bucket_that_does_not_answer_is_an_error_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(storage, "_GCS_RETRY_LIMIT", timedelta(seconds=1))
    uri = "gcs://bucket/x?protocol=csv&endpoint=http://127.0.0.1:1"
    with pytest.raises(ConfigError, match=r"bucket/x cannot be read: .*connect"):
        open_sink_folder(changefeed_from_uri(uri)).exists()
