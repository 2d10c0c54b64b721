"""A process that advances one lake window by window, until it is killed."""

import os
import traceback
from itertools import chain
from random import Random

from tests.lake.addresses import need_none
from tests.lake.canal import FEED, change, ddl, placed, row, watermark
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.protocols.message import Message
from ticdc_assets.store import lease, lock
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeNotFound, LakeReader

# The rows of each table: texts by ids.
Truth = dict[str, dict[int, str]]
_TS_PER_WINDOW = 100
# Of a lease, in seconds.
SHORT_EXPIRY = 2.0


class Story:
    """Tables that change at random, the same for the same seed; one window after the other."""

    def __init__(self, seed: int, windows: int) -> None:
        self._random = Random(seed)
        self.messages: list[list[Message]] = []
        # After each window.
        self.truths: list[Truth] = [{}]
        self._tables: Truth = {}
        for number in range(windows):
            start = number * _TS_PER_WINDOW
            steps = [self._step(start + at) for at in range(1, self._random.randint(3, 9))]
            self.messages.append([*steps, watermark(start + _TS_PER_WINDOW - 1)])
            self.truths.append({name: dict(rows) for name, rows in self._tables.items()})

    def source(self, windows: int) -> RecordSource:
        """What was sent in the first windows."""
        return RecordSource(lambda _: placed(chain(*self.messages[:windows])))

    def _step(self, ts: int) -> Message:
        random = self._random
        name = random.choice("abc")
        rows = self._tables.get(name)
        if rows is None:
            self._tables[name] = {}
            sql = f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20))"
            return ddl("d", name, ts, "CREATE", sql)
        kind = random.random()
        if kind < 0.05:
            self._tables[name] = {}
            return ddl("d", name, ts, "TRUNCATE", f"TRUNCATE TABLE {name}")
        if kind < 0.3 and rows:
            id = random.choice(sorted(rows))
            old = {"id": f"{id}", "v": rows.pop(id)}
            return change("DELETE", "d", name, ts, old)
        if kind < 0.6 and rows:
            id = random.choice(sorted(rows))
            old, rows[id] = {"v": rows[id]}, f"at {ts}"
            return change("UPDATE", "d", name, ts, {"id": f"{id}", "v": rows[id]}, old)
        rows[ts] = f"at {ts}"
        return row("d", name, ts, id=f"{ts}", v=rows[ts])


def open_lake(root: str) -> LakeSession:
    return LakeSession(need_none, Lake(root, FEED.id), FEED)


def count_windows(ts: int) -> int:
    """How many windows end at a ts or before it."""
    return (ts + 1) // _TS_PER_WINDOW


def read_windows(lake: LakeSession) -> int:
    """How many windows the lake has."""
    try:
        return count_windows(read_existing_snapshot(LakeReader(lake.location)).ts)
    except LakeNotFound:
        return 0


def main(log: str, environment: dict[str, str], root: str, seed: int, windows: int) -> None:
    """Advance until this process is killed; errors are written to the log."""
    os.environ.update(environment)
    lease.EXPIRY, lock.RENEWAL_INTERVAL, lock._LEASE_POLL_INTERVAL = SHORT_EXPIRY, 0.4, 0.2
    story, lake = Story(seed, windows), open_lake(root)
    with open(log, "a", encoding="utf-8", buffering=1) as file:
        while True:
            try:
                with lock.locked(lake.location, "advance", waiting=lambda _: None):
                    for _ in range(3):
                        done = advance(lake, story.source(min(read_windows(lake) + 1, windows)))
                        file.writelines(f"problem: {each}\n" for each in done.applied.problems)
            except ConfigError as error:
                file.write(f"{type(error).__name__}: {error}\n")
            except Exception:
                file.write(traceback.format_exc())
                raise
