"""`simulate` and `dev`: a changefeed in real time, and Dagster beside it."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ticdc_assets.cli import texts
from ticdc_assets.cli.demo_upstream import OWN_SERVER, open_database, parse_address, start_server
from ticdc_assets.cli.output import say, warn
from ticdc_assets.cli.process_groups import TIMEOUT, Process, ProcessGroups, wait_for_port
from ticdc_assets.demo import TOPIC, Simulation, SimulationOptions, check_is_new, prepare
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
_BROKER_TIMEOUT = 90
_HOST = "127.0.0.1"
_SECONDS_BETWEEN_POLLS = 1.0
_INTERRUPTED = "ticdc-assets: interrupted; stopping the simulation and Dagster"


def simulate(options: argparse.Namespace) -> int:
    """Write a changefeed in real time until the process is interrupted."""
    rate: float = options.rate
    brokers: str | None = options.brokers
    protocol = _choose_protocol(options, is_on_brokers=brokers is not None)
    is_topic = brokers is not None or protocol in ("simple", "open-protocol")
    upstream = None if options.upstream is None else parse_address(options.upstream)
    simulated = SimulationOptions(
        protocol=protocol,
        transport="dump" if is_topic else "storage",
        brokers=brokers,
        upstream=upstream,
        transactions=_TRANSACTIONS,
        rate=rate,
        flush_every=max(round(_SECONDS_PER_CHECKPOINT * rate), 1),
        statement_every=max(round(_SECONDS_PER_DDL * rate), 1),
        history=False,
    )
    # Before the shop of an earlier run is removed.
    check_is_new(options.dir)
    with open_database(upstream) as database:
        simulation = prepare(options.dir, simulated, database)
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
    check_is_new(folder / "upstream")
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
    if options.upstream not in (None, OWN_SERVER):
        # An address that is wrong is an error here already.
        parse_address(options.upstream)
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
        simulation = _start_simulation(processes, options, folder, brokers)
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


def _start_simulation(
    processes: ProcessGroups, options: argparse.Namespace, folder: Path, brokers: str | None
) -> Process:
    """Start the simulation, and before it the servers that it needs."""
    if brokers is not None:
        _start_broker(processes, folder / "kafka", brokers)
    upstream = options.upstream
    if upstream == OWN_SERVER:
        upstream = start_server(processes, folder / "tidb")
        say(f"The shop works on a TiDB of its own: {upstream}")
    command = [sys.executable, "-m", "ticdc_assets.cli", "simulate", str(folder / "upstream")]
    command += ["--rate", str(options.rate)]
    if options.protocol is not None:
        command += ["--protocol", options.protocol]
    if upstream is not None:
        command += ["--upstream", upstream]
    if brokers is not None:
        command += ["--brokers", brokers]
    return processes.start(command, quiet=True)


def _start_broker(processes: ProcessGroups, folder: Path, address: str) -> None:
    command = prepare_broker(
        folder, choose_settings(folder, address, f"{_HOST}:{find_free_port()}")
    )
    broker = processes.start(command, quiet=True, folder=folder)
    if not wait_for_port(broker, address, _BROKER_TIMEOUT):
        raise ConfigError("the broker did not start", file=str(folder))


def _wait_for(file: Path, simulation: Process) -> None:
    for _ in range(10 * TIMEOUT):
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
