"""A changefeed as its owner declared it: sink URI, changefeed TOML, and what those cannot state.

Settings that change the bytes are read from the same URI and TOML that TiCDC was given; the URI
wins.  A declaration that cannot work raises `ConfigError` when it is loaded.  Credentials are kept
in `Options` only and are part of no text.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from ticdc_assets.changefeed.entry import ChangefeedEntry
from ticdc_assets.changefeed.settings import Settings
from ticdc_assets.changefeed.sink_uri import (
    Options,
    Scheme,
    Transport,
    go_duration,
    list_choices,
    nearest,
)
from ticdc_assets.changefeed.toml import ChangefeedToml, read_toml
from ticdc_assets.errors import ConfigError

ProtocolName = Literal["simple", "canal-json", "open-protocol", "csv"]
EncodingFormat = Literal["json", "avro"]
LargeMessageHandleOption = Literal["none", "handle-key-only", "claim-check"]
LargeMessageHandleCompression = Literal["none", "snappy", "lz4"]
DateSeparator = Literal["none", "year", "month", "day"]
BinaryEncoding = Literal["base64", "hex"]

# TiCDC's other name for a protocol.
_ALIASES: dict[str, ProtocolName] = {"default": "open-protocol"}
# Where each protocol can be written: the same as its decoders in `protocols.registry`.
_ON_TOPICS: tuple[ProtocolName, ...] = ("simple", "canal-json", "open-protocol")
_IN_FOLDERS: tuple[ProtocolName, ...] = ("csv", "canal-json")
_UNSUPPORTED = ("avro", "flat-avro", "debezium", "canal", "maxwell", "craft", "outbox-json")
# The values that TiCDC accepts for each setting, the default first.
_FORMATS: tuple[EncodingFormat, ...] = ("json", "avro")
_LARGE_OPTIONS: tuple[LargeMessageHandleOption, ...] = ("none", "handle-key-only", "claim-check")
_LARGE_COMPRESSIONS: tuple[LargeMessageHandleCompression, ...] = ("none", "snappy", "lz4")
_DATE_SEPARATORS: tuple[DateSeparator, ...] = ("day", "none", "year", "month")
_BINARY_ENCODINGS: tuple[BinaryEncoding, ...] = ("base64", "hex")
_DIGITS = "must be 6 to 20: TiCDC takes 20 in place of any other number, so remove the setting"
_CODEC = "sink.kafka-config.codec-config"
_LARGE = "sink.kafka-config.large-message-handle"
_STORAGE = "sink.cloud-storage-config"
_DELETE_ONLY = "sink.delete-only-output-handle-key-columns"


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How the CSV files of a storage sink are written."""

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    terminator: str = "\r\n"
    include_commit_ts: bool = False
    output_old_value: bool = False
    binary_encoding: BinaryEncoding = "base64"
    field_header: bool = False
    handle_key: bool = False


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """A rule that picks topic and partition for the tables it matches; "" is the default."""

    matcher: tuple[str, ...]
    partition: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changefeed:
    """The settings of a changefeed that change its bytes, and where they are.

    `location` is the brokers, the absolute path, or `scheme://bucket/prefix`, unescaped and without
    parameters; `claim_check_storage` is written the same way.  `options` and `claim_check_options`
    hold the connection parameters of both and never print.
    """

    id: str
    transport: Transport
    scheme: Scheme
    location: str
    topic: str | None = None
    protocol: ProtocolName
    encoding_format: EncodingFormat = "json"
    tz: ZoneInfo
    enable_tidb_extension: bool = False
    content_compatible: bool = False
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    open_output_old_value: bool = True
    large_message_handle_option: LargeMessageHandleOption = "none"
    large_message_handle_compression: LargeMessageHandleCompression = "none"
    claim_check_storage: str | None = None
    claim_check_raw_value: bool = False
    csv: CsvDialect = field(default_factory=CsvDialect)
    terminator: str = "\r\n"
    date_separator: DateSeparator = "day"
    enable_partition_separator: bool = True
    file_index_digit: int = 20
    use_table_id_as_path: bool = False
    enable_table_across_nodes: bool = False
    output_column_id: bool = False
    output_raw_change_event: bool = False
    force_replicate: bool = False
    dispatchers: tuple[Dispatcher, ...] = ()
    partition_num: int | None = None
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    flush_interval: float = 5.0
    options: Options = field(default_factory=Options, repr=False, hash=False)
    claim_check_options: Options = field(default_factory=Options, repr=False, hash=False)


def find_changefeeds_file(explicit: Path | None) -> Path:
    """Find the changefeeds.toml: the given one, else TICDC_CHANGEFEEDS, else ./changefeeds.toml."""
    path = explicit or Path(os.environ.get("TICDC_CHANGEFEEDS") or "changefeeds.toml")
    if not os.path.isfile(path):
        hint = "no such file; name one with --changefeeds or TICDC_CHANGEFEEDS"
        raise ConfigError(hint, file=str(path))
    return path


def load_changefeeds(path: Path) -> dict[str, Changefeed]:
    """Read a changefeeds.toml and everything it refers to."""
    content = read_toml(path)
    for name in content:
        if name != "changefeed":
            reason = f"is not a setting of this file{nearest(name, ['changefeed'])}"
            raise ConfigError(reason, file=str(path), setting=name)
    entries = content.get("changefeed")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        reason = "is missing or not a list: declare each changefeed as [[changefeed]]"
        raise ConfigError(reason, file=str(path), setting="changefeed")
    feeds: dict[str, Changefeed] = {}
    for number, entry in enumerate(entries, 1):
        feed = _declare(ChangefeedEntry(entry, path, number))
        if feed.id in feeds:
            reason = "is declared twice: give one of them another id"
            raise ConfigError(reason, file=str(path), setting=f"changefeed {feed.id}")
        feeds[feed.id] = feed
    return feeds


# Parameters: the settings of a `[[changefeed]]`, under their own names.
def changefeed_from_uri(
    sink_uri: str,
    *,
    id: str = "adhoc",
    config: Path | None = None,
    tz: str = "UTC",
    claim_check_storage: str | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
) -> Changefeed:
    """Declare a changefeed without a changefeeds.toml."""
    settings = {
        "id": id,
        "sink-uri": sink_uri,
        "config": None if config is None else str(config),
        "tz": tz,
        "claim-check-storage": claim_check_storage,
        "keys": None if keys is None else {table: list(names) for table, names in keys.items()},
    }
    return _declare(ChangefeedEntry({k: v for k, v in settings.items() if v is not None}))


def _declare(entry: ChangefeedEntry) -> Changefeed:
    uri = entry.sink_uri()
    toml = entry.config()
    settings = Settings(uri, toml)
    protocol = _read_protocol(settings, entry, uri.transport)
    csv = _read_csv(settings)
    content_compatible = settings.flag("sink.content-compatible")
    claim_check_storage, claim_check_options = entry.claim_check(toml)
    home = _STORAGE if uri.transport == "storage" else "sink.kafka-config"
    feed = Changefeed(
        id=entry.id,
        transport=uri.transport,
        scheme=uri.scheme,
        location=uri.location,
        topic=uri.topic,
        protocol=protocol,
        encoding_format=settings.one_of(f"{_CODEC}.encoding-format", _FORMATS),
        tz=entry.zone(),
        enable_tidb_extension=settings.flag(f"{_CODEC}.enable-tidb-extension"),
        content_compatible=content_compatible,
        only_output_updated_columns=(
            # TiCDC's encoders imply the one by the other.
            settings.flag("sink.only-output-updated-columns") or content_compatible
        ),
        delete_only_output_handle_key_columns=settings.flag(_DELETE_ONLY),
        open_output_old_value=settings.flag("sink.open.output-old-value", default=True),
        large_message_handle_option=settings.one_of(
            f"{_LARGE}.large-message-handle-option", _LARGE_OPTIONS
        ),
        large_message_handle_compression=settings.one_of(
            f"{_LARGE}.large-message-handle-compression", _LARGE_COMPRESSIONS
        ),
        claim_check_storage=claim_check_storage,
        claim_check_raw_value=settings.flag(f"{_LARGE}.claim-check-raw-value"),
        csv=csv,
        terminator=csv.terminator,
        date_separator=settings.one_of("sink.date-separator", _DATE_SEPARATORS),
        enable_partition_separator=settings.flag("sink.enable-partition-separator", default=True),
        file_index_digit=settings.integer("sink.file-index-digit", 6, 20, _DIGITS) or 20,
        use_table_id_as_path=settings.flag(f"{_STORAGE}.use-table-id-as-path"),
        enable_table_across_nodes=settings.flag("scheduler.enable-table-across-nodes"),
        output_column_id=settings.flag(f"{_STORAGE}.output-column-id"),
        output_raw_change_event=settings.flag(f"{home}.output-raw-change-event"),
        force_replicate=settings.flag("force-replicate"),
        dispatchers=_read_dispatchers(toml),
        partition_num=settings.integer(
            "sink.kafka-config.partition-num", 1, 2**31 - 1, "must be 1 or more"
        ),
        keys=entry.keys(),
        flush_interval=settings.read(f"{_STORAGE}.flush-interval", go_duration, 5.0),
        options=Options({**toml.connection(), **uri.options}),
        claim_check_options=claim_check_options,
    )
    _check(feed, settings)
    return _as_written(feed)


def _check(feed: Changefeed, settings: Settings) -> None:
    """Raise for settings that TiCDC does not allow together, or that hide data from a consumer."""
    if feed.delete_only_output_handle_key_columns:
        if feed.protocol == "csv":
            reason = "cannot be combined with csv, whose deletes have all columns: remove it"
            raise settings.error(reason, _DELETE_ONLY)
        if feed.force_replicate:
            reason = "cannot be combined with force-replicate: set only one of them"
            raise settings.error(reason, _DELETE_ONLY)
    option, name = feed.large_message_handle_option, f"{_LARGE}.large-message-handle-option"
    if option == "none":
        return
    if feed.protocol == "csv":
        raise settings.error("works on Kafka only, not with csv: remove it", name)
    if feed.protocol == "canal-json" and not feed.enable_tidb_extension:
        raise settings.error("needs enable-tidb-extension = true with canal-json", name)
    if option == "claim-check":
        if feed.claim_check_raw_value and feed.protocol == "open-protocol":
            reason = "cannot be combined with open-protocol: remove it"
            raise settings.error(reason, f"{_LARGE}.claim-check-raw-value")
        if feed.claim_check_storage is None:
            reason = "is missing: set it, or claim-check-storage of the changefeed"
            raise settings.error(reason, f"{_LARGE}.claim-check-storage-uri")


def _as_written(feed: Changefeed) -> Changefeed:
    """Reset the settings that the encoder of this protocol ignores."""
    if feed.protocol != "simple":
        feed = replace(feed, encoding_format="json")
    if feed.transport == "storage":
        feed = replace(
            feed, large_message_handle_option="none", large_message_handle_compression="none"
        )
    return feed


def _read_protocol(
    settings: Settings, entry: ChangefeedEntry, transport: Transport
) -> ProtocolName:
    supported = _IN_FOLDERS if transport == "storage" else _ON_TOPICS
    text = settings.text("sink.protocol").lower()
    if not text:
        if transport == "storage":
            choices = list_choices([f"protocol={name}" for name in supported])
            reason = f"sets no protocol: add {choices}, or set sink.protocol in the config"
            raise entry.error(reason, "sink-uri")
        return "open-protocol"
    for protocol in supported:
        if protocol == _ALIASES.get(text, text):
            return protocol
    # Text that is not a protocol may be a credential: do not repeat it.
    is_protocol = text in (*_ON_TOPICS, *_IN_FOLDERS, *_ALIASES, *_UNSUPPORTED)
    shown = text if is_protocol else "this protocol"
    reason = f"{shown} is not supported on {transport}: use {list_choices(supported)}"
    raise settings.error(reason, "sink.protocol")


def _read_csv(settings: Settings) -> CsvDialect:
    dialect = CsvDialect(
        delimiter=settings.raw_text("sink.csv.delimiter", ","),
        quote=settings.raw_text("sink.csv.quote", '"'),
        null=settings.raw_text("sink.csv.null", "\\N"),
        terminator=settings.text("sink.terminator", "\r\n"),
        include_commit_ts=settings.flag("sink.csv.include-commit-ts"),
        output_old_value=settings.flag("sink.csv.output-old-value"),
        binary_encoding=settings.one_of("sink.csv.binary-encoding-method", _BINARY_ENCODINGS),
        field_header=settings.flag("sink.csv.output-field-header"),
        handle_key=settings.flag("sink.csv.output-handle-key"),
    )
    if not 1 <= len(dialect.delimiter.encode()) <= 3:
        raise settings.error("must be 1 to 3 bytes", "sink.csv.delimiter")
    if len(dialect.quote.encode()) > 1:
        raise settings.error("must be one ASCII character or empty", "sink.csv.quote")
    for text, name in ((dialect.delimiter, "delimiter"), (dialect.quote, "quote")):
        if "\r" in text or "\n" in text:
            raise settings.error("must not contain a line break", f"sink.csv.{name}")
    if dialect.quote and dialect.quote in dialect.delimiter:
        raise settings.error("must not contain the quote character", "sink.csv.delimiter")
    return dialect


def _read_dispatchers(toml: ChangefeedToml) -> tuple[Dispatcher, ...]:
    dispatchers = []
    for row in toml.rows("sink.dispatchers"):
        old, new = row.text("dispatcher") or "", row.text("partition") or ""
        if old and new:
            raise row.error("is the old name of partition: set only one of them", "dispatcher")
        dispatchers.append(Dispatcher(row.texts("matcher"), new or old, row.text("topic") or ""))
    return tuple(dispatchers)
