"""Readers that know only names see, at every moment, what TiDB had at the ts that they read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.lake.addresses import open_lake
from tests.lake.life_of_names import Contents, Life, Name, read_named
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.apply import table_features
from ticdc_assets.plan.state import name_address
from ticdc_assets.store.lake import LakeSession


class Reader:
    """Reads the addresses of names, again and again."""

    def __init__(self, lake: LakeSession) -> None:
        self._lake = lake
        self.names: list[Name] = []
        # What a name may have.
        self.allowed: list[Contents] = []
        self.faults: list[object] = []
        self.reads = 0

    def read_all(self) -> None:
        for name in [*self.names]:
            allowed = [contents.get(name) for contents in self.allowed]
            if (found := self.read(name)) not in allowed:
                self.faults.append((name, found, allowed))
            self.reads += 1

    def read(self, name: Name) -> object:
        stated, rows = read_named(f"{self._lake.path('current')}/{name_address(*name)}")
        return rows if stated in (None, ".".join(name)) else stated

    @contextmanager
    def reading(self) -> Iterator[None]:
        done = Event()

        def run() -> None:
            while not done.is_set():
                self.read_all()

        thread = Thread(target=run)
        thread.start()
        yield
        done.set()
        thread.join()


def test_names_have_at_every_moment_what_tidb_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    lake, life = open_lake(tmp_path), Life(1)
    reader, before = Reader(lake), Contents()
    for _ in range(10):
        after = life.live()
        reader.allowed = [before, after]
        reader.names = sorted({*reader.names, *after})
        with reader.reading():
            assert advance(lake, life.send()).applied.problems == []
        reader.allowed = [after]
        reader.read_all()
        assert reader.faults == []
        before = after
    assert life.kinds >= {"TRUNCATE", "RENAME TABLE", "EXCHANGE PARTITION", "MODIFY COLUMN"}
    assert reader.reads > 1000
