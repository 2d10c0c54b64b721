"""`check` reads a little of a source: what TiCDC wrote is well, as long as it is declared so."""

import os
from pathlib import Path

import pytest

from tests.cli.inputs import FOLDER, canal_row, canal_watermark, dump_of, unpacked
from tests.golden import datasets, released_datasets
from ticdc_assets.changefeed import changefeed_from_uri, load_changefeeds
from ticdc_assets.resources.finding import Finding
from ticdc_assets.resources.folder_sample import find_sample
from ticdc_assets.resources.inspect_source import inspect_source
from ticdc_assets.resources.storage import open_sink_folder

FOLDERS = [name for name in (*datasets(), *released_datasets()) if "/storage-" in name]


def inspect(file: Path) -> Finding:
    (feed,) = load_changefeeds(file).values()
    return inspect_source(feed)[-1]


@pytest.mark.parametrize("name", [name for name in FOLDERS if not name.startswith("random")])
def test_recorded_folders_are_as_they_are_declared(name: str, tmp_path: Path) -> None:
    # What TiCDC did not write is no obstacle.
    (tmp_path / "folder").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path / "folder") + b"/zz\xff")).mkdir()
    (tmp_path / "folder" / "zz").symlink_to(tmp_path)
    found = inspect(unpacked(name, tmp_path / "folder"))
    assert (found.result, found.message.partition(";")[0]) == ("ok", str(tmp_path / "folder"))


@pytest.mark.parametrize(
    ("parameters", "config", "reason", "fix"),
    [
        ("protocol=canal-json", "", "has .json files", "is written with protocol=csv: declare"),
        ("protocol=csv", "[sink]\ndate-separator = 'month'", "date-separator = 'month'", "declare"),
        ("protocol=csv", "[sink.csv]\ndelimiter = '|'", "decoded as csv: ", "and the config"),
    ],
)
def test_a_folder_that_was_written_with_other_settings_is_a_failure(
    tmp_path: Path, parameters: str, config: str, reason: str, fix: str
) -> None:
    file = unpacked(FOLDER, tmp_path / "folder")
    (tmp_path / "other.toml").write_text(config)
    uri = f"file://{tmp_path}/folder?{parameters}"
    file.write_text(f'[[changefeed]]\nid = "f"\nsink-uri = "{uri}"\nconfig = "other.toml"\n')
    found = inspect(file)
    assert (found.result, found.setting) == ("failure", "protocol")
    assert found.message.startswith("nothing that was read can be decoded as ")
    assert reason in found.message
    assert fix in (found.fix or "")


def test_few_directories_of_a_folder_are_listed(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / "d" / f"t{number:02}" / "5" / "2026-03-14").mkdir(parents=True)
    for name in ("t00", "t30"):
        (tmp_path / "d" / name / "5" / "2026-03-14" / "CDC00000000000000000001.csv").touch()
    folder = open_sink_folder(changefeed_from_uri(f"file://{tmp_path}?protocol=csv", id="f"))
    assert find_sample(folder) == []
    (tmp_path / "d" / "t59" / "5" / "2026-03-14" / "CDC00000000000000000001.csv").touch()
    assert find_sample(folder) == ["d/t59/5/2026-03-14/CDC00000000000000000001.csv"]


def test_one_input_that_is_damaged_is_no_failure_and_other_bytes_say_what_they_are(
    tmp_path: Path,
) -> None:
    uri = dump_of(tmp_path, canal_row("d", "t", 5), {"type": "?"}, canal_watermark(9))
    extended = changefeed_from_uri(uri, id="f")
    *stream, found = inspect_source(extended)
    assert (found.result, stream) == ("warning", [])
    assert found.message.startswith("1 of 3 events that were read cannot be decoded as canal-json")
    # The bytes have their commit ts, whether that is declared or not.
    undeclared = changefeed_from_uri(uri.replace("&enable-tidb-extension=true", ""), id="f")
    order, _ = inspect_source(undeclared)
    assert "every row has its commit ts" in order.message
    other = changefeed_from_uri(uri.replace("canal-json", "simple"), id="f")
    assert inspect_source(other)[-1].result == "failure"
