"""The table of protocols: one row per protocol, with its decoders and its traits.

Code outside the rooms of the protocols never compares `feed.protocol`; it reads a trait here.
Decoders are imported where they are made: what only reads tables needs none, and they take a third
of a second.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypedDict
from zoneinfo import ZoneInfo

from ticdc_assets.changefeed import Changefeed, ProtocolName
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event, Ordering, RowChange, TableSchema
from ticdc_assets.protocols.compression import Compression
from ticdc_assets.protocols.message import DataFile, Message
from ticdc_assets.protocols.payload import PayloadStore

# Decodes a row again whose binary flags contradict the schema it was written under.
Redecode = Callable[[RowChange, TableSchema], RowChange]


class TopicDecoder(Protocol):
    """Decodes one record at a time, stateless; never raises."""

    def decode(self, message: Message) -> Iterator[Event]: ...


class FileDecoder(Protocol):
    """Decodes one data file at a time, stateless; never raises."""

    def decode_file(self, file: DataFile) -> Iterator[Event]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolTraits:
    """What the rest of the project needs to know of a protocol, beside its events."""

    # How the order of rows is known, by the settings of the changefeed.
    ordering: Callable[[Changefeed], Ordering]
    # Whether an UPDATE states the row before it.
    has_old_values: Callable[[Changefeed], bool] = lambda feed: True
    # Whether an INSERT is a row that was not there before, as far as the settings say.
    has_certain_inserts: Callable[[Changefeed], bool] = lambda feed: True
    # Whether TiCDC sends a DDL to every partition of its topic, not to one of them.
    sends_ddl_to_all_partitions: bool = False
    # Whether its classic encoder may attach values to the wrong columns.
    may_mix_up_columns: Callable[[Changefeed], bool] = lambda feed: False
    # Whether rows may carry checksums.
    has_checksums: bool = False
    # Whether rows name the members of ENUM and SET; otherwise they have numbers for them.
    has_member_names: bool = False
    redecode: Redecode | None = None
    file_extension: Literal[".csv", ".json"] = ".json"
    make_topic_decoder: Callable[[Changefeed, PayloadStore | None], TopicDecoder] | None = None
    make_file_decoder: Callable[[Changefeed], FileDecoder] | None = None


class _MessageSettings(TypedDict):
    tz: ZoneInfo
    compression: Compression
    payloads: PayloadStore | None


def _message_settings(feed: Changefeed, payloads: PayloadStore | None) -> _MessageSettings:
    return {
        "tz": feed.tz,
        "compression": feed.large_message_handle_compression,
        "payloads": payloads,
    }


def _make_simple_decoder(feed: Changefeed, payloads: PayloadStore | None) -> TopicDecoder:
    from ticdc_assets.protocols.simple.avro import SimpleAvroDecoder
    from ticdc_assets.protocols.simple.json import SimpleJsonDecoder

    decoder = SimpleAvroDecoder if feed.encoding_format == "avro" else SimpleJsonDecoder
    settings = _message_settings(feed, payloads)
    return decoder(**settings, raw_payloads=feed.claim_check_raw_value)


def _make_canal_json_decoder(feed: Changefeed, payloads: PayloadStore | None) -> TopicDecoder:
    from ticdc_assets.protocols.canal_json.decoder import CanalJsonDecoder

    settings = _message_settings(feed, payloads)
    return CanalJsonDecoder(
        **settings,
        raw_payloads=feed.claim_check_raw_value,
        deletes_have_keys_only=feed.delete_only_output_handle_key_columns,
    )


def _make_open_protocol_decoder(feed: Changefeed, payloads: PayloadStore | None) -> TopicDecoder:
    from ticdc_assets.protocols.open_protocol.decoder import OpenProtocolDecoder

    return OpenProtocolDecoder(
        **_message_settings(feed, payloads),
        old_values=feed.open_output_old_value,
        updated_columns_only=feed.only_output_updated_columns,
    )


def _make_canal_json_file_decoder(feed: Changefeed) -> FileDecoder:
    from ticdc_assets.protocols.canal_json.decoder import CanalJsonDecoder

    return CanalJsonDecoder(
        tz=feed.tz,
        terminator=feed.terminator,
        deletes_have_keys_only=feed.delete_only_output_handle_key_columns,
    )


def _make_csv_decoder(feed: Changefeed) -> FileDecoder:
    from ticdc_assets.protocols.csv.decoder import CsvDecoder

    return CsvDecoder(
        dialect=feed.csv,
        tz=feed.tz,
        updates_are_inserts=feed.writes_updates_as_inserts is True,
    )


def _redecode_open_protocol(change: RowChange, schema: TableSchema) -> RowChange:
    from ticdc_assets.protocols.open_protocol.flags import redecode

    return redecode(change, schema)


def _may_mix_up_columns(feed: Changefeed) -> bool:
    """Whether the server may sort the columns that it shares with rows, to state a schema."""
    server = feed.server_version
    return server is None or (server < (8, 5, 8) and not server.new_architecture)


PROTOCOLS: Mapping[ProtocolName, ProtocolTraits] = {
    "simple": ProtocolTraits(
        ordering=lambda feed: "commit_ts",
        sends_ddl_to_all_partitions=True,
        may_mix_up_columns=_may_mix_up_columns,
        has_checksums=True,
        make_topic_decoder=_make_simple_decoder,
    ),
    "canal-json": ProtocolTraits(
        ordering=lambda feed: "commit_ts" if feed.enable_tidb_extension else "milliseconds",
        make_topic_decoder=_make_canal_json_decoder,
        make_file_decoder=_make_canal_json_file_decoder,
    ),
    "open-protocol": ProtocolTraits(
        ordering=lambda feed: "commit_ts",
        sends_ddl_to_all_partitions=True,
        has_old_values=lambda feed: feed.open_output_old_value,
        redecode=_redecode_open_protocol,
        make_topic_decoder=_make_open_protocol_decoder,
    ),
    "csv": ProtocolTraits(
        ordering=lambda feed: "commit_ts" if feed.csv.include_commit_ts else "table_version",
        has_old_values=lambda feed: feed.csv.output_old_value,
        has_certain_inserts=lambda feed: feed.writes_updates_as_inserts is False,
        has_member_names=True,
        file_extension=".csv",
        make_file_decoder=_make_csv_decoder,
    ),
}


def get_traits(feed: Changefeed) -> ProtocolTraits:
    """Return the traits of the changefeed's protocol."""
    return PROTOCOLS[feed.protocol]


def get_ordering(feed: Changefeed) -> Ordering:
    """Return how the order of the changefeed's rows is known."""
    return get_traits(feed).ordering(feed)


def make_topic_decoder(feed: Changefeed, payloads: PayloadStore | None = None) -> TopicDecoder:
    """Make the decoder of a changefeed that writes to topics."""
    make = get_traits(feed).make_topic_decoder
    if make is None:
        raise ConfigError(f"{feed.protocol} is not written to topics", setting="protocol")
    return make(feed, payloads)


def make_file_decoder(feed: Changefeed) -> FileDecoder:
    """Make the decoder of a changefeed that writes files."""
    make = get_traits(feed).make_file_decoder
    if make is None:
        raise ConfigError(f"{feed.protocol} is not written to files", setting="protocol")
    return make(feed)
