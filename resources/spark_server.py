"""Find the Spark Connect server that `ticdc-assets spark-server` keeps running on this machine.

`TICDC_SPARK_SERVER` names its folder.  A file there, which only its user can read, has the port and
the token while the server runs; the token is in no URL, no argument and no message.
"""

import json
import os
import socket
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = "TICDC_SPARK_SERVER"
# The environment variable from which the server and its clients take the token.
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_FILE = "server.json"
_SECONDS_TO_ANSWER = 5
# How an HTTP/2 connection begins, with an empty SETTINGS frame; the server answers with its own.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@dataclass(frozen=True)
class SparkServer:
    """A server on the loopback interface."""

    port: int
    token: str

    @property
    def url(self) -> str:
        """The URL without the token; the client sends one without TLS to `localhost` only."""
        return f"sc://localhost:{self.port}"

    def is_answering(self) -> bool:
        """Whether it answers; a process that hangs accepts connections, too."""
        with suppress(OSError):
            address = ("localhost", self.port)
            with socket.create_connection(address, timeout=_SECONDS_TO_ANSWER) as connection:
                connection.sendall(_GREETING)
                return bool(connection.recv(1))
        return False

    def announce(self, folder: Path) -> None:
        """Tell clients how to reach the server."""
        scratch = folder / f"{_FILE}.new"
        scratch.unlink(missing_ok=True)
        mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(scratch, mode, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
        scratch.replace(folder / _FILE)


def withdraw(folder: Path) -> None:
    """Tell clients that no server runs."""
    (folder / _FILE).unlink(missing_ok=True)


def find_server() -> SparkServer | None:
    """Return the server whose folder is named, if it answers; its file must be this user's."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    try:
        with Path(folder, _FILE).open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
                return None
            content = json.load(file)
        server = SparkServer(int(content["port"]), str(content["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return server if server.is_answering() else None
