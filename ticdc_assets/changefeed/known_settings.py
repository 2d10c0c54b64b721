"""Every setting that TiCDC accepts for a changefeed, and what it means here.

docs/settings.md has the same table for people; a test holds the two together.  The settings are
those of both TiCDC generations, back to v6.5.
"""

from collections.abc import Mapping
from typing import Literal

# "read"            it changes the bytes, or says where they are; some values are errors
# "ignored"         it changes nothing that a reader has to know: the bytes are the same, or show it
# "leaves data out" the stream lacks something, and nothing in it says so
Effect = Literal["read", "ignored", "leaves data out"]
Effects = Mapping[str, Effect]


def _effects(*, read: str = "", ignored: str = "", leaves_data_out: str = "") -> Effects:
    names: dict[Effect, str] = {
        "read": read,
        "ignored": ignored,
        "leaves data out": leaves_data_out,
    }
    return {name: effect for effect, text in names.items() for name in text.split()}


_KAFKA_CONNECTION = """
    kafka-client-id dial-timeout write-timeout read-timeout enable-tls ca cert key
    insecure-skip-verify sasl-user sasl-password sasl-mechanism sasl-gssapi-auth-type
    sasl-gssapi-keytab-path sasl-gssapi-kerberos-config-path sasl-gssapi-service-name
    sasl-gssapi-user sasl-gssapi-password sasl-gssapi-realm sasl-gssapi-disable-pafxfast
    sasl-oauth-client-id sasl-oauth-client-secret sasl-oauth-token-url sasl-oauth-scopes
    sasl-oauth-grant-type sasl-oauth-audience
"""
# TiDB's storage library also takes these in upper case and with underscores.
_STORAGE_CONNECTION = """
    endpoint region storage-class sse sse-kms-key-id acl access-key secret-access-key session-token
    provider force-path-style use-accelerate-endpoint role-arn external-id profile
    object-lock-enabled predefined-acl credentials-file account-name account-key access-tier
    sas-token encryption-scope encryption-key
"""
KAFKA_CONNECTION = frozenset(_KAFKA_CONNECTION.split())
STORAGE_CONNECTION = frozenset(_STORAGE_CONNECTION.split())
CONNECTION = KAFKA_CONNECTION | STORAGE_CONNECTION

# What TiCDC reads from a sink URI besides how to reach Kafka or a bucket.
SINK_PARAMETERS = _effects(
    read="""
        protocol enable-tidb-extension only-output-updated-columns content-compatible
        encoding-format partition-num flush-interval use-table-id-as-path
    """,
    ignored="""
        transaction-atomicity max-batch-size max-message-bytes output-row-key schema-registry
        avro-decimal-handling-mode avro-bigint-unsigned-handling-mode avro-enable-watermark
        avro-include-before-value debezium-disable-schema debezium-include-start-ts
        debezium-decimal-handling-mode debezium-bigint-unsigned-handling-mode
        debezium-binary-handling-mode simple-include-start-ts replication-factor kafka-version
        max-retry compression auto-create-topic required-acks worker-count file-size
        spool-disk-quota spool-base-dir spool-dir
    """,
)

# The settings of the configuration file, by table; the tables themselves are not listed.
TOML: dict[str, Effects] = {
    "": _effects(
        read="force-replicate enable-old-value",
        ignored="""
            performance-mode memory-quota case-sensitive check-gc-safe-point enable-sync-point
            enable-table-monitor sync-point-interval sync-point-retention
            changefeed-error-stuck-duration active-active-progress-interval
            active-active-sync-stats-interval event-collector-batch-count
            event-collector-batch-bytes sql-mode
        """,
        leaves_data_out="bdr-mode enable-active-active ignore-ineligible-table",
    ),
    "mounter": _effects(ignored="worker-num"),
    "filter": _effects(ignored="ddl-allow-list", leaves_data_out="rules ignore-txn-start-ts"),
    "filter.event-filters": _effects(
        leaves_data_out="""
            matcher ignore-event ignore-sql ignore-insert-value-expr ignore-update-new-value-expr
            ignore-update-old-value-expr ignore-delete-value-expr ignore-update-only-columns
        """
    ),
    "scheduler": _effects(
        read="enable-table-across-nodes",
        ignored="""
            region-threshold region-per-span region-count-per-span region-count-refresh-interval
            write-key-threshold scheduling-task-count-per-node enable-splittable-check force-split
            balance-score-threshold min-traffic-percentage max-traffic-percentage type polling-time
        """,
    ),
    "integrity": _effects(ignored="integrity-check-level corruption-handle-level"),
    "synced-status": _effects(ignored="synced-check-interval checkpoint-interval"),
    "consistent": _effects(
        ignored="""
            level max-log-size flush-interval meta-flush-interval encoding-worker-num
            flush-worker-num storage use-file-backend compression flush-concurrency
        """
    ),
    "consistent.memory-usage": _effects(ignored="memory-quota-percentage event-cache-percentage"),
    "sink": _effects(
        read="""
            protocol terminator date-separator enable-partition-separator file-index-digit
            only-output-updated-columns delete-only-output-handle-key-columns content-compatible
        """,
        ignored="""
            transaction-atomicity schema-registry encoder-concurrency enable-kafka-sink-v2 safe-mode
            advance-timeout-in-sec send-bootstrap-interval-in-sec send-bootstrap-in-msg-count
            send-bootstrap-to-all-partition send-all-bootstrap-at-start debezium-disable-schema
            case-sensitive force-replicate
        """,
    ),
    "sink.integrity": _effects(ignored="integrity-check-level corruption-handle-level"),
    "sink.dispatchers": _effects(
        read="matcher dispatcher partition topic target-schema target-table",
        ignored="index columns",
    ),
    "sink.column-selectors": _effects(leaves_data_out="matcher columns"),
    "sink.csv": _effects(
        read="""
            delimiter quote null include-commit-ts binary-encoding-method output-old-value
            output-handle-key output-field-header
        """
    ),
    "sink.open": _effects(read="output-old-value"),
    "sink.simple": _effects(ignored="include-start-ts"),
    "sink.debezium": _effects(
        ignored="""
            output-old-value include-start-ts decimal-handling-mode bigint-unsigned-handling-mode
            binary-handling-mode
        """
    ),
    "sink.kafka-config": _effects(
        read="partition-num output-raw-change-event" + _KAFKA_CONNECTION,
        ignored="""
            replication-factor kafka-version max-message-bytes compression
            auto-create-topic required-acks
        """,
    ),
    "sink.kafka-config.codec-config": _effects(
        read="enable-tidb-extension encoding-format",
        ignored="""
            max-batch-size avro-enable-watermark avro-decimal-handling-mode
            avro-bigint-unsigned-handling-mode avro-include-before-value output-row-key
        """,
    ),
    "sink.kafka-config.large-message-handle": _effects(
        read="""
            large-message-handle-option large-message-handle-compression claim-check-storage-uri
            claim-check-raw-value
        """
    ),
    "sink.cloud-storage-config": _effects(
        read="flush-interval output-column-id use-table-id-as-path output-raw-change-event",
        ignored="""
            worker-count file-size flush-concurrency file-cleanup-cron-spec spool-disk-quota
            spool-base-dir
        """,
        leaves_data_out="file-expiration-days",
    ),
}
# Tables that are lists of tables.
LISTS = frozenset({"sink.dispatchers", "sink.column-selectors", "filter.event-filters"})
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


def _names_in(table: str) -> frozenset[str]:
    nested = (name.rpartition(".") for name in {*TOML, *FOREIGN} - {""})
    return frozenset({*TOML[table], *(name for parent, _, name in nested if parent == table)})


# Every table of the file with all names that it may have, nested tables included.
KNOWN: dict[str, frozenset[str]] = {table: _names_in(table) for table in TOML}
