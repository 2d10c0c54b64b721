"""CPU time and peak memory of this process and its descendants, from /proc.

A busy machine distorts CPU time less than wall-clock time.  Java's child processes are Spark's
Python workers.
"""

import math
import os
import subprocess
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread
from typing import TypeVar

# Roles of processes: the driver is the Python process that runs the work, and all it starts itself.
ROLES = ("driver", "java", "workers", "server")
_SERVER = b"SparkConnectServer"
_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_SECONDS = 0.2
_T = TypeVar("_T")


@dataclass(frozen=True)
class Usage:
    """Seconds, CPU seconds of each role, and the sum of the processes' peak memory in bytes.

    The memory of processes that have ended is left out.
    """

    seconds: float
    driver: float
    java: float = 0.0
    workers: float = 0.0
    server: float = 0.0
    memory: int = 0

    @property
    def cpu(self) -> float:
        return self.driver + self.java + self.workers + self.server


@dataclass(frozen=True)
class _Process:
    role: str
    # Of the process, and of its children that ended.
    own: float
    ended: float
    memory: int


class Clock:
    """Measures wall-clock and CPU seconds since its creation (CPU: nan without /proc)."""

    def __init__(self) -> None:
        self._before = _sum_cpu(_list_processes(os.getpid()).values())
        self._start = time.perf_counter()

    def read(self) -> tuple[float, float]:
        usage = self.read_usage()
        return usage.seconds, usage.cpu

    def read_usage(self) -> Usage:
        seconds = time.perf_counter() - self._start
        processes = _list_processes(os.getpid()).values()
        now = _sum_cpu(processes)
        # Of a worker whose parent was killed, nobody knows the time: then that of all is unknown.
        cpu = {
            role: now[role] - self._before[role] if now[role] >= self._before[role] else math.nan
            for role in ROLES
        }
        return Usage(seconds, **cpu, memory=sum(process.memory for process in processes))


def call_apart(work: Callable[[], _T]) -> _T:
    """Call a function in a new process; raise `RuntimeError` if it fails."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_call, work).result()


def _call(work: Callable[[], _T]) -> _T:
    try:
        return work()
    except Exception:
        # Errors of Spark do not travel between processes.
        raise RuntimeError(traceback.format_exc()) from None


def run_command(command: Sequence[str]) -> tuple[Usage, str]:
    """Run a command to its end; return what it took and what it printed; raise if it fails."""
    start = time.perf_counter()
    with TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        with _sampled(process.pid) as samples:
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {text[-2000:]}")
    cpu = {role: samples.sum_cpu(role) for role in ROLES}
    # The samples miss a process's last moments; the system, a Java that outlives its driver.
    known = used.ru_utime + used.ru_stime - sum(cpu[role] for role in ROLES[1:])
    cpu["driver"] = max(cpu["driver"], known)
    return Usage(seconds, **cpu, memory=max(samples.memory, used.ru_maxrss * 1024)), text


@dataclass
class _Samples:
    """The last state of every descendant of a process, and the most memory of all at once."""

    seen: dict[int, _Process] = field(default_factory=dict)
    memory: int = 0

    def add(self, processes: Mapping[int, _Process]) -> None:
        self.seen.update(processes)
        self.memory = max(self.memory, sum(found.memory for found in processes.values()))

    def sum_cpu(self, role: str) -> float:
        return sum(found.own for found in self.seen.values() if found.role == role)


@contextmanager
def _sampled(root: int) -> Iterator[_Samples]:
    samples = _Samples()
    has_ended = Event()

    def sample() -> None:
        while not has_ended.wait(_SAMPLE_SECONDS):
            samples.add(_list_processes(root))

    thread = Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        has_ended.set()
        thread.join()


def _sum_cpu(processes: Collection[_Process]) -> dict[str, float]:
    cpu = dict.fromkeys(ROLES, 0.0)
    for process in processes:
        cpu[process.role] += process.own
        # Of Java, children that ended were workers.
        cpu["workers" if process.role == "java" else process.role] += process.ended
    return cpu if processes else dict.fromkeys(ROLES, math.nan)


def _list_processes(root: int) -> Mapping[int, _Process]:
    """Return a process and its descendants, by their id; nothing without /proc."""
    stats: dict[int, list[str]] = {}
    names: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            start, _, rest = path.read_text().rpartition(")")
        except OSError:
            # The process has just ended; its parent accounts for its time.
            continue
        pid = int(path.parent.name)
        stats[pid], names[pid] = rest.split(), start.partition("(")[2]
    roles = {root: "driver"} if root in stats else {}
    while more := {pid: s for pid, s in stats.items() if int(s[1]) in roles and pid not in roles}:
        for pid, stat in more.items():
            roles[pid] = _find_role(pid, names[pid], roles[int(stat[1])])
    found = {pid: _make_process(pid, role, stats[pid]) for pid, role in roles.items()}
    # Until it runs another program, a child of Java seems to have all of Java's memory.
    forks = {p for p in found if found[p].role == "workers" and not names[p].startswith("python")}
    return {pid: replace(p, memory=0) if pid in forks else p for pid, p in found.items()}


def _find_role(pid: int, name: str, parent: str) -> str:
    if name != "java":
        return "workers" if parent in ("java", "workers", "server") else "driver"
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        line = b""
    return "server" if _SERVER in line else "java"


def _make_process(pid: int, role: str, stat: Sequence[str]) -> _Process:
    user, system, ended_user, ended_system = map(int, stat[11:15])
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        status = ""
    # A process that has just ended has no memory.
    peak = status.partition("VmHWM:")[2].split(maxsplit=1)[:1]
    memory = int(peak[0]) * 1024 if peak else 0
    return _Process(role, (user + system) / _TICKS, (ended_user + ended_system) / _TICKS, memory)
