"""Measure how long catalogs take to learn of many tables, and then of the few that changed.

Run as `python -m bench.catalogs`.  Each catalog is a server on this machine, the tables are small,
and requests on the wire count as calls.  All tables are registered first, beside the create calls
alone, made one after the other.  Then rows of a few tables change, and the run that registers these
is compared with one that has lost its record and registers all tables again.  Nothing passes or
fails.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

from bench.figure import Figure, read_load
from bench.processes import Clock, Usage
from tests.catalogs.unity_server import CATALOG, serve_unity
from tests.lake.addresses import need_none
from tests.lake.canal import FEED, ddl, placed, row, watermark
from tests.servers import hive_metastore, iceberg_catalog, s3_server
from ticdc_assets.catalogs import Catalog, register_tables
from ticdc_assets.catalogs.shown import read_shown
from ticdc_assets.changefeed.catalog import (
    CatalogSettings,
    GlueCatalog,
    HiveCatalog,
    IcebergRestCatalog,
    UnityCatalog,
)
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.catalogs import open_catalog
from ticdc_assets.store.lake import Lake, LakeSession

_DATABASE = "shop"
# The work of a window without Spark.
_TABLES_PER_WINDOW = 250
# Whatever sends a request, by the protocol that carries it.
_SENDERS = (
    "requests.Session.send",
    "botocore.httpsession.URLLib3Session.send",
    "thrift.transport.TTransport.TBufferedTransport.flush",
)
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIDBENCH", "AWS_SECRET_ACCESS_KEY": "none"}


class Tables:
    """A lake whose tables are also Iceberg tables."""

    def __init__(self, folder: Path, count: int) -> None:
        feed = replace(FEED, iceberg=("*.*",))
        self.lake = LakeSession(need_none, Lake(str(folder / "lake"), feed.id), feed)
        self.names = [f"table_{number:04}" for number in range(count)]
        self._sent: list[Message] = []
        self._ts = 0
        self._rows = 0
        columns = "(id BIGINT PRIMARY KEY, note VARCHAR(20) COMMENT 'a note', at DATETIME)"
        for start in range(0, count, _TABLES_PER_WINDOW):
            for name in self.names[start : start + _TABLES_PER_WINDOW]:
                sql = f"CREATE TABLE {name} {columns}"
                self._send(ddl(_DATABASE, name, self._tick(), "CREATE", sql))
                self._insert(name)
            self._advance()

    def change(self, count: int) -> None:
        """Insert a row into each of some tables."""
        for name in self.names[:count]:
            self._insert(name)
        self._advance()

    def _insert(self, name: str) -> None:
        self._rows += 1
        self._send(row(_DATABASE, name, self._tick(), id=str(self._rows), note="new"))

    def _send(self, message: Message) -> None:
        self._sent.append(message)

    def _tick(self) -> int:
        self._ts += 1
        return self._ts

    def _advance(self) -> None:
        self._send(watermark(self._tick()))
        sent = placed(self._sent)
        problems = advance(self.lake, RecordSource(lambda _: sent)).applied.problems
        assert not problems, problems


@dataclass(frozen=True)
class Registered:
    """What a registration took, in as many runs as it needed."""

    usage: Usage
    calls: int
    runs: int = 1

    def __str__(self) -> str:
        runs = f" in {self.runs} runs" if self.runs > 1 else ""
        return f"{self.calls:,} calls, {self.usage.seconds:.2f} s{runs}"


@contextmanager
def count_calls() -> Iterator[Counter[str]]:
    """Count what is sent on the wire."""
    calls: Counter[str] = Counter()

    def count(name: str) -> Any:
        module, _, method = name.rpartition(".")
        sender = getattr(resolve_name(module), method)

        @wraps(sender)
        def send(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return sender(*arguments, **options)

        return patch(name, send)

    patches = [count(name) for name in _SENDERS]
    for each in patches:
        each.start()
    try:
        yield calls
    finally:
        for each in patches:
            each.stop()


def _take(work: Callable[[], int]) -> Registered:
    with count_calls() as calls:
        clock = Clock()
        runs = work()
        return Registered(clock.read_usage(), calls.total(), runs)


def _register(tables: Tables, settings: CatalogSettings) -> int:
    """Bring a catalog to the newest snapshot; return how many runs that takes."""
    lake = tables.lake
    snapshot = read_last_snapshot(lake)
    for run in range(1, 100):
        catalog = open_catalog(settings)
        problems = register_tables(lake.location, snapshot, catalog, lake.feed.iceberg)
        if not problems:
            return run
        if "the next run goes on" not in problems[0].reason:
            break
    raise AssertionError(problems[0].describe())


def _create_alone(tables: Tables, catalog: Catalog) -> int:
    """Make the calls that create all entries, and no others, one after the other."""
    lake = tables.lake
    snapshot = read_last_snapshot(lake)
    shown = read_shown(lake.location, snapshot, catalog.format, lake.feed.iceberg)
    for address in shown.tables:
        name = catalog.map_name(_DATABASE, address.partition(".")[2])
        location = catalog.locate(lake.path(f"{shown.folder}/{address}"))
        catalog.create(shown.make_entry(name, location, address))
    return 1


def _measure_catalog(tables: Tables, settings: CatalogSettings, changed: int) -> list[Figure]:
    kind, count = settings.kind, len(tables.names)
    first = _take(lambda: _register(tables, settings))
    idle = _take(lambda: _register(tables, settings))
    tables.change(changed)
    few = _take(lambda: _register(tables, settings))
    # Without its record, a run knows nothing of what is registered.
    Path(tables.lake.path(f"catalog-{kind}.json")).unlink()
    again = _take(lambda: _register(tables, settings))
    # Last, since a run drops entries of this lake that it has not made.
    apart = replace(settings, database_prefix="alone_")
    alone = _take(lambda: _create_alone(tables, open_catalog(apart)))
    print(
        f"{kind}: {count:,} tables first: {first}; create calls alone: {alone}; nothing changed:"
        f" {idle}; {changed} changed: {few}; all again: {again}; load average {read_load()}"
    )
    return [
        Figure(
            group="catalog",
            name=f"{kind}, {title}, {value.calls:,} calls",
            value=value.usage.seconds,
            unit="s",
            baseline_name=f"{baseline_name}, {baseline.calls:,} calls",
            baseline=baseline.usage.seconds,
            usage=value.usage,
        )
        for title, value, baseline_name, baseline in (
            (f"{count:,} tables for the first time", first, "create calls alone", alone),
            (f"{changed} of {count:,} tables changed", few, "all registered again", again),
        )
    ]


@contextmanager
def _serve(kind: str, folder: Path) -> Iterator[CatalogSettings]:
    folder.mkdir()
    match kind:
        case "glue":
            with s3_server(folder) as url, patch.dict("os.environ", _CREDENTIALS):
                yield GlueCatalog(region="eu-west-1", endpoint=url)
        case "hive":
            with hive_metastore(folder) as uri:
                yield HiveCatalog(uri)
        case "unity":
            with serve_unity() as unity:
                yield UnityCatalog(unity.url, CATALOG)
        case _:
            with iceberg_catalog(folder) as url:
                yield IcebergRestCatalog(url)


def measure(*arguments: str) -> list[Figure]:
    """Measure, print and return the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.catalogs", description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--changed", type=int, default=10)
    chosen = parser.parse_args(arguments)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="bench-catalogs-") as made:
        folder = Path(made)
        tables = Tables(folder, chosen.tables)
        for kind in ("glue", "hive", "unity", "iceberg-rest"):
            with _serve(kind, folder / kind) as settings:
                figures += _measure_catalog(tables, settings, chosen.changed)
    return figures


if __name__ == "__main__":
    measure(*sys.argv[1:])
