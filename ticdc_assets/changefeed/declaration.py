"""A changefeed as its owner declared it: sink URI, changefeed TOML, and what those cannot state.

Settings that change the bytes are read from the same URI and TOML that TiCDC was given; the URI
wins.  A declaration that cannot work raises `ConfigError` when it is loaded.  Credentials are kept
in `Options` only and are part of no text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from ticdc_assets.changefeed.archive import TableArchive
from ticdc_assets.changefeed.catalog import CatalogSettings
from ticdc_assets.changefeed.client_settings import ClientSettings
from ticdc_assets.changefeed.contradictions import DELETE_ONLY, LARGE, check_contradictions
from ticdc_assets.changefeed.copy import DeclaredCopy
from ticdc_assets.changefeed.csv_dialect import CsvDialect, find_fault, read_dialect
from ticdc_assets.changefeed.dispatcher import Dispatcher, read_dispatchers
from ticdc_assets.changefeed.entry import MAX_BYTES, MAX_RECORDS, ChangefeedEntry, Start
from ticdc_assets.changefeed.layout import TableLayout
from ticdc_assets.changefeed.omissions import (
    Omission,
    list_omissions,
    may_lack_columns,
    may_lack_deletes,
)
from ticdc_assets.changefeed.privacy import Privacy
from ticdc_assets.changefeed.server_version import ServerRules, ServerVersion, find_rules
from ticdc_assets.changefeed.settings import Settings
from ticdc_assets.changefeed.sink_uri import (
    Options,
    Scheme,
    Transport,
    go_duration,
    list_choices,
    nearest,
)
from ticdc_assets.changefeed.toml import read_toml
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import quote_given

ProtocolName = Literal["simple", "canal-json", "open-protocol", "csv"]
EncodingFormat = Literal["json", "avro"]
LargeMessageHandleOption = Literal["none", "handle-key-only", "claim-check"]
LargeMessageHandleCompression = Literal["none", "snappy", "lz4"]
DateSeparator = Literal["none", "year", "month", "day"]

# TiCDC's other name for a protocol.
_ALIASES: dict[str, ProtocolName] = {"default": "open-protocol"}
# Where each protocol can be written: the same as its decoders in `protocols.registry`.
_ON_TOPICS: tuple[ProtocolName, ...] = ("simple", "canal-json", "open-protocol")
_IN_FOLDERS: tuple[ProtocolName, ...] = ("csv", "canal-json")
_UNSUPPORTED = ("avro", "flat-avro", "debezium", "canal", "maxwell", "craft", "outbox-json")
# The values that TiCDC accepts for each setting, the default first.
_FORMATS: tuple[EncodingFormat, ...] = ("json", "avro")
_LARGE_OPTIONS: tuple[LargeMessageHandleOption, ...] = ("none", "handle-key-only", "claim-check")
LARGE_COMPRESSIONS: tuple[LargeMessageHandleCompression, ...] = ("none", "snappy", "lz4")
_DATE_SEPARATORS: tuple[DateSeparator, ...] = ("day", "none", "year", "month")
_PLAIN_DATE_SEPARATORS: tuple[DateSeparator, ...] = ("none", "day", "year", "month")
_DIGITS = "must be 6 to 20: TiCDC takes 20 in place of any other number, so remove the setting"
_CODEC = "sink.kafka-config.codec-config"
_PARTITION_NUM = "sink.kafka-config.partition-num"
_STORAGE = "sink.cloud-storage-config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changefeed:
    """The settings of a changefeed that change its bytes, and where they are.

    `location` is the brokers, the absolute path, or `scheme://bucket/prefix`, unescaped and without
    parameters; `claim_check_storage` is written the same way.  `options` and `claim_check_options`
    hold the connection parameters of both and never print.  `ddl_time_zone` and `default_collation`
    are None where the owner declares neither: then what depends on them is uncertain.
    """

    id: str
    transport: Transport
    scheme: Scheme
    location: str
    topic: str | None = None
    protocol: ProtocolName
    encoding_format: EncodingFormat = "json"
    tz: ZoneInfo
    ddl_time_zone: ZoneInfo | None = None
    default_collation: str | None = None
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
    # CSV: whether an update may arrive as an insert; None if that depends on the server.
    writes_updates_as_inserts: bool | None = False
    server_version: ServerVersion | None = None
    # The tables that are sent: the last pattern that matches one decides; none: all tables.
    filter_rules: tuple[str, ...] = ()
    # What the settings leave out of the stream.
    omissions: tuple[Omission, ...] = ()
    may_lack_deletes: bool = False
    may_lack_columns: bool = False
    force_replicate: bool = False
    dispatchers: tuple[Dispatcher, ...] = ()
    partition_num: int | None = None
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    history: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    iceberg: tuple[str, ...] = ()
    # How the Delta tables of some tables are laid out.
    layouts: tuple[TableLayout, ...] = ()
    # What becomes of columns before they are stored.
    privacy: Privacy | None = None
    # Which deletes of which tables are kept as rows.
    archives: tuple[TableArchive, ...] = ()
    # For how long row events are kept at least, before they are folded; None: for ever.
    keep_events_days: int | None = None
    flush_interval: float = 5.0
    # The changefeed's own, where its owner declares it.
    start_ts: int | None = None
    start: Start = field(default="earliest", hash=False)
    # What one window reads of topics at most.
    max_records: int = MAX_RECORDS
    max_bytes: int = MAX_BYTES
    upstream: Upstream | None = None
    copy: DeclaredCopy | None = None
    # Where runs register the tables.
    catalogs: tuple[CatalogSettings, ...] = ()
    options: Options = field(default_factory=Options, repr=False, hash=False)
    claim_check_options: Options = field(default_factory=Options, repr=False, hash=False)
    client_settings: ClientSettings = field(
        default_factory=lambda: ClientSettings(Options(), {}), repr=False, hash=False
    )

    @property
    def renames_tables(self) -> bool:
        """Whether tables may have other names in the stream, and in the lake, than upstream."""
        return any(dispatcher.renames for dispatcher in self.dispatchers)


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
    return declare_changefeeds(entries, path)


def declare_changefeeds(entries: Sequence[Mapping[str, Any]], path: Path) -> dict[str, Changefeed]:
    """Declare the changefeeds of a file, whose relative paths start at its folder."""
    feeds: dict[str, Changefeed] = {}
    owners: dict[tuple[str, str | None], str] = {}
    for number, entry in enumerate(entries, 1):
        feed = declare(ChangefeedEntry(entry, path, number))
        if feed.id in feeds:
            raise declared_twice(path, feed.id)
        owner = owners.setdefault((feed.location, feed.topic), feed.id)
        if feed.transport == "kafka" and owner != feed.id:
            reason = f"is the topic of {owner} too, and nothing tells their rows apart"
            raise ConfigError(reason, file=str(path), setting=f"changefeed {feed.id}.sink-uri")
        feeds[feed.id] = feed
    return feeds


def declared_twice(path: Path, id: str) -> ConfigError:
    """Make the error of two changefeeds with one id."""
    reason = "is declared twice: give one of them another id"
    return ConfigError(reason, file=str(path), setting=f"changefeed {id}")


# Parameters: the settings of a `[[changefeed]]`, under their own names.
def changefeed_from_uri(
    sink_uri: str,
    *,
    id: str = "adhoc",
    config: Path | None = None,
    tz: str = "UTC",
    server_version: str | None = None,
    claim_check_storage: str | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
) -> Changefeed:
    """Declare a changefeed without a changefeeds.toml."""
    settings = {
        "id": id,
        "sink-uri": sink_uri,
        "config": None if config is None else str(config),
        "tz": tz,
        "server-version": server_version,
        "claim-check-storage": claim_check_storage,
        "keys": None if keys is None else {table: list(names) for table, names in keys.items()},
    }
    return declare(ChangefeedEntry({k: v for k, v in settings.items() if v is not None}))


# Length: a line per setting.
def declare(entry: ChangefeedEntry) -> Changefeed:
    """Declare the changefeed of an entry."""
    uri = entry.sink_uri()
    toml = entry.config()
    settings = Settings(uri, toml)
    protocol = _read_protocol(settings, entry, uri.transport)
    csv = _read_csv(settings, protocol)
    rules = _read_rules(settings, entry)
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
        enable_tidb_extension=settings.flag(f"{_CODEC}.enable-tidb-extension"),
        content_compatible=settings.flag("sink.content-compatible"),
        only_output_updated_columns=settings.flag("sink.only-output-updated-columns"),
        delete_only_output_handle_key_columns=settings.flag(DELETE_ONLY),
        open_output_old_value=settings.flag("sink.open.output-old-value", default=True),
        large_message_handle_option=settings.one_of(
            f"{LARGE}.large-message-handle-option", _LARGE_OPTIONS
        ),
        large_message_handle_compression=settings.one_of(
            f"{LARGE}.large-message-handle-compression", LARGE_COMPRESSIONS
        ),
        claim_check_storage=claim_check_storage,
        claim_check_raw_value=settings.flag(f"{LARGE}.claim-check-raw-value"),
        csv=csv,
        terminator=csv.terminator,
        date_separator=_read_date_separator(settings, rules),
        enable_partition_separator=settings.flag(
            "sink.enable-partition-separator", default=not rules.has_plain_folders
        ),
        file_index_digit=settings.integer("sink.file-index-digit", 6, 20, _DIGITS) or 20,
        use_table_id_as_path=settings.flag(f"{_STORAGE}.use-table-id-as-path"),
        enable_table_across_nodes=settings.flag("scheduler.enable-table-across-nodes"),
        output_column_id=settings.flag(f"{_STORAGE}.output-column-id"),
        output_raw_change_event=settings.flag(f"{home}.output-raw-change-event"),
        filter_rules=toml.texts("filter.rules"),
        omissions=list_omissions(toml),
        may_lack_deletes=may_lack_deletes(toml),
        may_lack_columns=may_lack_columns(toml),
        force_replicate=settings.flag("force-replicate"),
        dispatchers=read_dispatchers(toml),
        partition_num=settings.integer(_PARTITION_NUM, 1, 2**31 - 1, "must be 1 or more"),
        flush_interval=settings.read(f"{_STORAGE}.flush-interval", go_duration, 5.0),
        **entry.own_settings(),
        **entry.topic_settings(uri.transport),
        privacy=entry.privacy(uri.transport),
        options=Options({**toml.connection(), **uri.options}),
        claim_check_options=claim_check_options,
    )
    check_contradictions(feed, settings)
    if feed.upstream is not None and feed.renames_tables:
        # It serves to compare and complete tables by their names.
        reason = "cannot be used with target-schema or target-table, which rename tables: remove it"
        raise entry.error(reason, "upstream")
    return _as_written(feed, rules)


def _read_rules(settings: Settings, entry: ChangefeedEntry) -> ServerRules:
    enable_old_value = settings.flag("enable-old-value", default=True)
    return find_rules(entry.server_version(), enable_old_value=enable_old_value)


def _read_date_separator(settings: Settings, rules: ServerRules) -> DateSeparator:
    choices = _PLAIN_DATE_SEPARATORS if rules.has_plain_folders else _DATE_SEPARATORS
    return settings.one_of("sink.date-separator", choices, fold=True)


def _as_written(feed: Changefeed, rules: ServerRules) -> Changefeed:
    """Set what the encoder of this protocol ignores, or does whatever the settings are."""
    if feed.protocol != "simple":
        feed = replace(feed, encoding_format="json")
    if feed.transport == "storage":
        feed = replace(
            feed, large_message_handle_option="none", large_message_handle_compression="none"
        )
    if feed.content_compatible:
        # TiCDC's encoders imply the one by the other.
        feed = replace(feed, only_output_updated_columns=True)
    if not rules.reads_old_values:
        feed = replace(feed, open_output_old_value=False)
    if feed.protocol == "csv" and not feed.csv.output_old_value:
        is_raw = feed.output_raw_change_event or not rules.csv_splits_key_updates
        inserts = rules.csv_updates_are_inserts
        feed = replace(feed, writes_updates_as_inserts=inserts, output_raw_change_event=is_raw)
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
    is_protocol = text in (*_ON_TOPICS, *_IN_FOLDERS, *_ALIASES, *_UNSUPPORTED)
    shown = f"{text} is not" if is_protocol else f"{quote_given(text)} is no protocol that is"
    hint = "" if is_protocol else nearest(text, supported)
    reason = f"{shown} supported on {transport}: use {list_choices(supported)}{hint}"
    raise settings.error(reason, "sink.protocol")


def _read_csv(settings: Settings, protocol: ProtocolName) -> CsvDialect:
    dialect = read_dialect(settings)
    if protocol == "csv" and (fault := find_fault(dialect)):
        name, reason = fault
        place = "sink" if name == "terminator" else "sink.csv"
        raise settings.error(reason, f"{place}.{name}")
    return dialect
