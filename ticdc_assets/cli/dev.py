"""`simulate`, `dev`: a changefeed that keeps writing, and Dagster's UI beside it to watch."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from resources.catalog import read_catalog
from resources.lake import LAKE
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.cli import texts
from ticdc_assets.demo import Options, prepare
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.store.lake import Lake

# For years.
_TRANSACTIONS = 1 << 30
# Seconds between two checkpoints, and between two changes of a schema.
_FLUSH, _STATEMENT = 5, 45
# So many seconds for something to begin, or to end.
_PATIENCE = 20
# Seconds between two looks at which tables there are.
_LOOK = 2.0
_RELOAD = 'mutation { reloadRepositoryLocation(repositoryLocationName: "ticdc") { __typename } }'


def simulate(options: argparse.Namespace) -> int:
    """Write a changefeed in real time until it is told to stop."""
    rate: float = options.rate
    topic = options.protocol in ("simple", "open-protocol")
    simulation = prepare(
        options.dir,
        Options(
            protocol=options.protocol,
            transport="dump" if topic else "storage",
            transactions=_TRANSACTIONS,
            rate=rate,
            flush_every=max(round(_FLUSH * rate), 1),
            statement_every=max(round(_STATEMENT * rate), 1),
            history=False,
        ),
    )
    for step in simulation:
        print(
            f"checkpoint {step.checkpoint} ({texts.moment(step.checkpoint)}):"
            f" {texts.count(step.rows, 'row change')} so far",
            flush=True,
        )
    return 0


def dev(options: argparse.Namespace) -> int:
    """Simulate, and show what becomes of it in Dagster's UI."""
    settings = Path("dagster.yaml")
    if not settings.is_file():
        raise ConfigError("is not here: run it where the project is", file=str(settings))
    folder: Path = (options.dir or Path(tempfile.mkdtemp(prefix="ticdc-dev-"))).absolute()
    # An instance of its own: one that remembers runs of another lake would go on with them.
    home = folder / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(settings, home)
    upstream = folder / "upstream"
    program = [sys.executable, "-m", "ticdc_assets.cli"]
    writer = [*program, "simulate", str(upstream), "--rate", str(options.rate)]
    writer += ["--protocol", options.protocol]
    environment = {
        # A tick every few seconds, so that there is something to see.
        "TICDC_SENSOR_SECONDS": "5",
        **os.environ,
        "TICDC_CHANGEFEEDS": str(upstream / "changefeeds.toml"),
        LAKE: str(folder / "lake"),
        "DAGSTER_HOME": str(home),
        # As an activated environment has it; `dg` asks for that.
        "VIRTUAL_ENV": sys.prefix,
    }
    ui = [str(Path(sys.executable).with_name("dg")), "dev", "--port", str(options.port)]
    print(f"A shop, and what TiCDC writes of it as {options.protocol}, in {folder}")
    print(f"Dagster's UI: http://localhost:{options.port}; Ctrl-C stops both\n", flush=True)
    processes: list[subprocess.Popen[bytes]] = []
    before = _stoppable()
    try:
        processes.append(_started(writer, environment, quiet=True))
        _wait(upstream / "changefeeds.toml", processes[0])
        processes.append(_started(ui, environment))
        feed = next(iter(load_changefeeds(upstream / "changefeeds.toml")))
        graph = _Graph(Lake(environment[LAKE], feed), options.port)
        while all(process.poll() is None for process in processes):
            time.sleep(_LOOK)
            graph.follow()
        stopped = "the simulation" if processes[1].poll() is None else "Dagster"
    finally:
        _end(processes)
        for number, handler in before.items():
            signal.signal(number, handler)
    print(f"ticdc-assets: {stopped} has ended by itself", file=sys.stderr)
    return 1


class _Graph:
    """Has the code location loaded again when tables have come or gone, as a person would."""

    def __init__(self, lake: Lake, port: int) -> None:
        self._lake = lake
        self._url = f"http://localhost:{port}/graphql"
        self._shown: set[tuple[str, str]] = set()

    def follow(self) -> None:
        try:
            there = set(read_catalog(self._lake).named())
        except ConfigError:
            # It is being written; there is a next time.
            return
        if there != self._shown and self._reload():
            self._shown = there

    def _reload(self) -> bool:
        headers = {"Content-Type": "application/json"}
        query = json.dumps({"query": _RELOAD}).encode()
        request = urllib.request.Request(self._url, query, headers)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                return b"WorkspaceLocationEntry" in answer.read()
        except OSError:
            # It is not up yet.
            return False


def _wait(file: Path, writing: "subprocess.Popen[bytes]") -> None:
    for _ in range(10 * _PATIENCE):
        if file.exists():
            return
        if writing.poll() is not None:
            break
        time.sleep(0.1)
    raise ConfigError("the simulation has not begun", file=str(file.parent))


def _stoppable() -> dict[signal.Signals, Any]:
    """End in good order however one is told to, also where a shell has Ctrl-C ignored."""

    def end(_: int, __: object) -> None:
        raise KeyboardInterrupt

    return {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}


def _started(
    command: list[str], environment: dict[str, str], *, quiet: bool = False
) -> "subprocess.Popen[bytes]":
    """A process that leads a group, so that what it starts ends with it."""
    out = subprocess.DEVNULL if quiet else None
    return subprocess.Popen(command, env=environment, stdout=out, start_new_session=True)


def _end(processes: "list[subprocess.Popen[bytes]]") -> None:
    """Ask all groups to end, then tell them to; who asks again meanwhile is not heard."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        there = [process for process in processes if _signalled(process, how)]
        until = time.monotonic() + _PATIENCE
        while there and time.monotonic() < until:
            time.sleep(0.2)
            there = [process for process in there if _signalled(process, 0)]
        if not there:
            break


def _signalled(process: "subprocess.Popen[bytes]", how: int) -> bool:
    """Whether anything of a group was there to be signalled."""
    process.poll()
    try:
        os.killpg(process.pid, how)
    except ProcessLookupError:
        return False
    return True
