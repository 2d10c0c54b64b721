"""Runs that compare the lake with a copy: killed, sampled, of an older ts; and what they keep."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tests.lake.copies import (
    ITEMS,
    compare,
    list_found,
    make_items,
    make_table,
    put_items,
    write_parquet,
)
from tests.lake.upstream_copy import UpstreamCopy
from tests.mariadb_server import MariaDb
from tests.postgres_server import Postgres
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.copy_progress import CopyProgress
from ticdc_assets.log.verifications import Results
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.verify.batch_side import BatchSide
from ticdc_assets.views.asof import AsOfView


@pytest.fixture
def lake(tmp_path: Path) -> UpstreamCopy:
    return UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def database(mariadb: MariaDb) -> MariaDb:
    mariadb.run("CREATE OR REPLACE DATABASE against CHARACTER SET utf8mb4")
    return mariadb


def test_a_run_that_was_killed_reads_no_unit_again(
    lake: UpstreamCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ticdc_assets.verify.copy_table._SECONDS_BETWEEN_SAVES", 0)
    put_items(lake, make_items(1000))
    folder = tmp_path / "shop" / "items"
    folder.mkdir(parents=True)
    rows = make_table(make_items(1000, {7: "other", 993: "other"}))
    for n in range(10):
        pq.write_table(rows.slice(100 * n, 100), folder / f"{n}.parquet")
    read: list[int] = []
    with monkeypatch.context() as patched:
        kill_after(patched, read, 6)
        with pytest.raises(KeyboardInterrupt):
            compare(lake, f"parquet:{tmp_path}")
    assert CopyProgress(lake.lake.location).read()[0] is not None

    kill_after(monkeypatch, read := [], 100)
    (found,) = compare(lake, f"parquet:{tmp_path}")

    # The six that were summed up are not read for sums again.
    assert sorted(read) == [6, 7, 8, 9]
    assert list_found(found, "id") == {("differs", n, ("title",)) for n in ("7", "993")}
    assert CopyProgress(lake.lake.location).read() == (None, {})


def kill_after(patched: pytest.MonkeyPatch, read: list[int], units: int) -> None:
    """Die once so many units of a copy are summed up."""
    sum_units = BatchSide.sum_units

    def die(side: BatchSide, spans: Any, parts: int, first: int = 0) -> Iterator[Any]:
        for number, found in enumerate(sum_units(side, spans, parts, first), first):
            if side.source.units > 1:
                if len(read) == units:
                    raise KeyboardInterrupt
                read.append(number)
            yield found

    patched.setattr(BatchSide, "sum_units", die)


def test_a_copy_that_changed_since_a_kill_is_read_anew(
    lake: UpstreamCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ticdc_assets.verify.copy_table._SECONDS_BETWEEN_SAVES", 0)
    put_items(lake, make_items(100))
    uri = write_parquet(tmp_path, "shop", "items", make_table(make_items(100)))
    with monkeypatch.context() as patched:
        kill_after(patched, [], 1)
        with pytest.raises(KeyboardInterrupt):
            compare(lake, uri)
    write_parquet(tmp_path, "shop", "items", make_table(make_items(100, {3: "other"})))
    (found,) = compare(lake, uri)
    assert list_found(found, "id") == {("differs", "3", ("title",))}


def test_a_sample_finds_its_share_of_what_differs(
    lake: UpstreamCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_items(lake, make_items(4000))
    copy = make_items(4000, dict.fromkeys(range(4000), "other"))
    uri = write_parquet(tmp_path, "shop", "items", make_table(copy))
    random.seed(5)
    (found,) = compare(lake, uri, share=0.25)
    # The keys of 256 of 1024 ranges of hashes: 1000 rows, give or take five deviations.
    assert found.share == 0.25
    assert abs(found.different_rows - 1000) < 140
    assert found.lake_rows == found.upstream_rows == found.different_rows


def test_the_lake_is_compared_as_of_an_older_ts(lake: UpstreamCopy, tmp_path: Path) -> None:
    put_items(lake, make_items(10))
    before = lake.snapshot.ts
    put_items(lake, make_items(10, {4: "later"}))
    uri = write_parquet(tmp_path, "shop", "items", make_table(make_items(10)))
    (then,) = compare(lake, uri, ts=before)
    (now,) = compare(lake, uri)
    assert (then.verdict, then.resolved_ts) == ("equal", before)
    assert list_found(now, "id") == {("differs", "4", ("title",))}


def test_rows_that_no_files_have_are_computed_in_parts(
    lake: UpstreamCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_items(lake, make_items(30))
    uri = write_parquet(tmp_path, "shop", "items", make_table(make_items(30, {17: "other"})))
    # As if maintenance had removed the files of a snapshot that is not the newest.
    monkeypatch.setattr(AsOfView, "find_stored", lambda view, table: None)
    (found,) = compare(lake, uri)
    assert (found.lake_rows, found.upstream_rows) == (30, 30)
    assert list_found(found, "id") == {("differs", "17", ("title",))}


def test_a_file_that_cannot_be_read_is_said_and_the_next_table_compared(
    lake: UpstreamCopy, tmp_path: Path
) -> None:
    for name in ("items", "others"):
        put_items(lake, make_items(9), ddl=ITEMS.replace("items", name))
        uri = write_parquet(tmp_path, "shop", name, make_table(make_items(9)))
    damaged = tmp_path / "parquet" / "shop" / "items" / "b.parquet"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:4] + bytes(200) + content[204:])
    found, other = compare(lake, uri)
    assert (found.verdict, other.verdict) == ("skipped", "equal")
    assert found.reason
    assert "Traceback" not in found.reason


def test_results_are_apart_from_those_of_the_database(lake: UpstreamCopy, tmp_path: Path) -> None:
    put_items(lake, make_items(5))
    uri = write_parquet(tmp_path, "shop", "items", make_table(make_items(5, {2: "other"})))
    (found,) = compare(lake, uri)
    results = Results(lake.lake.location)
    assert results.read_newest() == {}
    assert results.read_equal() == {}
    (newest,) = results.read_newest_of_copies().values()
    assert (newest.against, newest.verdict, newest.bytes_read) == (uri, "differs", found.bytes_read)
    reader = LakeReader(lake.lake.location)
    columns = ["verification", "what", "key", "columns", "lake", "upstream"]
    (row,) = reader.read(reader.open("differences"), columns).to_pylist()
    assert row == {
        "verification": newest.id,
        "what": "differs",
        "key": '{"id": "2"}',
        "columns": ["title"],
        "lake": '{"title": "item 2"}',
        "upstream": '{"title": "other"}',
    }


def test_a_lake_whose_results_lack_the_newest_columns_gets_them(
    lake: UpstreamCopy, tmp_path: Path
) -> None:
    put_items(lake, make_items(2))
    results = Results(lake.lake.location)
    results.prepare()
    reader = LakeReader(lake.lake.location)
    opened = reader.open("verifications")
    columns = [f.name for f in opened.schema().fields][:-3]
    write_deltalake(
        lake.lake.location.path("verifications"),
        reader.read(opened, columns),
        mode="overwrite",
        schema_mode="overwrite",
    )
    (found,) = compare(lake, write_parquet(tmp_path, "shop", "items", make_table(make_items(2))))
    assert found.verdict == "equal"
    assert [each.against for each in results.read_newest_of_copies().values()] == [found.against]


@pytest.mark.parametrize("uri", ["mysql://u:hunter2-secret@h/d", "postgresql://u:hunter2-secret@h"])
def test_a_password_in_a_uri_is_an_error_that_does_not_quote_it(uri: str) -> None:
    with pytest.raises(ConfigError) as raised:
        compare(None, uri)  # type: ignore[arg-type]
    assert "--password-env" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_no_password_is_in_what_a_run_writes_or_says(
    lake: UpstreamCopy, database: MariaDb, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_items(lake, make_items(2))
    wrong = "wrong-horse-81"
    monkeypatch.setenv("COPY_PASSWORD", wrong)
    for uri in (f"mysql://verify@127.0.0.1:{database.port}/against", postgres.uri):
        (found,) = compare(lake, uri, password=Reference("env", "COPY_PASSWORD"))
        assert found.verdict == "skipped"
        assert found.reason is not None
        assert wrong not in found.reason
    written = [f for f in Path(lake.lake.location.root).rglob("*") if f.is_file()]
    assert not any(wrong.encode() in file.read_bytes() for file in written)
