"""Find the Spark Connect server that `ticdc-assets spark-server` keeps running on this machine.

`TICDC_SPARK_SERVER` names its folder.  A file there, which only its user can read, says where the
server is.  Each start of a server has a port and a token of its own: whoever takes the port of one
that ended learns a token that opens nothing.  The token is in no URL, no argument and no message.
"""

import fcntl
import json
import os
import socket
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from ticdc_assets.safe_text import remember_secret

FOLDER = "TICDC_SPARK_SERVER"
# The environment variable from which the server and its clients take the token.
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_FILE = "server.json"
# Held while a server runs, by its Java too: it is free as soon as both have ended, however.
_LOCK = "server.lock"
# A file per session, locked by its client: one that is not locked is left of a client that died.
_SESSIONS = "sessions"
# In seconds.  A server starts in less; a second Java beside it would take longer than waiting.
START_TIMEOUT = 60.0
_ANSWER_TIMEOUT = 5.0
_POLL_INTERVAL = 0.2
# How an HTTP/2 connection begins, with an empty SETTINGS frame; the server answers with its own.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@dataclass(frozen=True)
class SparkServer:
    """A server on the loopback interface, and the process id of its Java."""

    port: int
    token: str
    process: int

    @property
    def url(self) -> str:
        """The URL without the token; the client sends one without TLS to `localhost` only."""
        return f"sc://localhost:{self.port}"

    def is_answering(self) -> bool:
        """Whether it answers; a process that hangs accepts connections, too."""
        with suppress(OSError):
            address = ("localhost", self.port)
            with socket.create_connection(address, timeout=_ANSWER_TIMEOUT) as connection:
                connection.sendall(_GREETING)
                return bool(connection.recv(1))
        return False

    def announce(self, folder: Path) -> None:
        """Say in the folder where the server is, even before it answers."""
        scratch = folder / f"{_FILE}.new"
        scratch.unlink(missing_ok=True)
        mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(scratch, mode, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
        scratch.replace(folder / _FILE)


def find_free_port() -> int:
    """Return a port on the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def withdraw(folder: Path) -> None:
    """Take back the announcement of a server that has ended, and what is left of its sessions."""
    (folder / _FILE).unlink(missing_ok=True)
    for file in (folder / _SESSIONS).glob("*"):
        file.unlink(missing_ok=True)


@contextmanager
def server_lock(folder: Path) -> Iterator[IO[str] | None]:
    """Hold the lock of the server in a folder; yield None if another process has it."""
    with (folder / _LOCK).open("a", encoding="utf-8") as lock:
        # A client that looks whether a server runs has the lock for an instant.
        for _ in range(5):
            if _try_lock(lock, fcntl.LOCK_EX):
                yield lock
                return
            time.sleep(_POLL_INTERVAL)
        yield None


def find_server() -> SparkServer | None:
    """Return the server whose folder is named, if one runs; wait for one that is starting."""
    stated = os.environ.get(FOLDER)
    until = time.monotonic() + START_TIMEOUT
    while stated and time.monotonic() < until:
        server = _read_announcement(Path(stated))
        if server is None or server.is_answering():
            return server
        time.sleep(_POLL_INTERVAL)
    return None


def _read_announcement(folder: Path) -> SparkServer | None:
    """Read where the server is; None unless this user announced it and it still runs."""
    try:
        with (folder / _FILE).open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
                return None
            content = json.load(file)
        server = SparkServer(int(content["port"]), str(content["token"]), int(content["process"]))
        with (folder / _LOCK).open(encoding="utf-8") as lock:
            is_running = not _try_lock(lock, fcntl.LOCK_SH)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    remember_secret(server.token)
    return server if is_running else None


@dataclass(frozen=True)
class ClientSession:
    """A session at a server, and the file that is locked for as long as its client lives."""

    server: SparkServer
    id: str
    file: IO[str]

    @property
    def url(self) -> str:
        """The URL of the session, without the token."""
        return f"{self.server.url}/;user_id=ticdc;session_id={self.id}"

    def forget(self) -> None:
        """Remove the file of a session that was closed."""
        Path(self.file.name).unlink(missing_ok=True)
        self.file.close()


def register_session(server: SparkServer) -> ClientSession:
    """Choose the id of a session that this process opens at a server."""
    folder = Path(os.environ[FOLDER], _SESSIONS)
    folder.mkdir(mode=0o700, exist_ok=True)
    chosen = str(uuid.uuid4())
    file = (folder / chosen).open("x", encoding="utf-8")
    _try_lock(file, fcntl.LOCK_EX)
    return ClientSession(server, chosen, file)


def take_abandoned_sessions(server: SparkServer) -> Iterator[ClientSession]:
    """Find the sessions of clients that died: the server may still be at work for them."""
    for path in Path(os.environ[FOLDER], _SESSIONS).glob("*"):
        with suppress(OSError):
            file = path.open(encoding="utf-8")
            if _try_lock(file, fcntl.LOCK_EX):
                yield ClientSession(server, path.name, file)
            file.close()


def _try_lock(file: IO[str], mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
