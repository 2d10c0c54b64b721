"""When the definitions are reloaded, and what a tick says if they cannot be."""

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import CodeLocationOrigin, GrpcServerCodeLocationOrigin

from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets import definitions
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.store.lake import Lake

SERVER = GrpcServerCodeLocationOrigin(host="localhost", port=1)
SAME = "the graph shows the tables as they are"


class World:
    """Two changefeeds with lakes, and the code location that a tick is evaluated in."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._feeds = [changefeed_from_uri("file:///x?protocol=csv", id=id) for id in ("f", "g")]
        self._root = str(folder)
        self._cursor: str | None = None
        self._patch = patch
        self.origin: CodeLocationOrigin | None = SERVER
        # How often the code server had to reload.
        self.reloads = 0
        self.is_reloaded = True
        patch.setattr(GrpcServerCodeLocationOrigin, "create_client", lambda _: self)
        self.load()

    def reload_code(self, timeout: int) -> None:
        assert timeout < 60
        self.reloads += 1
        if self.is_reloaded:
            self.load()

    def load(self) -> None:
        graph = definitions.graph(self._feeds, self._root).get_repository_def()
        self._sensor = graph.get_sensor_def("reload_definitions")

    def has(self, feed: str, *tables: str, **statuses: str) -> None:
        lake = Lake(self._root, feed)
        if not Path(lake.path("applied")).exists():
            write_snapshot(lake, 1, 5)
        write_tables(lake, [schema("d", name) for name in tables], **statuses)

    def breaks(self, feed: str) -> None:
        log = Path(Lake(self._root, feed).path("tables")) / "_delta_log"
        for file in log.glob("*.json"):
            file.write_text("{")

    def tick(self) -> str:
        self._patch.setattr(
            dg.SensorEvaluationContext, "code_location_origin", self.origin, raising=True
        )
        result = self._sensor(dg.build_sensor_context(cursor=self._cursor))
        assert isinstance(result, dg.SensorResult)
        assert not result.run_requests
        self._cursor = result.cursor if result.cursor is not None else self._cursor
        assert result.skip_reason is not None
        return result.skip_reason.skip_message or ""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_definitions_are_reloaded_once_per_change_of_tables(world: World) -> None:
    assert world.tick() == SAME
    for number, tables in enumerate((["a"], ["a", "b"], ["a"], ["a", "b"]), 1):
        world.has("f", *tables)
        assert world.tick() == f"reloaded the definitions: f: d.{'a' if number == 1 else 'b'}"
        assert world.tick() == SAME
        assert world.reloads == number
    world.has("g", *(f"t{n}" for n in range(9)))
    world.has("f", "a", "b", a="paused")
    listed = "d.t0, d.t1, d.t2, d.t3, d.t4 and 4 more"
    assert world.tick() == f"reloaded the definitions: f: d.a; g: {listed}"


def test_a_lake_that_cannot_be_read_is_loaded_when_it_can(world: World) -> None:
    world.has("f", "a")
    world.tick()
    world.breaks("f")
    assert world.tick() == SAME
    world.load()
    assert world.tick() == SAME
    world.has("g", "a")
    assert world.tick() == "reloaded the definitions: g: d.a"
    for file in Path(Lake(world._root, "f").path("tables")).rglob("*"):
        file.unlink() if file.is_file() else None
    world.has("f", "a")
    assert world.tick() == "reloaded the definitions: f can be read"


def test_without_a_code_server_a_tick_says_what_to_do(world: World) -> None:
    world.origin = None
    world.has("f", "a")
    for _ in range(2):
        assert world.tick().startswith("the graph does not show yet: f: d.a; reload the def")
    world.origin, world.is_reloaded = SERVER, False
    assert world.tick() == "reloaded the definitions: f: d.a"
    assert "start that server by `dagster code-server start`" in world.tick()
    assert world.reloads == 1
