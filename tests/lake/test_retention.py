"""A lake under steady change, maintained all the time: every TSO stays what it was."""

from functools import cache
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest

from tests.lake.canal import FEED, change, ddl, placed, row, watermark
from ticdc_assets.lake.advance import AdvanceResult, RecordSource, advance, replay_tables
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.store import old_files
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import have_files
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.stored_sizes import measure_stored

WINDOWS = 12


def start_no_spark() -> NoReturn:
    raise AssertionError("small work takes no Spark")


class Upstream:
    """A table of a few rows, and what it had at every TSO."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.truth: dict[int, dict[str, str]] = {}
        self._rows: dict[str, str] = {}
        self._chance = Random(11)
        self.ts = 1
        sql = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` VARCHAR(20))"
        self.messages.append(ddl("d", "t", 1, "CREATE", sql))

    def go_on(self) -> None:
        """Write the changes of a window."""
        for _ in range(4):
            self.ts += 1
            id, value = str(self._chance.randrange(9)), f"v{self.ts}"
            old = self._rows.get(id)
            if old is not None and self._chance.random() < 0.3:
                del self._rows[id]
                message = change("DELETE", "d", "t", self.ts, {"id": id, "v": old})
            else:
                self._rows[id] = value
                new = {"id": id, "v": value}
                kind, before = ("INSERT", None) if old is None else ("UPDATE", {"v": old})
                message = change(kind, "d", "t", self.ts, new, before)
            self.messages.append(message)
            self.truth[self.ts] = dict(self._rows)
        self.messages.append(watermark(self.ts))

    def format(self, ts: int) -> list[bytes]:
        rows = self.truth[ts].items()
        return sorted(b'{"id":"%b","v":"%b"}\n' % (id.encode(), v.encode()) for id, v in rows)


def test_every_tso_and_every_later_correction_outlive_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_files, "_COMMITS_TO_KEEP", 0)
    lake = LakeSession(cache(start_no_spark), Lake(str(tmp_path), FEED.id), FEED)
    upstream = Upstream()

    def run() -> AdvanceResult:
        return advance(lake, RecordSource(lambda _: placed(upstream.messages)))

    def show() -> None:
        for ts in [*upstream.truth][::3]:
            seen = as_of(lake, ts)
            assert list(seen.lines(seen.find("d.t")[0])) == upstream.format(ts), ts

    first = None
    for _ in range(WINDOWS):
        upstream.go_on()
        assert run().applied.problems == []
        first = first or read_last_snapshot(lake)
        # A day of no time at all: only what the newest snapshot needs is young enough.
        maintain(lake, read_last_snapshot(lake), retain_days=0)
    assert first is not None
    (id,) = first.versions
    reader = LakeReader(lake.location)
    assert not have_files(reader, first.versions, [id])
    assert have_files(reader, read_last_snapshot(lake).versions, [id])
    sizes = measure_stored(reader, 0)
    assert sizes["current"].files == 1
    assert len(list(Path(lake.current_path(id)).glob("*.parquet"))) == 1
    assert {layer for layer, size in sizes.items() if size.removable_bytes} <= {"log"}
    show()

    # A change that comes late corrects everything behind it, and a rebuild changes nothing.
    late = row("d", "t", 4, id="77", v="late")
    upstream.messages += [late, watermark(upstream.ts + 1)]
    for ts in upstream.truth:
        if ts >= 4:
            upstream.truth[ts]["77"] = "late"
    done = run().applied
    assert (done.problems, done.replayed) == ([], 1)
    show()
    request = ReplayRequest(frozenset([id]), 0)
    replay_tables(lake, read_last_snapshot(lake), request, lambda *_: None)
    maintain(lake, read_last_snapshot(lake), retain_days=0)
    show()
