"""`simulate` and `dev`: a changefeed in real time, and Dagster beside it."""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ticdc_assets.cli import texts
from ticdc_assets.cli.output import say, warn
from ticdc_assets.demo import TOPIC, Simulation, SimulationOptions, prepare
from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.dump import read_dump
from ticdc_assets.resources.kafka_broker import choose_settings, prepare_broker
from ticdc_assets.resources.kafka_producer import Producer
from ticdc_assets.resources.lake import LAKE, make_absolute
from ticdc_assets.resources.spark_server import FOLDER, find_free_port
from ticdc_assets.resources.spark_settings import MASTER

# Enough for years.
_TRANSACTIONS = 1 << 30
_SECONDS_PER_CHECKPOINT, _SECONDS_PER_DDL = 5, 45
# Seconds to wait for a process to start or to end.
_TIMEOUT = 20
_BROKER_TIMEOUT = 90
_HOST = "127.0.0.1"
_SECONDS_BETWEEN_POLLS = 1.0
_INTERRUPTED = "ticdc-assets: interrupted; stopping the simulation and Dagster"

Process = subprocess.Popen[bytes]


def simulate(options: argparse.Namespace) -> int:
    """Write a changefeed in real time until the process is interrupted."""
    rate: float = options.rate
    brokers: str | None = options.brokers
    protocol = _choose_protocol(options, is_on_brokers=brokers is not None)
    is_topic = brokers is not None or protocol in ("simple", "open-protocol")
    simulation = prepare(
        options.dir,
        SimulationOptions(
            protocol=protocol,
            transport="dump" if is_topic else "storage",
            brokers=brokers,
            transactions=_TRANSACTIONS,
            rate=rate,
            flush_every=max(round(_SECONDS_PER_CHECKPOINT * rate), 1),
            statement_every=max(round(_SECONDS_PER_DDL * rate), 1),
            history=False,
        ),
    )
    deliver = None if brokers is None else _connect(brokers, simulation)
    for step in simulation:
        if deliver is not None:
            deliver()
        say(
            f"checkpoint {step.checkpoint} ({texts.format_time(step.checkpoint)}):"
            f" {texts.format_count(step.rows, 'row change')} so far"
        )
    return 0


def _choose_protocol(options: argparse.Namespace, *, is_on_brokers: bool) -> Any:
    if is_on_brokers and options.protocol == "csv":
        raise ConfigError("csv cannot be written to topics", setting="--protocol")
    return options.protocol or ("simple" if is_on_brokers else "csv")


def _connect(brokers: str, simulation: Simulation) -> Callable[[], None]:
    """Create the topic; return what sends everything new from the dump to it."""
    producer = Producer(brokers)
    producer.create_topic(TOPIC, simulation.options.partitions)
    dump = simulation.folder / "records.jsonl"

    def deliver() -> None:
        producer.send(record for record in read_dump(dump) if isinstance(record, Message))
        # The simulation appends to it.
        dump.write_bytes(b"")

    return deliver


def dev(options: argparse.Namespace) -> int:
    """Simulate a changefeed and run Dagster on it until the process is interrupted."""
    settings = Path("dagster.yaml")
    if not settings.is_file():
        raise ConfigError("not found: run this in the project folder", file=str(settings))
    folder: Path = (options.dir or Path(tempfile.mkdtemp(prefix="ticdc-dev-"))).absolute()
    lake = make_absolute(str(folder / "lake"), setting="--dir")
    # An instance of its own: a shared one would resume runs of another lake.
    home = folder / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(settings, home)
    changefeeds = folder / "upstream" / "changefeeds.toml"
    environment = {
        # A run polls so often; Dagster's sensors tick every 5 seconds at most.
        "TICDC_SENSOR_SECONDS": "2",
        **os.environ,
        "TICDC_CHANGEFEEDS": str(changefeeds),
        LAKE: lake,
        FOLDER: str(folder / "spark"),
        "DAGSTER_HOME": str(home),
        # `dg` requires an activated environment.
        "VIRTUAL_ENV": sys.prefix,
    }
    is_on_brokers = options.sink == "kafka"
    protocol = _choose_protocol(options, is_on_brokers=is_on_brokers)
    brokers = f"{_HOST}:{find_free_port()}" if is_on_brokers else None
    place = f" on {brokers}" if brokers else ""
    say(f"A simulated shop and its changefeed ({protocol}){place} in {folder}")
    say(f"Dagster's UI: http://localhost:{options.port}; Ctrl-C stops everything")
    say()
    processes = ProcessGroups(environment)
    handlers = _interrupt_on_signals()
    try:
        if not os.environ.get(MASTER):
            # Its end is no reason to stop: it starts again, and runs do without it meanwhile.
            processes.start([sys.executable, "-m", "ticdc_assets.cli", "spark-server"], quiet=True)
        if brokers is not None:
            _start_broker(processes, folder / "kafka", brokers)
        command = _simulate_command(options, changefeeds.parent, brokers)
        simulation = processes.start(command, quiet=True)
        _wait_for(changefeeds, simulation)
        dagster = processes.start(
            [str(Path(sys.executable).with_name("dg")), "dev", "--port", str(options.port)]
        )
        while simulation.poll() is None and dagster.poll() is None:
            time.sleep(_SECONDS_BETWEEN_POLLS)
    except KeyboardInterrupt:
        processes.mute()
        warn(_INTERRUPTED)
        return 130
    finally:
        processes.stop()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    ended = "the simulation" if dagster.poll() is None else "Dagster"
    warn(f"ticdc-assets: {ended} ended unexpectedly")
    return 1


def _simulate_command(options: argparse.Namespace, folder: Path, brokers: str | None) -> list[str]:
    command = [sys.executable, "-m", "ticdc_assets.cli", "simulate", str(folder)]
    command += ["--rate", str(options.rate)]
    if options.protocol is not None:
        command += ["--protocol", options.protocol]
    return command if brokers is None else [*command, "--brokers", brokers]


def _start_broker(processes: "ProcessGroups", folder: Path, address: str) -> None:
    command = prepare_broker(
        folder, choose_settings(folder, address, f"{_HOST}:{find_free_port()}")
    )
    broker = processes.start(command, quiet=True, folder=folder)
    deadline = time.monotonic() + _BROKER_TIMEOUT
    while time.monotonic() < deadline and broker.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((_HOST, int(address.rpartition(":")[2]))) == 0:
                return
        time.sleep(0.2)
    raise ConfigError("the broker did not start", file=str(folder))


def _wait_for(file: Path, simulation: Process) -> None:
    for _ in range(10 * _TIMEOUT):
        if file.exists():
            return
        if simulation.poll() is not None:
            break
        time.sleep(0.1)
    raise ConfigError("the simulation did not start", file=str(file.parent))


def _interrupt_on_signals() -> dict[signal.Signals, Any]:
    """Raise KeyboardInterrupt on SIGINT and SIGTERM, even where the shell ignores SIGINT."""

    def interrupt(_: int, __: object) -> None:
        raise KeyboardInterrupt

    return {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}


class ProcessGroups:
    """Child processes that each lead a process group, so that what they start ends with them.

    Their output passes through this process.  After Ctrl-C it can therefore be muted: what
    interrupted children print then are stack traces of an end that is intended.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._processes: list[Process] = []
        self._is_muted = threading.Event()

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
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if source is not None:
                arguments = (source, target.buffer)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()
        return process

    def _forward(self, source: IO[bytes], target: IO[bytes]) -> None:
        # Read to the end even when muted: a full pipe would block the process.
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
            deadline = time.monotonic() + _TIMEOUT
            while alive and time.monotonic() < deadline:
                time.sleep(0.2)
                alive = [process for process in alive if _send_signal(process, 0)]
            if not alive:
                break


def _send_signal(leader: Process, number: int) -> bool:
    """Send a signal to a process group; return whether any process of it is alive."""
    leader.poll()
    try:
        os.killpg(leader.pid, number)
    except ProcessLookupError:
        return False
    return True
