"""A lake on an S3 server that keeps versions of objects: its events are folded, and a row erased.

What is left is searched in what the server has of every object, whatever the lake says.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from tests.lake.canal import ddl, watermark
from tests.lake.erasing import PERSON_FEED, Person, PersonLake
from tests.lake.privately import find_in_files
from tests.lake.test_fold import STEPS as FOLD_STEPS
from tests.resources.s3_account import open_client, s3_account
from tests.truth import Row
from tests.usual import usual
from ticdc_assets.erase import erase as erasing
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.events import folded_events
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.erasures import read_erasures
from ticdc_assets.log.folds import read_folds
from ticdc_assets.store import file_rewrites, old_files, purge
from ticdc_assets.store.object_versions import describe_object_versions
from ticdc_assets.views.ledger import build_ledger

BUCKET = "lakes"
TEXTS = {Person.ID, *Person.TEXTS[:2]}
Step = tuple[Any, str]
# In their order.
ERASE_STEPS: list[Step] = [
    *((erasing, "write_erasure"), (file_rewrites.FileRewrite, "_write")),
    *((file_rewrites, "write_once"), (erasing, "write_new_versions"), (erasing, "publish_iceberg")),
    *((purge, "write_checkpoint"), (old_files, "_remove"), (erasing, "end_erasure")),
]
ALL = [*FOLD_STEPS.values()], ERASE_STEPS
FEW: tuple[list[Step], list[Step]] = [], [(purge, "write_checkpoint")]


class Killed(BaseException):
    """What ends a command as a kill does: nothing catches it."""


@pytest.fixture(scope="module")
def client(moto: str) -> Iterator[Any]:
    with s3_account(moto) as url:
        client = open_client(url)
        kept = {"Status": "Enabled"}
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration=kept)
        yield client


def list_versions(client: Any, kind: str) -> list[dict[str, Any]]:
    pages = client.get_paginator("list_object_versions").paginate(Bucket=BUCKET)
    return [each for page in pages for each in page.get(kind, [])]


def fetch(client: Any, lake: PersonLake, folder: Path) -> tuple[Path, Path]:
    """Write all objects of a lake into a folder, and their versions of before into another one."""
    folders = folder / "newest", folder / "before"
    start = str(lake.root).removeprefix(f"s3a://{BUCKET}/")
    for number, each in enumerate(list_versions(client, "Versions")):
        if not each["Key"].startswith(f"{start}/"):
            continue
        path = folders[not each["IsLatest"]] / f"{number}-{each['Key'].rpartition('/')[2]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        got = client.get_object(Bucket=BUCKET, Key=each["Key"], VersionId=each["VersionId"])
        path.write_bytes(got["Body"].read())
    return folders


def remove_versions(lake: PersonLake) -> None:
    """Do what docs/privacy.md tells the owner of a bucket that keeps versions."""
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    prefix = f"{lake.root}/f/".removeprefix(f"s3a://{BUCKET}/")
    for stated, meant in (("BUCKET", BUCKET), ("lake/shop/", prefix)):
        assert code.count(stated) == 1
        code = code.replace(stated, meant)
    exec(code, {})


class OtherPerson:
    """Somebody who stays, and changes with each window."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self.row = person.person("other one", "High Street 1, Shelbyville", "0")
        self.truth: dict[int, Row] = {}

    def change(self) -> None:
        changed = {**self.row, "n": str(int(self.row["n"] or 0) + 1)}
        self._person.send("UPDATE", changed, {"n": self.row["n"]})
        self._note(changed)

    def note(self) -> None:
        self._note(self.row)

    def _note(self, row: Row) -> None:
        self.row = self.truth[self._person.ts] = row
        self._person.messages.append(watermark(self._person.ts))


def fold(lake: PersonLake) -> int:
    last = read_last_snapshot(lake.lake)
    return maintain(lake.lake, last, retain_days=0, keep_events_days=0).fold.folded


@contextmanager
def killed_at(place: Any, name: str) -> Iterator[None]:
    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, kill)
        with pytest.raises(Killed):
            yield


# Every run kills one erasure; folds are killed on disk.
KILLS = usual([FEW, ALL], lambda *kills: kills == FEW)


@pytest.mark.parametrize(("fold_kills", "erase_kills"), KILLS, ids=["few kills", "all kills"])
# Parameters: fixtures, and where the commands are killed.
def test_a_row_below_a_fold_is_in_no_object_and_an_owner_removes_its_old_versions(
    client: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fold_kills: Sequence[Step],
    erase_kills: Sequence[Step],
) -> None:
    monkeypatch.setattr(old_files, "_COMMITS_TO_KEEP", 0)
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    monkeypatch.setattr(folded_events, "_FILES_PER_COMMIT", 1)
    is_whole = erase_kills is ERASE_STEPS
    feed = PERSON_FEED if is_whole else replace(PERSON_FEED, history=(), changes=())
    person, lake = Person(), PersonLake(f"s3a://{BUCKET}/a b/{len(erase_kills)}", feed)
    other = OtherPerson(person)
    live(lake, person, other)
    for place, name in fold_kills:
        with killed_at(place, name):
            fold(lake)
        assert lake.rows()[1] == other.row
    fold(lake)
    other.change()
    lake.advance(person.messages)
    for place, name in erase_kills:
        with killed_at(place, name):
            lake.erase()
    _, searched = lake.erase()
    assert searched.left == []
    assert [each.erased_at is None for each in read_erasures(lake.reader)] == [False]
    newest, before = fetch(client, lake, tmp_path / "erased")
    assert find_in_files(newest, TEXTS) == {}
    # What makes the search of files worth something, and what the owner has to know.
    assert find_in_files(before, TEXTS)
    said = describe_object_versions(lake.lake.location)
    assert said == (
        f"bucket {BUCKET} keeps versions of removed objects: remove those below"
        f" {str(lake.root).removeprefix(f's3a://{BUCKET}/')}/f/, too"
    )
    remove_versions(lake)
    assert all(each["IsLatest"] for each in list_versions(client, "Versions"))
    check(lake, other)
    if not is_whole:
        return
    other.change()
    lake.advance(person.messages)
    # It begins with the rows of the fold.
    lake.replay()
    check(lake, other)
    assert fold(lake) == 2
    lake.replay()
    check(lake, other)
    assert find_in_files(fetch(client, lake, tmp_path / "end")[0], TEXTS) == {}


def live(lake: PersonLake, person: Person, other: OtherPerson) -> None:
    """Take in the rows, with a change of the one to be erased."""
    first = person.person(Person.ID, Person.TEXTS[0], "first")
    person.messages.append(ddl("d", "p", 10, "CREATE", Person.CREATE))
    for row in (other.row, first):
        person.send("INSERT", row)
    person.send("UPDATE", {**first, "n": Person.TEXTS[1]}, {"n": "first"})
    other.note()
    lake.advance(person.messages)


def check(lake: PersonLake, other: OtherPerson) -> None:
    """Check the moments from the fold on, what shows the newest one, and the ledger."""
    floor = read_folds(lake.reader).newest.ts
    assert floor in other.truth
    with pytest.raises(ConfigError, match="below the fold"):
        lake.rows(floor - 1)
    for ts in [ts for ts in other.truth if ts >= floor]:
        assert lake.rows(ts) == [other.truth[ts]], ts
    if lake.feed.history:
        assert lake.fold_changes() == lake.read_history() == [other.row]
    at = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
    shown = lake.lake.path("iceberg/d.p").replace("s3a:", "s3:")
    rows = StaticTable.from_metadata(shown, at).scan().to_arrow()
    assert rows["n"].to_pylist() == [other.row["n"]]
    assert build_ledger(lake.reader, read_last_snapshot(lake.lake)).adds_up
