"""One `[[changefeed]]` of a changefeeds.toml: the settings that are ours, not TiCDC's.

This module checks the entry and reads its `config`.  Relative paths start at the folder of the
file.  It does not interpret TiCDC's own settings.
"""

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, cast
from zoneinfo import ZoneInfo, available_timezones

from ticdc_assets.changefeed.archive import TableArchive, read_archives
from ticdc_assets.changefeed.catalog import CatalogSettings, read_catalogs
from ticdc_assets.changefeed.client_settings import ClientSettings, read_client_settings
from ticdc_assets.changefeed.copy import DeclaredCopy, read_copy
from ticdc_assets.changefeed.kept_events import read_kept_days
from ticdc_assets.changefeed.layout import TableLayout, read_layouts
from ticdc_assets.changefeed.privacy import Privacy, check_keys, read_privacy
from ticdc_assets.changefeed.server_version import ServerVersion, parse_server_version
from ticdc_assets.changefeed.sink_uri import (
    Options,
    SinkUri,
    Transport,
    list_choices,
    nearest,
    parse_sink_uri,
)
from ticdc_assets.changefeed.table_pattern import parse_pattern
from ticdc_assets.changefeed.toml import ChangefeedToml, read_changefeed_toml
from ticdc_assets.changefeed.upstream import Upstream, read_upstream
from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import betrays_secret, quote_given

_T = TypeVar("_T")
_NAMES = (
    "id",
    "sink-uri",
    "config",
    "tz",
    "server-version",
    "ddl-time-zone",
    "default-collation",
    "claim-check-storage",
    "keys",
    "start-ts",
    "history",
    "changes",
    "iceberg",
    "layout",
    "privacy",
    "archive",
    "keep-events-days",
    "start",
    "max-records",
    "max-bytes",
    "kafka",
    "upstream",
    "copy",
    "catalog",
)
# Where a lake begins to read topics: by name, at a time, or at an offset of each `topic-partition`.
Start = Literal["earliest", "latest"] | datetime | Mapping[str, int]
MAX_RECORDS = 2_000_000
MAX_BYTES = 1 << 30
_START = (
    "must be earliest, latest, a time with its offset from UTC such as 2026-03-14T00:00:00Z without"
    ' quotes, or offsets such as {"topic-0" = 120}'
)
# TiDB's collations of utf8mb4, the charset of columns for which nothing states one.
_COLLATIONS = (
    "utf8mb4_bin",
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_0900_ai_ci",
    "utf8mb4_0900_bin",
)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(:|%3A|//)", re.IGNORECASE)
_CLAIM_CHECK = "sink.kafka-config.large-message-handle.claim-check-storage-uri"


class OwnSettings(TypedDict):
    """The settings that are ours and concern any transport."""

    tz: ZoneInfo
    ddl_time_zone: ZoneInfo | None
    default_collation: str | None
    server_version: ServerVersion | None
    keys: dict[str, tuple[str, ...]]
    # Patterns of the tables whose history is kept, of those whose changes are, and of those that
    # are Iceberg tables, too.
    history: tuple[str, ...]
    changes: tuple[str, ...]
    iceberg: tuple[str, ...]
    layouts: tuple[TableLayout, ...]
    archives: tuple[TableArchive, ...]
    keep_events_days: int | None
    # The changefeed's own.
    start_ts: int | None
    upstream: Upstream | None
    copy: DeclaredCopy | None
    catalogs: tuple[CatalogSettings, ...]


class TopicSettings(TypedDict):
    """The settings that are ours and concern topics: where to begin, how much, and which client."""

    # It concerns nothing that was read before.
    start: Start
    # What one window reads at most.
    max_records: int
    max_bytes: int
    client_settings: ClientSettings


class ChangefeedEntry:
    """An entry of a file, or one made of arguments when there is no file."""

    __slots__ = ("_content", "_file", "_folder", "_place", "id")

    def __init__(
        self, content: Mapping[str, Any], file: Path | None = None, number: int = 1
    ) -> None:
        self._content = content
        self._file = None if file is None else str(file)
        self._folder = Path() if file is None else file.parent
        self._place = "" if file is None else f"changefeed {number}."
        id = self._text("id")
        if id is None or not _ID.fullmatch(id):
            raise self.error(
                "must be 1 to 128 letters, digits, - and _, a letter or digit first", "id"
            )
        self.id = id
        if file is not None:
            self._place = f"changefeed {id}."
        for name in content:
            if name not in _NAMES:
                reason = "is not a setting of a changefeed" + nearest(name, _NAMES)
                raise self.error(reason, name)

    def sink_uri(self) -> SinkUri:
        text = self._text("sink-uri")
        if text is None:
            raise self.error("is missing: give the one that TiCDC was given", "sink-uri")
        return parse_sink_uri(text, file=self._file, setting=self._place + "sink-uri")

    def config(self) -> ChangefeedToml:
        name = self._text("config")
        if name is None:
            return ChangefeedToml()
        path = self._folder / os.path.expanduser(name)
        if not os.path.isfile(path):
            raise self.error(f"no such file: {path}", "config")
        return read_changefeed_toml(path)

    def own_settings(self) -> OwnSettings:
        return OwnSettings(
            tz=self._zone("tz", "TiCDC's own machine") or ZoneInfo("UTC"),
            ddl_time_zone=self._zone("ddl-time-zone", "the sessions that run DDL"),
            default_collation=self._default_collation(),
            server_version=self.server_version(),
            keys=self._keys(),
            history=self._patterns("history"),
            changes=self._patterns("changes"),
            iceberg=self._patterns("iceberg"),
            layouts=self._read(read_layouts, "layout", []),
            archives=self._read(read_archives, "archive", []),
            keep_events_days=self._read(read_kept_days, "keep-events-days"),
            start_ts=self._limit("start-ts", 1) if "start-ts" in self._content else None,
            upstream=self._read_table(read_upstream, "upstream"),
            copy=self._read_table(read_copy, "copy"),
            catalogs=self._catalogs(),
        )

    def _default_collation(self) -> str | None:
        name = self._text("default-collation")
        if name is not None and name not in _COLLATIONS:
            raise self.error(f"must be {list_choices(_COLLATIONS)}", "default-collation")
        return name

    def server_version(self) -> ServerVersion | None:
        """Return the release of the TiCDC server, if it is stated."""
        text = self._text("server-version")
        try:
            return None if text is None else parse_server_version(text)
        except ValueError as error:
            raise self.error(str(error), "server-version") from None

    def claim_check(self, toml: ChangefeedToml) -> tuple[str | None, Options]:
        """Return the storage of claim-check objects and its connection options."""
        ours, theirs = self._text("claim-check-storage"), toml.text(_CLAIM_CHECK)
        if ours and "://" not in ours:
            if _SCHEME.match(ours) or betrays_secret(ours):
                raise self.error("must be a folder or a URI: scheme://…", "claim-check-storage")
            return os.path.abspath(self._folder / os.path.expanduser(ours)), Options()
        if ours:
            place = self._place + "claim-check-storage"
            uri = parse_sink_uri(ours, file=self._file, setting=place)
        elif theirs:
            uri = parse_sink_uri(theirs, file=toml.file, setting=_CLAIM_CHECK)
        else:
            return None, Options()
        if uri.transport != "storage":
            raise uri.error("must be a folder or a bucket, such as s3://bucket/prefix")
        return uri.location, uri.options

    def _keys(self) -> dict[str, tuple[str, ...]]:
        tables = self._content.get("keys", {})
        if not isinstance(tables, dict):
            raise self.error('must be a table such as {"database.table" = ["column"]}', "keys")
        for table, columns in tables.items():
            database, _, rest = table.partition(".")
            if not database or not rest:
                raise self.error('must be "database.table", in quotes', f"keys.{table}")
            if not _different_names(columns):
                raise self.error("must be a list of different column names", f'keys."{table}"')
        return {table: tuple(columns) for table, columns in tables.items()}

    def _patterns(self, name: str) -> tuple[str, ...]:
        """Return a list of patterns of tables."""
        patterns = self._content.get(name, [])
        if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
            raise self.error('must be a list such as ["database.*"]', name)
        for pattern in patterns:
            try:
                parse_pattern(pattern)
            except ValueError as error:
                raise self.error(str(error), name) from None
        return tuple(patterns)

    def topic_settings(self, transport: Transport) -> TopicSettings:
        """Return the settings for reading topics; raise an error if it reads none."""
        for name in ("start", "max-records", "max-bytes", "kafka"):
            if transport != "kafka" and name in self._content:
                raise self.error("works on Kafka only: remove it", name)
        return TopicSettings(
            start=self._start(),
            max_records=self._limit("max-records", MAX_RECORDS),
            max_bytes=self._limit("max-bytes", MAX_BYTES),
            client_settings=self._client_settings(),
        )

    def _start(self) -> Start:
        match value := self._content.get("start", "earliest"):
            case "earliest" | "latest":
                return cast(Literal["earliest", "latest"], value)
            case datetime(tzinfo=zone) if zone is not None:
                # To Kafka, negative times are names of offsets.
                if value.timestamp() < 0:
                    raise self.error("must be 1970 or later", "start")
                return value
            case dict() if value and all(_is_offset(each) for each in value.values()):
                return value
        raise self.error(_START, "start")

    def _limit(self, name: str, default: int) -> int:
        value = self._content.get(name, default)
        if not (_is_offset(value) and value):
            raise self.error("must be a whole number, 1 or more", name)
        return int(value)

    def _client_settings(self) -> ClientSettings:
        table = self._content.get("kafka", {})
        if not isinstance(table, dict):
            raise self.error("must be a table, written [changefeed.kafka]", "kafka")
        try:
            return read_client_settings(table, self._folder)
        except ValueError as error:
            raise self.error(str(error), "kafka") from None

    def _read_table(self, read: Callable[[dict[str, Any], Path], _T], name: str) -> _T | None:
        table = self._content.get(name)
        if table is None:
            return None
        if not isinstance(table, dict):
            raise self.error(f"must be a table, written [changefeed.{name}]", name)
        try:
            return read(table, self._folder)
        except ValueError as error:
            raise self.error(str(error), name) from None

    def _catalogs(self) -> tuple[CatalogSettings, ...]:
        table = self._content.get("catalog", {})
        if not isinstance(table, dict):
            raise self.error("must be a table such as [changefeed.catalog.glue]", "catalog")
        try:
            return read_catalogs(table)
        except ValueError as error:
            raise self.error(str(error), "catalog") from None

    def privacy(self, transport: Transport) -> Privacy | None:
        """Return what becomes of columns before they are stored; None if all stay as they are."""
        table = self._content.get("privacy")
        if table is None:
            return None
        if not isinstance(table, dict):
            raise self.error("must be a table, written [changefeed.privacy]", "privacy")
        try:
            privacy = read_privacy(table, has_records=transport != "storage")
            check_keys(privacy, self._keys())
        except ValueError as error:
            raise self.error(str(error), "privacy") from None
        return privacy

    def _read(self, read: Callable[[Any], _T], name: str, default: object = None) -> _T:
        try:
            return read(self._content.get(name, default))
        except ValueError as error:
            raise self.error(str(error), name) from None

    def error(self, reason: str, name: str) -> ConfigError:
        return ConfigError(reason, file=self._file, setting=self._place + name)

    def _zone(self, setting: str, owner: str) -> ZoneInfo | None:
        name = self._text(setting)
        try:
            return None if name is None else ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            given = quote_given(name or "")
            hint = nearest(name or "", available_timezones())
            reason = f"{given} is not the name of a time zone, such as Asia/Shanghai or UTC{hint}"
            if name in ("System", "SYSTEM", "Local"):
                reason = f"must name the zone of {owner}, such as Asia/Shanghai, not {given}"
            raise self.error(reason, setting) from None

    def _text(self, name: str) -> str | None:
        value = self._content.get(name)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.error("must be a string that is not empty", name)
        return value


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _different_names(columns: object) -> bool:
    return (
        isinstance(columns, list)
        and bool(columns)
        and all(isinstance(column, str) and column for column in columns)
        and len(set(columns)) == len(columns)
    )
