"""The changefeed's own TOML, as it was given to `cdc cli changefeed create --config`.

`KNOWN` lists every setting that TiCDC accepts there; any other name is an error here, as in TiCDC.
`ChangefeedToml` checks the types of values; `declaration` decides which settings are used and what
they mean.  No error of this module quotes a value.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ticdc_assets.changefeed.sink_uri import KAFKA_CONNECTION, nearest
from ticdc_assets.errors import ConfigError

# Every table of the file with its settings, of both TiCDC generations and back to v6.5.
KNOWN: dict[str, frozenset[str]] = {
    table: frozenset(names.split())
    for table, names in {
        "": """
            performance-mode memory-quota case-sensitive enable-old-value force-replicate
            check-gc-safe-point enable-sync-point enable-table-monitor ignore-ineligible-table
            bdr-mode sync-point-interval sync-point-retention changefeed-error-stuck-duration
            enable-active-active active-active-progress-interval active-active-sync-stats-interval
            event-collector-batch-count event-collector-batch-bytes sql-mode
            filter mounter sink consistent scheduler integrity synced-status cyclic-replication
            """,
        "mounter": "worker-num",
        "filter": "rules ignore-txn-start-ts ddl-allow-list event-filters",
        "filter.event-filters": """
            matcher ignore-event ignore-sql ignore-insert-value-expr ignore-update-new-value-expr
            ignore-update-old-value-expr ignore-delete-value-expr ignore-update-only-columns
            """,
        "scheduler": """
            enable-table-across-nodes region-threshold region-per-span region-count-per-span
            region-count-refresh-interval write-key-threshold scheduling-task-count-per-node
            enable-splittable-check force-split balance-score-threshold min-traffic-percentage
            max-traffic-percentage type polling-time
            """,
        "integrity": "integrity-check-level corruption-handle-level",
        "synced-status": "synced-check-interval checkpoint-interval",
        "consistent": """
            level max-log-size flush-interval meta-flush-interval encoding-worker-num
            flush-worker-num storage use-file-backend compression flush-concurrency memory-usage
            """,
        "consistent.memory-usage": "memory-quota-percentage event-cache-percentage",
        "sink": """
            transaction-atomicity protocol dispatchers column-selectors schema-registry
            encoder-concurrency terminator date-separator enable-partition-separator
            file-index-digit enable-kafka-sink-v2 only-output-updated-columns
            delete-only-output-handle-key-columns content-compatible safe-mode
            advance-timeout-in-sec send-bootstrap-interval-in-sec send-bootstrap-in-msg-count
            send-bootstrap-to-all-partition send-all-bootstrap-at-start debezium-disable-schema
            csv open debezium outbox kafka-config cloud-storage-config mysql-config pulsar-config
            iceberg-config
            """,
        "sink.dispatchers": """
            matcher dispatcher partition index columns topic target-schema target-table
            """,
        "sink.column-selectors": "matcher columns",
        "sink.csv": """
            delimiter quote null include-commit-ts binary-encoding-method output-old-value
            output-handle-key output-field-header
            """,
        "sink.open": "output-old-value",
        "sink.debezium": "output-old-value",
        "sink.kafka-config": """
            partition-num replication-factor kafka-version max-message-bytes compression
            kafka-client-id auto-create-topic required-acks codec-config large-message-handle
            glue-schema-registry-config output-raw-change-event
            """
        + " ".join(KAFKA_CONNECTION),
        "sink.kafka-config.codec-config": """
            enable-tidb-extension max-batch-size avro-enable-watermark avro-decimal-handling-mode
            avro-bigint-unsigned-handling-mode encoding-format output-row-key
            """,
        "sink.kafka-config.large-message-handle": """
            large-message-handle-option large-message-handle-compression claim-check-storage-uri
            claim-check-raw-value
            """,
        "sink.cloud-storage-config": """
            worker-count flush-interval file-size flush-concurrency output-column-id
            file-expiration-days file-cleanup-cron-spec use-table-id-as-path spool-disk-quota
            spool-base-dir output-raw-change-event
            """,
    }.items()
}
# Tables of sinks that this project does not read; their content is not checked.
FOREIGN = frozenset(
    {
        "cyclic-replication",
        "sink.outbox",
        "sink.mysql-config",
        "sink.pulsar-config",
        "sink.iceberg-config",
        "sink.kafka-config.glue-schema-registry-config",
    }
)


class ChangefeedToml:
    """The settings of one changefeed TOML by their dotted names; None for a setting it leaves out.

    It holds credentials and therefore never prints its content.
    """

    __slots__ = ("_content", "file")

    def __init__(self, content: Mapping[str, Any] | None = None, file: str | None = None) -> None:
        self._content = content or {}
        self.file = file
        self._check(self._content, "", "")

    def __repr__(self) -> str:
        return f"<changefeed TOML {self.file}>"

    def flag(self, name: str) -> bool | None:
        value = self._get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error("must be true or false", name)
        return value

    def integer(self, name: str) -> int | None:
        value = self._get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise self.error("must be a whole number", name)
        return value

    def text(self, name: str) -> str | None:
        value = self._get(name)
        if value is not None and not isinstance(value, str):
            raise self.error("must be a string", name)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error("must be a list of strings", name)
        return tuple(value)

    def rows(self, name: str) -> "Iterator[ChangefeedRow]":
        """Yield the tables of a list of tables, such as the dispatchers."""
        for number, row in enumerate(self._get(name) or ()):
            yield ChangefeedRow(row, f"{name}[{number}]", self.file)

    def connection(self) -> dict[str, str]:
        """Return the connection settings of `[sink.kafka-config]`, credentials included."""
        values = ((name, self._get(f"sink.kafka-config.{name}")) for name in KAFKA_CONNECTION)
        return {name: _as_text(value) for name, value in values if value is not None}

    def error(self, reason: str, name: str) -> ConfigError:
        return ConfigError(reason, file=self.file, setting=name)

    def _get(self, name: str) -> Any:
        value: Any = self._content
        for part in name.split("."):
            if (value := value.get(part)) is None:
                return None
        return value

    def _check(self, content: Mapping[str, Any], table: str, shown: str) -> None:
        for name, value in content.items():
            path = f"{table}.{name}" if table else name
            place = f"{shown}.{name}" if shown else name
            if name not in KNOWN[table]:
                raise self.error("is not a setting of TiCDC" + _hint(name, table), place)
            if path in ("sink.dispatchers", "sink.column-selectors", "filter.event-filters"):
                if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
                    raise self.error(f"must be a list of tables, written [[{path}]]", place)
                for number, row in enumerate(value):
                    self._check(row, path, f"{place}[{number}]")
            elif path in KNOWN or path in FOREIGN:
                if not isinstance(value, dict):
                    raise self.error(f"must be a table, written [{path}]", place)
                if path in KNOWN:
                    self._check(value, path, place)
            elif isinstance(value, dict):
                raise self.error("must be a value, not a table", place)


class ChangefeedRow(ChangefeedToml):
    """One table of a list of tables, checked with the whole file."""

    __slots__ = ("_place",)

    def __init__(self, content: Mapping[str, Any], place: str, file: str | None) -> None:
        self._content = content
        self._place = place
        self.file = file

    def error(self, reason: str, name: str) -> ConfigError:
        return super().error(reason, f"{self._place}.{name}")


def read_changefeed_toml(path: Path) -> ChangefeedToml:
    """Read the file given to `--config` and check that TiCDC knows every setting in it."""
    return ChangefeedToml(read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise a `ConfigError` with one sentence if that fails."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError("no such file", file=str(path)) from None
    except OSError as error:
        raise ConfigError(error.strerror or "cannot be read", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8: save it as UTF-8", file=str(path)) from None
    except ValueError as error:
        # The parser names positions and keys, never values.
        raise ConfigError(f"is not TOML: {error}", file=str(path)) from None
    except RecursionError:
        raise ConfigError("is nested too deeply", file=str(path)) from None


def _hint(name: str, table: str) -> str:
    """Return a hint: the table in which the setting belongs, else the most similar setting."""
    for home, names in KNOWN.items():
        if name in names:
            return f"; it belongs in [{home}]" if home else "; it belongs at the top of the file"
    return nearest(name, KNOWN[table])


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)
