"""Child processes that end with this one, however it ends."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from ticdc_assets.cli import guard

# Seconds to wait for a process to start or to end.
TIMEOUT = 20

Process = subprocess.Popen[bytes]


class ProcessGroups:
    """Child processes that each lead a process group, so that what they start ends with them.

    Their output passes through this process.  After Ctrl-C it can therefore be muted: what
    interrupted children print then are stack traces of an end that is intended.  Where this process
    is killed, a guard ends them.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._processes: list[Process] = []
        self._is_muted = threading.Event()
        self._guard = subprocess.Popen(
            [sys.executable, guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start(
        self, command: list[str], *, quiet: bool = False, folder: Path | None = None
    ) -> Process:
        """Start a process; `quiet` drops its standard output, but not its standard error."""
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if quiet else subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.append(process)
        if self._guard.stdin is not None:
            self._guard.stdin.write(b"%d\n" % process.pid)
            self._guard.stdin.flush()
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if source is not None:
                arguments = (source, target.buffer)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()
        return process

    def _forward(self, source: IO[bytes], target: IO[bytes]) -> None:
        # Read to the end even when muted: a full pipe would block the process.
        with source:
            for line in source:
                if not self._is_muted.is_set():
                    target.write(line)
                    target.flush()

    def mute(self) -> None:
        """Drop all further output of the processes."""
        self._is_muted.set()

    def stop(self) -> None:
        """Stop every group with SIGINT, then SIGTERM, then SIGKILL; ignore further Ctrl-C."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            alive = [process for process in self._processes if _send_signal(process, number)]
            deadline = time.monotonic() + TIMEOUT
            while alive and time.monotonic() < deadline:
                time.sleep(0.2)
                alive = [process for process in alive if _send_signal(process, 0)]
            if not alive:
                break
        self._guard.kill()
        self._guard.communicate()


def _send_signal(leader: Process, number: int) -> bool:
    """Send a signal to a process group; return whether any process of it is alive."""
    leader.poll()
    try:
        os.killpg(leader.pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_for_port(process: Process, address: str, seconds: float) -> bool:
    """Wait until something listens at an address; return whether it does."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return True
        time.sleep(0.2)
    return False
