"""Measure how fast one core decodes, compared with a plain parse of the same bytes and a copy.

Run as `python -m bench.decode [WORKLOAD]`.  Row messages of a golden workload are decoded all the
way to events.  The baselines run in the same process and take turns with the decoder; the best turn
of each counts.  Nothing here passes or fails.
"""

import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from zoneinfo import ZoneInfo

import fastavro
import msgspec
import orjson
import pyarrow as pa
from msgspec import Struct
from pyarrow import csv as arrow_csv

from bench.fastavro_decoder import FastavroDecoder
from bench.figure import Figure
from bench.processes import Clock, Usage
from tests.golden import records
from tests.reference.golden_feeds import feed_of
from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.events import Column, ColumnType, RowChange, TableSchema
from ticdc_assets.protocols.canal_json.message import CanalMessage
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.message import DataFile, Message
from ticdc_assets.protocols.open_protocol.framing import split
from ticdc_assets.protocols.registry import make_topic_decoder
from ticdc_assets.protocols.simple.avro import SimpleAvroDecoder
from ticdc_assets.protocols.simple.avro_schema import SCHEMA
from ticdc_assets.protocols.simple.json import Envelope

UTC = ZoneInfo("UTC")
TURNS = 7
CSV_ROWS = 200_000


class Measured(Struct):
    """CPU seconds per pass over the same messages, of the decoder and its baselines."""

    name: str
    messages: int
    size: int
    baseline_name: str
    decode: float
    baseline: float
    copy: float
    envelope: float | None = None


def best_of(*work: Callable[[], object]) -> list[float]:
    """Time several functions in turns and return the CPU seconds of the best turn of each."""
    best = [float("inf")] * len(work)
    for _ in range(TURNS):
        for i, run in enumerate(work):
            start = time.process_time()
            run()
            best[i] = min(best[i], time.process_time() - start)
    return best


def exhaust(decode: Callable[[Message], Iterable[object]], messages: Sequence[Message]) -> None:
    """Decode all messages and drop the events."""
    for message in messages:
        for _ in decode(message):
            pass


def each(parse: Callable[[bytes], object], values: Sequence[bytes]) -> None:
    """Parse all values and drop the results."""
    for value in values:
        parse(value)


def whole(message: Message) -> list[bytes]:
    """Return the value of a message that holds one document."""
    return [message.value or b""]


def framed(message: Message) -> list[bytes]:
    """Return the documents inside an Open Protocol message."""
    return [bytes(value) for _, value in split(message.key or b"", message.value or b"")]


def read_avro(value: bytes) -> object:
    """Read a datum with fastavro, without making an event of it."""
    return fastavro.schemaless_reader(io.BytesIO(value), SCHEMA, None)


def topic(
    dataset: str,
    baseline_name: str,
    parse: Callable[[bytes], object],
    values_of: Callable[[Message], list[bytes]] = whole,
    envelope: type[Struct] | None = None,
) -> Measured:
    """Measure one protocol on the row messages of its golden dataset."""
    decoder = make_topic_decoder(feed_of(dataset))
    messages = [
        message
        for message in records(dataset)
        if any(isinstance(event, RowChange) for event in decoder.decode(message))
    ]
    values = [value for message in messages for value in values_of(message)]
    work = [
        partial(exhaust, decoder.decode, messages),
        partial(each, parse, values),
        partial(each, bytearray, values),
    ]
    if envelope is not None:
        work.append(partial(each, msgspec.json.Decoder(envelope).decode, values))
    times = best_of(*work)
    size = sum(len(value) for value in values)
    return Measured(dataset, len(values), size, baseline_name, *times)


def avro_by_fastavro(dataset: str) -> Measured:
    """Measure our decoder of Simple Avro against one that reads with fastavro, both to events."""
    decoder, baseline = SimpleAvroDecoder(tz=UTC), FastavroDecoder(tz=UTC)
    messages = [
        message
        for message in records(dataset)
        if any(isinstance(event, RowChange) for event in decoder.decode(message))
    ]
    values = [message.value or b"" for message in messages]
    times = best_of(
        partial(exhaust, decoder.decode, messages),
        partial(exhaust, baseline.decode, messages),
        partial(each, bytearray, values),
    )
    size = sum(map(len, values))
    return Measured(dataset, len(values), size, "fastavro, to events", *times)


def csv_file() -> DataFile:
    """Make a data file in the default dialect, with quotes, bare values and NULLs."""
    types = {
        "id": "bigint",
        "name": "varchar",
        "price": "decimal",
        "at": "datetime",
        "note": "text",
    }
    columns = tuple(Column(name, ColumnType(kind)) for name, kind in types.items())
    row = (
        '"I","orders","shop",470608603884552192,{0},"n {0}","{0}.50","2024-01-01 10:00:00",{1}\r\n'
    )
    notes = ('"plain"', "\\N", '"say ""hi"", twice"')
    data = "".join(row.format(n, notes[n % 3]) for n in range(CSV_ROWS)).encode()
    return DataFile(
        "shop/orders/1/CDC1.csv", data, 1, schema=TableSchema("shop", "orders", columns)
    )


def read_csv(data: bytes) -> pa.Table:
    """Read CSV with pyarrow.csv, all columns as text."""
    names = [str(i) for i in range(9)]
    return arrow_csv.read_csv(
        pa.BufferReader(data),
        read_options=arrow_csv.ReadOptions(use_threads=False, column_names=names),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )


def csv() -> list[Measured]:
    """Measure the CSV decoder to batches of row images and to single events."""
    decoder = CsvDecoder(dialect=CsvDialect(include_commit_ts=True), tz=UTC)
    file = csv_file()
    batches, events, baseline, copy = best_of(
        lambda: list(decoder.decode_batches(file)),
        lambda: list(islice(decoder.decode_file(file), CSV_ROWS)),
        lambda: read_csv(file.data),
        lambda: bytearray(file.data),
    )
    size = len(file.data)
    return [
        Measured("csv, batches", CSV_ROWS, size, "pyarrow.csv", batches, baseline, copy),
        Measured("csv, events", CSV_ROWS, size, "pyarrow.csv", events, baseline, copy),
    ]


def show(measured: Measured) -> None:
    """Print one line of the table."""
    ratio = measured.baseline / measured.decode
    envelope = "-" if measured.envelope is None else f"{measured.baseline / measured.envelope:.2f}"
    print(
        f"{measured.name:32}{measured.messages / measured.decode:12,.0f}"
        f"{measured.size / measured.decode / 1e6:8.1f}{ratio:12.2f}{envelope:>10}"
        f"{measured.copy / measured.decode:8.3f}  {measured.baseline_name}",
        flush=True,
    )


def make_figure(measured: Measured) -> Figure:
    """Make a figure of the decoder's speed beside its baseline's."""
    memory = Clock().read_usage().memory
    return Figure(
        group="decode",
        name=measured.name,
        value=measured.messages / measured.decode,
        unit="rows/s",
        baseline_name=measured.baseline_name,
        baseline=measured.messages / measured.baseline,
        usage=Usage(measured.decode, measured.decode, memory=memory),
    )


def measure(workload: str = "random_1") -> list[Figure]:
    """Measure every protocol, print a table and return its figures."""
    print(f"{'':32}{'rows/s':>12}{'MB/s':>8}{'x baseline':>12}{'envelope':>10}{'x copy':>8}")
    figures = []
    for measured in _measure_each(workload):
        show(measured)
        figures.append(make_figure(measured))
    print("x baseline: the speed of the decoder divided by that of the baseline in the last column")
    print("envelope: the same for decoding the JSON envelope alone")
    print("x copy: the decoder's speed divided by that of copying the bytes")
    return figures


def _measure_each(workload: str) -> Iterator[Measured]:
    yield topic(f"{workload}/simple-json", "orjson.loads", orjson.loads, whole, Envelope)
    yield topic(f"{workload}/canal-json-ext", "orjson.loads", orjson.loads, whole, CanalMessage)
    yield topic(f"{workload}/open-protocol", "orjson.loads", orjson.loads, framed)
    yield topic(f"{workload}/simple-avro", "fastavro, records only", read_avro)
    yield avro_by_fastavro(f"{workload}/simple-avro")
    yield from csv()


if __name__ == "__main__":
    measure(*sys.argv[1:2])
