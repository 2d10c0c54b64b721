"""For all tests: Hypothesis profiles, the order of files, and skips without the golden data."""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling, Scheduling
from xdist.workermanage import WorkerController

from tests import golden

if TYPE_CHECKING:
    from tests.kafka_broker import Broker
    from tests.mariadb_server import MariaDb
    from tests.postgres_server import Postgres
    from tests.tidb_server import Tidb

# No deadline: a busy machine is not a failure.  CI uses the same examples on every run, so that a
# failure there is caused by the change.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


# The threads of delta-rs wake each other for every few bytes.  With one, tests take up to a tenth
# less processor time; the other processes keep the cores busy.
os.environ.setdefault("TOKIO_WORKER_THREADS", "1")
# Those of numpy spin when a process starts, and tests start hundreds.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Fixtures that take long, as tests name them.
SHARED = ("broker: Broker", "shop: Shop", "metastore: str", "moto: str", "tidb: Tidb")
# Those of them that are servers.
SERVERS = frozenset({"broker", "metastore", "moto", "tidb"})
# How xdist hands out the tests, as the processes that it starts are to know.
DISTRIBUTION = "ticdc_distribution"

# Nothing that collecting the tests makes is garbage, and looking for some took half of that time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    # Tests make many objects and few cycles: looking for these every 700 objects takes a twentieth.
    gc.set_threshold(100_000, 20, 50)
    gc.enable()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Broker"]:
    """A Kafka broker for all tests of a process; a topic belongs to the test that creates it."""
    # Only the tests that need it wait for the import.
    from tests.kafka_broker import kafka_broker

    with kafka_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An S3 server for all tests of a process; the module that uses it empties it first."""
    from tests.servers import s3_server

    with s3_server(tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator["MariaDb"]:
    """A MariaDB for all tests of a process; a database belongs to the test that creates it."""
    from tests.mariadb_server import run_mariadb

    with run_mariadb(tmp_path_factory.mktemp("mariadb")) as running:
        yield running


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Postgres"]:
    """A PostgreSQL for all tests of a process; a schema belongs to the test that creates it."""
    from tests.postgres_server import run_postgres

    with run_postgres(tmp_path_factory.mktemp("postgres")) as running:
        yield running


@pytest.fixture(scope="session")
def tidb(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Tidb"]:
    """A TiDB for all tests of a process; a database belongs to the test that creates it."""
    from tests.tidb_server import run_tidb

    with run_tidb(tmp_path_factory.mktemp("tidb")) as running:
        yield running


def pytest_xdist_auto_num_workers() -> int:
    """Run two processes more than there are cores: tests wait for servers, and for a clock.

    All processes share one Java machine, and few are enough to keep it busy.
    """
    return min((os.cpu_count() or 1) + 2, 4)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    """Let one process run all files that share a server or a lake which is slow to make."""
    return ByFixture(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput[DISTRIBUTION] = node.config.getvalue("dist")


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config, "workerinput", {}).get(DISTRIBUTION) == "loadfile":
        config.pluginmanager.register(ServerStops())


class ServerStops:
    """Stops servers behind the last of the files that share them.

    Most of a run comes later, in which an idle TiDB or broker takes a twentieth of a core.
    """

    def __init__(self) -> None:
        self._running: list[tuple[pytest.FixtureDef[object], pytest.FixtureRequest]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        made = yield
        if fixturedef.argname in SERVERS:
            self._running.append((fixturedef, request))
        return made

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, None, None]:
        yield
        if nextitem is not None and _share(item) != _share(nextitem):
            while self._running:
                server, request = self._running.pop()
                server.finish(request)  # type: ignore[arg-type]


def _share(item: pytest.Item) -> str | Path:
    return _find_shared(item.path) or item.path


class ByFixture(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _find_shared(self.config.rootpath / file) or file

    def remove_node(self, node: WorkerController) -> str | None:
        """Hand on what a process that ended had left; return the test that ended it.

        xdist would hand on the files that it had finished, too: whichever process got one of these
        would wait for its tests forever.  And it would run the test that ended the process again.
        """
        shares = self.assigned_work.pop(node)
        left = {
            scope: {test: False for test, is_done in tests.items() if not is_done}
            for scope, tests in shares.items()
        }
        ended_by = next((test for tests in left.values() for test in tests), None)
        if ended_by is None:
            return None
        del left[self._split_scope(ended_by)][ended_by]
        self.workqueue.update({scope: tests for scope, tests in left.items() if tests})
        for other in self.registered_collections.keys() & self.assigned_work.keys():
            self._reschedule(other)
        return ended_by

    def _reschedule(self, node: WorkerController) -> None:
        """Give a process more, or tell it that there is no more.

        It runs a test once it knows the next one, and xdist gives one that has begun later than the
        others a single file, which may have a single test.
        """
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


@cache
def _find_shared(file: Path) -> str | None:
    text = file.read_text()
    return next((fixture for fixture in SHARED if fixture in text), None)


def pytest_report_header() -> str:
    return f"golden data: {golden.GOLDEN}" + ("" if golden.GOLDEN.is_dir() else " (missing)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow files first, so that no core waits for one of them at the end.

    Without the golden data, skip the tests that read it: it is not part of the project, and all
    other tests work without it.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    if golden.GOLDEN.is_dir():
        return
    skip = pytest.mark.skip(reason=f"no golden data at {golden.GOLDEN} (set TICDC_GOLDEN)")
    for item in items:
        if item.get_closest_marker("all_golden") or (
            isinstance(item, pytest.Function) and _reads_golden(item.module)
        ):
            item.add_marker(skip)


def _reads_golden(module: ModuleType) -> bool:
    """Whether a module imports from `tests.golden`, or from a test module that does."""
    return _knows_golden(module) or any(
        _knows_golden(sys.modules[home])
        for home in {getattr(value, "__module__", None) for value in vars(module).values()}
        if isinstance(home, str) and home.startswith("tests.")
    )


def _knows_golden(module: ModuleType) -> bool:
    return any(
        value is golden
        or value is golden.GOLDEN
        or getattr(value, "__module__", None) == golden.__name__
        for value in vars(module).values()
    )
