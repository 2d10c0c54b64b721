"""A catalog, whatever it answers, holds neither a run nor the end of its process."""

import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError

from tests.catalogs.fake_catalog import FakeCatalog
from tests.catalogs.test_glue import send_all
from tests.lake.addresses import create, open_lake, send
from tests.lake.canal import watermark
from tests.servers import HOST
from ticdc_assets.catalogs import calls, read_registration, register, register_tables
from ticdc_assets.catalogs.calls import limited_calls
from ticdc_assets.catalogs.entry import OWNER, FoundEntry
from ticdc_assets.catalogs.iceberg_rest import IcebergRest
from ticdc_assets.changefeed.catalog import IcebergRestCatalog
from ticdc_assets.errors import CatalogDown
from ticdc_assets.lake.advance import advance
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources.catalogs import open_catalog


def test_a_call_without_an_answer_is_left_and_all_others_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    threads = []

    def before(*call: Any) -> None:
        if call == ("find", "d", "a"):
            threads.append(threading.current_thread())
            go_on.wait(20)

    lake, catalog = open_lake(tmp_path), FakeCatalog(before=before)
    advance(lake, send(2))
    monkeypatch.setattr(register, "_MOST_SECONDS", 1.0)
    monkeypatch.setattr(calls, "_LAST_SECONDS", 0.0)
    # The file is there, so that there is no comparison.
    known = register.Registration(place="here", compared_at=datetime.now(UTC))
    register._write(lake.location, "fake", known)
    started = time.monotonic()
    (problem,) = register_tables(lake.location, read_last_snapshot(lake), catalog)
    assert time.monotonic() - started < 10
    assert problem.reason == "fake: gives no answer within 1 s; the next run goes on (1 entries)"
    made_of = {e.name: e.made_of for e in read_registration(lake.location, "fake").entries}
    assert made_of["a"] == "" != made_of["b"]
    assert threads[0].daemon
    go_on.set()


def test_an_answer_that_nobody_foresaw_concerns_one_entry(tmp_path: Path) -> None:
    def before(*call: Any) -> None:
        if call == ("create", "d", "a"):
            raise KeyError("type_text")

    lake, catalog = open_lake(tmp_path), FakeCatalog(before=before)
    advance(lake, send(2))
    (problem,) = register_tables(lake.location, read_last_snapshot(lake), catalog)
    assert (problem.table, problem.reason) == ("a", "fake: unexpected KeyError: 'type_text'")
    assert catalog.entries.keys() == {("d", "b")}
    assert read_registration(lake.location, "fake").problems == (problem.describe(),)


def test_a_comparison_looks_at_no_database_of_another_changefeed(tmp_path: Path) -> None:
    lake, catalog = open_lake(tmp_path), FakeCatalog()
    catalog.databases["theirs"] = {OWNER: "another"}
    catalog.entries["theirs", "t"] = FoundEntry("file:///x", {OWNER: "another"})
    advance(lake, send_all(create("a", 2), watermark(9)))
    assert register_tables(lake.location, read_last_snapshot(lake), catalog) == []
    assert not any("theirs" in call for call in catalog.calls)


def test_a_namespace_that_may_not_be_read_is_nobody_s() -> None:
    class Client:
        def list_namespaces(self) -> list[tuple[str, ...]]:
            return [("finance",), ("gone",), ("d",)]

        def load_namespace_properties(self, name: tuple[str]) -> dict[str, str]:
            if name == ("finance",):
                raise ForbiddenError("not authorized")
            if name == ("gone",):
                raise NoSuchNamespaceError("gone")
            return {OWNER: "f"}

    client: Any = Client()
    catalog = IcebergRest(IcebergRestCatalog("http://x"), lambda: client)
    assert catalog.list_databases() == {"finance": {}, "gone": {}, "d": {OWNER: "f"}}


def test_a_thread_that_was_left_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = open_catalog(IcebergRestCatalog(f"http://{HOST}:9"))
    with limited_calls(-1), pytest.raises(CatalogDown, match="took longer than -1 s"):
        catalog.list_entries("d")
