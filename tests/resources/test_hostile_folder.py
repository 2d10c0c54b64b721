"""A folder that someone else can write to decides neither what is read nor how long that takes."""

import os
import socket
from pathlib import Path

import pytest
from pyarrow import fs

from tests.lake.addresses import need_none
from tests.resources.test_storage import declared, write_tree
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.cli.source import read_events
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import FilePosition, Quarantined
from ticdc_assets.lake.advance import advance
from ticdc_assets.resources.reading import open_source
from ticdc_assets.resources.source import read_checkpoint
from ticdc_assets.resources.storage import Folder
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader

DATA = "db/t/470608603860172800/CDC00000000000000000001.csv"


def open_folder(root: Path) -> Folder:
    return Folder(fs.LocalFileSystem(), str(root))


def problems(root: Path) -> dict[str, str]:
    """What is quarantined of a folder, by path."""
    found = {}
    for event in open_folder(root).quarantined():
        assert isinstance(event.position, FilePosition)
        found[event.position.path] = event.reason
    return found


def test_symbolic_links_are_reported_and_never_followed(tmp_path: Path) -> None:
    root = write_tree({DATA: b"1", "metadata": b"{}"}, tmp_path / "prefix")
    outside = write_tree({DATA: b"secret"}, tmp_path / "outside")
    (root / "db" / "loop").symlink_to(root)
    (root / "other").symlink_to(outside / "db")
    (root / "db/t/470608603860172800/CDC00000000000000000002.csv").symlink_to(outside / DATA)
    (root / "broken").symlink_to("nowhere")
    assert list(open_folder(root).paths()) == [DATA, "metadata"]
    reported = problems(root)
    assert sorted(reported) == [
        *("broken", "db/loop", "db/t/470608603860172800/CDC00000000000000000002.csv", "other"),
    ]
    assert all("symbolic link is not followed" in reason for reason in reported.values())
    with pytest.raises(OSError, match="symbolic link"):
        open_folder(root).read("db/t/470608603860172800/CDC00000000000000000002.csv")


def test_the_folder_itself_may_be_a_symbolic_link(tmp_path: Path) -> None:
    write_tree({DATA: b"1"}, tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert list(open_folder(tmp_path / "link").paths()) == [DATA]
    assert open_folder(tmp_path / "link").read(DATA) == b"1"


def test_pipes_and_sockets_are_reported_and_never_opened(tmp_path: Path) -> None:
    root = write_tree({"db/t/x.csv": b"1"}, tmp_path / "p")
    os.mkfifo(root / "metadata")
    os.mkfifo(root / "db" / "t" / "CDC000001.csv")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "s"))
    feed = changefeed_from_uri(f"file://{root}?protocol=csv")
    with pytest.raises(ConfigError, match="not a regular file"):
        read_checkpoint(feed)
    events = [event for event in read_events(feed) if isinstance(event, Quarantined)]
    reasons = {event.position: f"{event.error}: {event.reason}" for event in events}
    assert reasons == {
        FilePosition("metadata"): "MissingFile: not a regular file",
        FilePosition("db/t/CDC000001.csv"): "MalformedMessage: not a regular file",
        FilePosition("s"): "MalformedMessage: not a regular file",
    }


def test_a_path_that_is_not_utf8_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    root = write_tree({DATA: b"1", "db/u/x": b""}, tmp_path / "p")
    odd = os.fsencode(root) + b"/db/\xff"
    os.mkdir(odd)
    Path(os.fsdecode(odd + b"/CDC000001.csv")).touch()
    assert list(open_folder(root).paths()) == [DATA, "db/u/x"]
    assert problems(root) == {
        r"db/\xff/CDC000001.csv": "its path is not UTF-8, so TiCDC did not write it"
    }


def test_a_run_quarantines_paths_that_are_not_utf8_once(tmp_path: Path) -> None:
    root = write_tree({"metadata": b'{"checkpoint-ts": 470608603860172800}'}, tmp_path / "p")
    odd = [b"db/t/470608603860172800/CDC\xff.csv", b"db/\xfe/1/meta/schema_1_2.json", b"db/l\xfdnk"]
    for path in odd[:2]:
        whole = os.path.join(os.fsencode(root), path)
        os.makedirs(os.path.dirname(whole))
        Path(os.fsdecode(whole)).write_bytes(b"1")
    os.symlink(b"nowhere", os.path.join(os.fsencode(root), odd[2]))
    feed = changefeed_from_uri(f"file://{root}?protocol=csv")
    lake = LakeSession(need_none, Lake(str(tmp_path / "lake"), feed.id), feed)
    done = advance(lake, open_source(feed))
    assert done.decoded.quarantined == 3
    said = "its path is not UTF-8, so TiCDC did not write it"
    rows = LakeReader(lake.location).open("quarantine").to_pyarrow_table().to_pylist()
    assert {row["source"]: row["reason"].partition(":")[0] for row in rows} == {
        r"db/t/470608603860172800/CDC\xff.csv": said,
        r"db/\xfe/1/meta/schema_1_2.json": said,
        r"db/l\xfdnk": "a symbolic link is not followed",
    }
    assert advance(lake, open_source(feed)).is_idle


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be listed"):
        list(open_folder(tmp_path / "file").paths())
    assert not open_folder(tmp_path / "nowhere").exists()
    assert declared(tmp_path).location == str(tmp_path)
