"""The one list of protocols: which decoder reads a changefeed."""

from collections.abc import Iterator
from typing import Protocol

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event
from ticdc_assets.protocols.canal_json.decoder import CanalJsonDecoder
from ticdc_assets.protocols.csv.decoder import CsvDecoder
from ticdc_assets.protocols.message import DataFile, Message
from ticdc_assets.protocols.open_protocol.decoder import OpenProtocolDecoder
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.protocols.simple.avro import SimpleAvroDecoder
from ticdc_assets.protocols.simple.json import SimpleJsonDecoder


class TopicDecoder(Protocol):
    """Reads one record at a time and remembers nothing; never raises."""

    def decode(self, message: Message) -> Iterator[Event]: ...


class FileDecoder(Protocol):
    """Reads one data file at a time and remembers nothing; never raises."""

    def decode_file(self, file: DataFile) -> Iterator[Event]: ...


def topic_decoder(feed: Changefeed, payloads: PayloadStore | None = None) -> TopicDecoder:
    """The decoder of a changefeed that writes to a topic."""
    compression = feed.large_message_handle_compression
    raw = feed.claim_check_raw_value
    match feed.protocol, feed.encoding_format:
        case "simple", "json":
            return SimpleJsonDecoder(
                tz=feed.tz, compression=compression, payloads=payloads, raw_payloads=raw
            )
        case "simple", "avro":
            return SimpleAvroDecoder(
                tz=feed.tz, compression=compression, payloads=payloads, raw_payloads=raw
            )
        case "canal-json", _:
            return CanalJsonDecoder(
                tz=feed.tz, compression=compression, payloads=payloads, raw_payloads=raw
            )
        case "open-protocol", _:
            return OpenProtocolDecoder(
                tz=feed.tz,
                compression=compression,
                payloads=payloads,
                old_values=feed.open_output_old_value,
                updated_columns_only=feed.only_output_updated_columns,
            )
    raise ConfigError(f"{feed.protocol} is not written to topics", setting="protocol")


def file_decoder(feed: Changefeed) -> FileDecoder:
    """The decoder of a changefeed that writes files."""
    match feed.protocol:
        case "csv":
            return CsvDecoder(dialect=feed.csv, tz=feed.tz)
        case "canal-json":
            return CanalJsonDecoder(tz=feed.tz, terminator=feed.terminator)
    raise ConfigError(f"{feed.protocol} is not written to files", setting="protocol")
