"""Simulate a changefeed into a folder: its output, its truth and its declaration."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal, Protocol

from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.demo.bulk import Bulk
from ticdc_assets.demo.canal_json import CanalJson, CanalLines
from ticdc_assets.demo.change import Change, Truth
from ticdc_assets.demo.csv_lines import CsvLines
from ticdc_assets.demo.declaration import format_changefeed_toml, format_declaration
from ticdc_assets.demo.delivery import Delivery
from ticdc_assets.demo.open_protocol import OpenProtocol
from ticdc_assets.demo.shop import KEYS, Shop
from ticdc_assets.demo.simple_avro import SimpleAvro
from ticdc_assets.demo.simple_json import SimpleJson
from ticdc_assets.demo.storage import StorageWriter
from ticdc_assets.demo.topic import Codec, TopicWriter
from ticdc_assets.errors import ConfigError
from ticdc_assets.storage_sink.path import Layout

# All options on: a consumer then knows commit ts, old values and column names.
FULL_CSV = CsvDialect(include_commit_ts=True, output_old_value=True, field_header=True)
_PROTOCOLS = {
    "storage": ("csv", "canal-json"),
    "dump": ("simple", "canal-json", "open-protocol"),
}
_START = datetime(2026, 3, 14, 8, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """What to simulate; without a rate, the same options give the same bytes.

    `rate` is transactions per second in real time; without it, time is simulated and nothing waits.
    Without `history`, only the present truth is known.
    """

    protocol: Literal["csv", "canal-json", "simple", "open-protocol"] = "csv"
    transport: Literal["storage", "dump"] = "storage"
    # The brokers that the declaration names, instead of the dump whose records they are sent.
    brokers: str | None = None
    # Of the Simple protocol
    encoding: Literal["json", "avro"] = "json"
    workload: Literal["shop", "bulk"] = "shop"
    # The database that the declaration names.
    upstream: Upstream | None = None
    seed: int = 1
    transactions: int = 2000
    rate: float | None = None
    # Transactions per checkpoint.
    flush_every: int = 50
    start: datetime | None = None
    # Whether the empty tables exist before the changefeed starts, so that it lacks their CREATE.
    tables_exist: bool = False
    # Whether DDLs run while the shop is open.
    statements: bool = True
    # Transactions per DDL; by default the DDLs are spread evenly.
    statement_every: int | None = None
    history: bool = True
    # Delivery at least once: the chance that the output before a checkpoint is repeated after it,
    # and that a record of a topic is sent twice.
    replays: float = 0.0
    duplicates: float = 0.0
    # Topics
    partitions: int = 3
    dispatch: Literal["index-value", "table"] = "index-value"
    # The chance that rows are sent before earlier DDLs of other tables.
    ahead: float = 0.3
    # Storage
    csv: CsvDialect = FULL_CSV
    date_separator: Literal["none", "year", "month", "day"] = "day"
    file_size: int = 64 << 20
    # Bulk
    tables: int = 4
    rows_each: int = 100
    updates: float = 0.0
    deletes: float = 0.0


@dataclass(frozen=True, slots=True)
class SimulationStep:
    """The output up to a checkpoint."""

    checkpoint: int
    rows: int
    transactions: int


class Workload(Protocol):
    """Decides what happens, by a database in memory in which it has happened already."""

    @property
    def now(self) -> int: ...
    def opening(self) -> Iterator[Sequence[Change]]: ...
    def running(self) -> Iterator[Sequence[Change]]: ...
    def truth(self, ts: int | None = None) -> Truth: ...


class Database(Protocol):
    """Where the changes of a workload are made."""

    def make(self, change: Change) -> Sequence[Change]:
        """Make a change, and return it with the ts and the values that it has here."""
        ...

    def now(self) -> int:
        """Return a ts: what was made has none above it, what will be made has none below."""
        ...

    def truth(self, ts: int | None = None) -> Truth: ...


@dataclass(frozen=True, slots=True)
class InMemory:
    """The database of the workload itself."""

    workload: Workload

    def make(self, change: Change) -> Sequence[Change]:
        return (change,)

    def now(self) -> int:
        return self.workload.now

    def truth(self, ts: int | None = None) -> Truth:
        return self.workload.truth(ts)


class Writer(Protocol):
    """Writes changes as TiCDC does."""

    rows: int

    def take(self, change: Change) -> None: ...
    def flush(self, ts: int) -> None: ...


@dataclass(slots=True)
class Simulation:
    """A changefeed written step by step: iterate over it, or `run` it to its end."""

    folder: Path
    options: SimulationOptions
    # The file for `ticdc-assets --changefeeds`, and its text.
    changefeeds: Path
    feed_toml: str
    workload: Workload
    database: Database
    checkpoints: list[int] = field(default_factory=list)
    rows: int = 0
    _has_started: bool = False

    def truth(self, ts: int | None = None) -> Truth:
        """Return all tables after every change up to `ts` (default: now)."""
        return self.database.truth(ts)

    def __iter__(self) -> Iterator[SimulationStep]:
        if self._has_started:
            raise RuntimeError("a simulation runs once")
        self._has_started = True
        options = self.options
        early = [made for changes in self.workload.opening() for made in self._make(changes)]
        start_ts = early[-1].ts if options.tables_exist else early[0].ts - 1
        writer = make_writer(self.folder, options, start_ts)
        for change in early:
            writer.take(change)
        yield self._flush(writer, 0)
        started_at = time.monotonic()
        done = 0
        for done, changes in enumerate(self.workload.running(), 1):
            for change in self._make(changes):
                writer.take(change)
            if options.rate:
                time.sleep(max(started_at + done / options.rate - time.monotonic(), 0))
            if done % options.flush_every == 0:
                yield self._flush(writer, done)
        if done % options.flush_every:
            yield self._flush(writer, done)

    def run(self) -> "Simulation":
        """Run the simulation to its end."""
        for _ in self:
            pass
        return self

    def _make(self, changes: Sequence[Change]) -> Iterator[Change]:
        for change in changes:
            yield from self.database.make(change)

    def _flush(self, writer: Writer, done: int) -> SimulationStep:
        checkpoint = self.database.now()
        writer.flush(checkpoint)
        self.checkpoints.append(checkpoint)
        self.rows = writer.rows
        return SimulationStep(checkpoint, writer.rows, done)


def simulate(folder: Path, options: SimulationOptions = SimulationOptions()) -> Simulation:
    """Simulate a whole changefeed into a folder."""
    return prepare(folder, options).run()


def check_is_new(folder: Path) -> None:
    """Raise a `ConfigError` for a folder that has the output of a changefeed."""
    if (folder / "data").exists() or (folder / "records.jsonl").exists():
        reason = "already holds the output of a changefeed: name another folder"
        raise ConfigError(reason, file=str(folder))


def prepare(
    folder: Path,
    options: SimulationOptions = SimulationOptions(),
    database: Database | None = None,
) -> Simulation:
    """Write the declaration of a simulated changefeed, but none of its output.

    Its changes are made in `database`, by default in that of the workload.
    Raise `ConfigError` for options that exclude each other and for a folder that has output.
    """
    if options.protocol not in _PROTOCOLS[options.transport]:
        reason = f"{options.protocol} cannot be written to {options.transport}"
        raise ConfigError(reason, setting="protocol")
    folder = folder.absolute()
    check_is_new(folder)
    folder.mkdir(parents=True, exist_ok=True)
    keys = KEYS if options.workload == "shop" else {}
    toml = format_declaration(folder, options, keys)
    (folder / "changefeed.toml").write_text(format_changefeed_toml(options))
    changefeeds = folder / "changefeeds.toml"
    changefeeds.write_text(toml)
    workload = _make_workload(options)
    return Simulation(folder, options, changefeeds, toml, workload, database or InMemory(workload))


def _make_workload(options: SimulationOptions) -> Workload:
    start = options.start or (datetime.now(UTC) if options.rate else _START)
    start_ms = int(start.timestamp() * 1000)
    ms_between = 1000 / options.rate if options.rate else 20.0
    if options.workload == "bulk":
        return Bulk(options, start_ms, ms_between)
    return Shop(options, start_ms, ms_between)


def make_writer(folder: Path, options: SimulationOptions, start_ts: int) -> Writer:
    """Return the writer of a changefeed that starts at a ts."""
    random = Random(options.seed)
    if options.transport == "storage":
        is_csv = options.protocol == "csv"
        return StorageWriter(
            folder / "data",
            partial(CsvLines, dialect=options.csv) if is_csv else CanalLines,
            Layout(date_separator=options.date_separator, extension=".csv" if is_csv else ".json"),
            Delivery(start_ts, random, options.replays),
            file_size=options.file_size,
        )
    return TopicWriter(
        folder / "records.jsonl",
        _make_codec(options),
        Delivery(start_ts, random, options.replays, options.duplicates, options.ahead),
        partitions=options.partitions,
        dispatch=options.dispatch,
    )


def _make_codec(options: SimulationOptions) -> Codec:
    match options.protocol:
        case "simple":
            return SimpleAvro() if options.encoding == "avro" else SimpleJson()
        case "canal-json":
            return CanalJson()
        case _:
            return OpenProtocol()
