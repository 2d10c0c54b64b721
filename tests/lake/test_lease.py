"""Runs on one lease, paused and killed between any two requests: what counts is in order."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from ticdc_assets.store.lease import EXPIRY, RENEWAL_INTERVAL, Lease, Look
from ticdc_assets.store.lease_folder import read_look

SEEDS = range(20)
REQUESTS = 1500
HOLDERS = 3


class Killed(BaseException):
    pass


@dataclass
class Store:
    """The files of a lease and the log of snapshots, with a clock that is the store's alone."""

    now: float = 1000.0
    files: dict[str, float] = field(default_factory=dict)
    # Of each commit, whether it is a fence, and the claim of the run that wrote it.
    log: list[tuple[bool, int]] = field(default_factory=list)


class Claims:
    """The store as one run sees it: each request waits for its turn."""

    def __init__(self, store: Store, wait: Callable[[], None]) -> None:
        self.store, self._wait, self.number = store, wait, 0
        self._listed: set[int] = set()
        self._notes: dict[str, float] = {}

    def find_newest(self) -> int:
        self._wait()
        files = self.store.files
        self._notes = {path: at for path, at in files.items() if "/" not in path}
        self._listed = {int(path.partition("/")[0]) for path in files if "/" in path}
        return max(self._listed, default=0)

    def look(self) -> Look:
        newest = self.find_newest()
        self._wait()
        files = self.store.files.items()
        return read_look(
            newest, self._notes, {path: at for path, at in files if path.startswith(f"{newest}/")}
        )

    def claim(self, number: int) -> bool:
        self.number = number
        return self._write(f"{number}/_delta_log/0.json", is_new=True)

    def renew(self, number: int) -> None:
        self._write(f"{number}/renewed")

    def release(self, number: int) -> None:
        self._write(f"{number}/released")

    def note(self, *, is_waiting: bool) -> None:
        self._write("wanted" if is_waiting else "note")

    def remove_before(self, number: int) -> None:
        for path in self._notes:
            self._wait()
            self.store.files.pop(path, None)
        for older in self._listed:
            for path in [*self.store.files]:
                if older < number and path.startswith(f"{older}/"):
                    self._wait()
                    self.store.files.pop(path, None)

    def read_log(self) -> int:
        self._wait()
        return len(self.store.log)

    def commit(self, version: int, *, is_fence: bool = False) -> bool:
        self._wait()
        if len(self.store.log) != version:
            return False
        self.store.log.append((is_fence, self.number))
        return True

    def fence(self) -> None:
        while not self.commit(self.read_log(), is_fence=True):
            pass

    def _write(self, path: str, *, is_new: bool = False) -> bool:
        self._wait()
        if is_new and path in self.store.files:
            return False
        self.store.files[path] = self.store.now
        return True


class Process:
    """A process that runs again and again, one request at a time."""

    def __init__(self, store: Store, random: Random) -> None:
        self.claims = Claims(store, self._wait)
        self.random = random
        self.paused_until = 0.0
        self.lost = self.taken = 0
        self._is_killed = False
        self._may_go, self._is_waiting = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        self._is_waiting.acquire()

    def step(self, *, kill: bool = False) -> None:
        """Let it make a request, or be killed before that."""
        self._is_killed = kill
        self._may_go.release()
        if kill:
            self._thread.join()
        else:
            self._is_waiting.acquire()

    def _wait(self) -> None:
        self._is_waiting.release()
        self._may_go.acquire()
        if self._is_killed:
            raise Killed

    def _live(self) -> None:
        try:
            while True:
                self._run()
        except Killed:
            pass

    def _run(self) -> None:
        lease = Lease(self.claims, self.claims.fence)
        if not lease.try_take(is_waiting=self.random.random() < 0.5):
            return
        self.taken += 1
        for _ in range(self.random.randrange(4)):
            version = self.claims.read_log()
            if not (lease.renew() and lease.check() and self.claims.commit(version)):
                self.lost += 1
                return
        lease.release()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_runs_commit_counts_in_the_order_of_their_claims(seed: int) -> None:
    random, store = Random(seed), Store()
    processes = [Process(store, random) for _ in range(HOLDERS)]
    lost = kills = 0
    for _ in range(REQUESTS):
        store.now += random.choice([0.0, 0.01, 1.0])
        able = [each for each in processes if each.paused_until <= store.now]
        if not able:
            store.now = min(each.paused_until for each in processes)
            continue
        chosen = random.choice(able)
        chance = random.random()
        if chance < 0.02:
            chosen.step(kill=True)
            kills, lost = kills + 1, lost + chosen.lost
            processes[processes.index(chosen)] = Process(store, random)
        elif chance < 0.08:
            chosen.paused_until = store.now + random.uniform(0, 4 * EXPIRY)
        else:
            chosen.step()
    for each in processes:
        lost += each.lost
        each.step(kill=True)
    newest, snapshots = 0, []
    for is_fence, number in store.log:
        # A run that has lost the lease may still add its fence, which does no harm.
        assert is_fence or number >= newest
        newest = max(newest, number)
        if not is_fence:
            snapshots.append(number)
    assert min(len(set(snapshots)), len(store.log) - len(snapshots), lost, kills) > 3
    # Old claims do not stay, whatever became of their runs.
    assert len(store.files) < 20
    # Once all are dead, the next run has to wait no longer than stated.
    last = Claims(store, lambda: None)
    store.now += EXPIRY
    assert Lease(last, last.fence).try_take()


def test_a_run_that_renews_its_lease_keeps_it() -> None:
    store = Store()
    mine, others = (Claims(store, lambda: None) for _ in range(2))
    lease, other = Lease(mine, mine.fence), Lease(others, others.fence)
    assert lease.try_take()
    for _ in range(10):
        store.now += RENEWAL_INTERVAL
        assert lease.renew()
        assert not other.try_take(is_waiting=True)
        assert mine.look().is_wanted
    assert not store.log
    # One that waits no longer is not waited for.
    store.now += EXPIRY / 2
    assert lease.renew()
    assert not mine.look().is_wanted
    lease.release()
    assert other.try_take()
    assert not lease.check()
    assert not lease.renew()
    # Whoever released the lease commits no more.
    assert not store.log


def test_a_number_that_was_followed_and_removed_is_not_claimed_again() -> None:
    """A run that was paused between its look and its claim."""
    store = Store()
    claims = [Claims(store, lambda: None) for _ in range(2)]
    late = Lease(claims[0], claims[0].fence)

    def overtake(number: int) -> bool:
        for _ in range(3):
            lease = Lease(claims[1], claims[1].fence)
            assert lease.try_take()
            lease.release()
        del claims[0].claim  # type: ignore[method-assign]
        return claims[0].claim(number)

    claims[0].claim = overtake  # type: ignore[method-assign]
    assert not late.try_take()
    assert claims[1].find_newest() == 3
