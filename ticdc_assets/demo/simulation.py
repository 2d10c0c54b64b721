"""A simulated changefeed in a folder: what it wrote, what is true, and how to declare it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal, Protocol

from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.demo.bulk import Bulk
from ticdc_assets.demo.canal_json import CanalJson, CanalLines
from ticdc_assets.demo.change import Change, Truth
from ticdc_assets.demo.csv_lines import CsvLines
from ticdc_assets.demo.declaration import changefeed_toml, declaration
from ticdc_assets.demo.open_protocol import OpenProtocol
from ticdc_assets.demo.shop import KEYS, Shop
from ticdc_assets.demo.simple_avro import SimpleAvro
from ticdc_assets.demo.simple_json import SimpleJson
from ticdc_assets.demo.storage import StorageWriter
from ticdc_assets.demo.topic import Codec, TopicWriter
from ticdc_assets.errors import ConfigError
from ticdc_assets.storage_sink.path import Layout

# Everything on, that a consumer may tell order and keys.
FULL_CSV = CsvDialect(include_commit_ts=True, output_old_value=True, field_header=True)
_PROTOCOLS = {
    "storage": ("csv", "canal-json"),
    "dump": ("simple", "canal-json", "open-protocol"),
}
_START = datetime(2026, 3, 14, 8, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to simulate; the same options give the same bytes, unless a rate ties it to the clock.

    A `rate` is transactions a second, in real time from now on; without one everything happens at
    once, in simulated time.  Without `history` the truth is known at present only.
    """

    protocol: Literal["csv", "canal-json", "simple", "open-protocol"] = "csv"
    transport: Literal["storage", "dump"] = "storage"
    # Of Simple.
    encoding: Literal["json", "avro"] = "json"
    workload: Literal["shop", "bulk"] = "shop"
    seed: int = 1
    transactions: int = 2000
    rate: float | None = None
    # Transactions between two checkpoints.
    flush_every: int = 50
    start: datetime | None = None
    # The changefeed starts when the tables are there, empty: their CREATE is not in it.
    tables_exist: bool = False
    # Schema changes while the shop runs.
    statements: bool = True
    # Transactions between two of them; spread evenly if not given.
    statement_every: int | None = None
    history: bool = True
    # At least once: the chance that a checkpoint is followed by what came before it once more, and
    # that a record of a topic comes twice.
    replays: float = 0.0
    duplicates: float = 0.0
    # Topics
    partitions: int = 3
    dispatch: Literal["index-value", "table"] = "index-value"
    # The chance that rows go ahead of earlier statements about other tables.
    ahead: float = 0.3
    # Storage
    csv: CsvDialect = FULL_CSV
    date_separator: Literal["none", "year", "month", "day"] = "day"
    file_size: int = 64 << 20
    # Bulk
    tables: int = 4
    rows_each: int = 100
    updates: float = 0.0


@dataclass(frozen=True, slots=True)
class SimulationStep:
    """What is on disk up to a checkpoint."""

    checkpoint: int
    rows: int
    transactions: int


class Workload(Protocol):
    """Where changes come from."""

    @property
    def now(self) -> int: ...
    def opening(self) -> Iterator[Sequence[Change]]: ...
    def running(self) -> Iterator[Sequence[Change]]: ...
    def truth(self, ts: int | None = None) -> Truth: ...


class Writer(Protocol):
    """Where they go."""

    rows: int

    def take(self, change: Change) -> None: ...
    def flush(self, ts: int) -> None: ...


@dataclass(slots=True)
class Simulation:
    """A changefeed that is written step by step; iterate over it, or `run` it to its end."""

    folder: Path
    options: Options
    # The file to give to `ticdc-assets --changefeeds`, and its text.
    changefeeds: Path
    feed_toml: str
    workload: Workload
    checkpoints: list[int] = field(default_factory=list)
    rows: int = 0
    _begun: bool = False

    def truth(self, ts: int | None = None) -> Truth:
        """All tables after every change up to `ts`; now if not given."""
        return self.workload.truth(ts)

    def __iter__(self) -> Iterator[SimulationStep]:
        if self._begun:
            raise RuntimeError("a simulation happens once")
        self._begun = True
        options = self.options
        early = [change for changes in self.workload.opening() for change in changes]
        start_ts = early[-1].ts if options.tables_exist else early[0].ts - 1
        writer = _writer(self.folder, options, start_ts)
        for change in early:
            writer.take(change)
        yield self._flush(writer, 0)
        begun = time.monotonic()
        done = 0
        for done, changes in enumerate(self.workload.running(), 1):
            for change in changes:
                writer.take(change)
            if options.rate:
                time.sleep(max(begun + done / options.rate - time.monotonic(), 0))
            if done % options.flush_every == 0:
                yield self._flush(writer, done)
        if done % options.flush_every:
            yield self._flush(writer, done)

    def run(self) -> "Simulation":
        """Write all of it."""
        for _ in self:
            pass
        return self

    def _flush(self, writer: Writer, done: int) -> SimulationStep:
        checkpoint = self.workload.now
        writer.flush(checkpoint)
        self.checkpoints.append(checkpoint)
        self.rows = writer.rows
        return SimulationStep(checkpoint, writer.rows, done)


def simulate(folder: Path, options: Options = Options()) -> Simulation:
    """Simulate a changefeed into a folder, to its end."""
    return prepare(folder, options).run()


def prepare(folder: Path, options: Options = Options()) -> Simulation:
    """Set a simulation up: declare the changefeed, write nothing of it yet.

    Raise `ConfigError` for options that do not go together, and for a folder already written to.
    """
    if options.protocol not in _PROTOCOLS[options.transport]:
        reason = f"{options.protocol} does not go with {options.transport}"
        raise ConfigError(reason, setting="protocol")
    folder = folder.absolute()
    if (folder / "data").exists() or (folder / "records.jsonl").exists():
        raise ConfigError("holds the output of a changefeed already", file=str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    keys = KEYS if options.workload == "shop" else {}
    toml = declaration(folder, options, keys)
    (folder / "changefeed.toml").write_text(changefeed_toml(options))
    changefeeds = folder / "changefeeds.toml"
    changefeeds.write_text(toml)
    return Simulation(folder, options, changefeeds, toml, _workload(options))


def _workload(options: Options) -> Workload:
    start = options.start or (datetime.now(UTC) if options.rate else _START)
    start_ms = int(start.timestamp() * 1000)
    between = 1000 / options.rate if options.rate else 20.0
    if options.workload == "bulk":
        return Bulk(
            seed=options.seed,
            transactions=options.transactions,
            tables=options.tables,
            rows_each=options.rows_each,
            updates=options.updates,
            start_ms=start_ms,
            ms_between=between,
        )
    return Shop(
        seed=options.seed,
        transactions=options.transactions,
        start_ms=start_ms,
        ms_between=between,
        history=options.history,
        statements=options.statements,
        statement_every=options.statement_every,
    )


def _writer(folder: Path, options: Options, start_ts: int) -> Writer:
    random = Random(options.seed)
    if options.transport == "storage":
        csv = options.protocol == "csv"
        return StorageWriter(
            folder / "data",
            partial(CsvLines, dialect=options.csv) if csv else CanalLines,
            Layout(date_separator=options.date_separator, extension=".csv" if csv else ".json"),
            start_ts=start_ts,
            file_size=options.file_size,
            replays=options.replays,
            random=random,
        )
    return TopicWriter(
        folder / "records.jsonl",
        _codec(options),
        start_ts=start_ts,
        partitions=options.partitions,
        dispatch=options.dispatch,
        ahead=options.ahead,
        replays=options.replays,
        duplicates=options.duplicates,
        random=random,
    )


def _codec(options: Options) -> Codec:
    match options.protocol:
        case "simple":
            return SimpleAvro() if options.encoding == "avro" else SimpleJson()
        case "canal-json":
            return CanalJson()
        case _:
            return OpenProtocol()
