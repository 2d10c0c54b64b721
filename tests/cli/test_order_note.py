"""What `replay` says of the order of rows: as the bytes are, not as the declaration has it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.inputs import canal_row, dump_of, unpacked

CERTAIN = "note: enable-tidb-extension is not declared, but every row has its commit ts"
UNCERTAIN = "note: without enable-tidb-extension, rows carry milliseconds"
MIXED = "note: without enable-tidb-extension, some rows carry milliseconds"


@pytest.mark.parametrize(
    ("ts", "note"), [((5, 6), CERTAIN), ((None, None), UNCERTAIN), ((5, None), MIXED)]
)
def test_the_note_is_about_the_messages_of_a_topic(
    run: Run, tmp_path: Path, ts: tuple[int | None, ...], note: str
) -> None:
    rows = [
        canal_row(
            *("d", "t", 0),
            data=[{"id": str(number)}],
            es=number,
            _tidb={} if commit_ts is None else {"commitTs": commit_ts},
        )
        for number, commit_ts in enumerate(ts, 1)
    ]
    uri = dump_of(tmp_path, *rows).removesuffix("&enable-tidb-extension=true")
    code, out, err = run("replay", "--sink-uri", uri, "--table", "d.t")
    assert (code, len(out.splitlines())) == (0, 2)
    assert next(line for line in err if line.startswith("note: ")).startswith(note)


@pytest.mark.parametrize(
    ("dataset", "note"),
    [
        ("lifecycle/storage-canal-json", CERTAIN),
        ("lifecycle/storage-canal-json-no-ext", UNCERTAIN),
    ],
)
def test_the_note_is_about_the_files_of_a_folder(
    run: Run, tmp_path: Path, dataset: str, note: str
) -> None:
    feeds = unpacked(dataset, tmp_path / "folder")
    feeds.write_text(feeds.read_text().replace("&enable-tidb-extension=true", ""))
    _, _, err = run("replay", "--changefeeds", feeds, "--out", tmp_path / "out")
    assert next(line for line in err if "enable-tidb-extension" in line).startswith(note)
