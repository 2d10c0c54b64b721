"""Declarations that cannot work: one error each, which names the file and the setting."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.changefeed.sinks import CANAL_FILES, CLAIM, CSV, KAFKA, LARGE
from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.changefeed.known_settings import KNOWN, LISTS
from ticdc_assets.errors import ConfigError

TOPIC = "[[changefeed]]\nid = 'a'\nsink-uri = 'kafka://a:1/t?protocol=simple'\n"
CANNOT_WORK: list[tuple[str, str, str, str]] = [
    # sink URI, changefeed TOML, the setting that the error names, a word of the reason
    (KAFKA + "csv", "", "protocol", "csv is not supported on kafka"),
    (KAFKA + "avro", "", "protocol", "avro is not supported on kafka: use simple"),
    (KAFKA + "debezium", "", "protocol", "debezium is not supported"),
    (KAFKA + "canal", "", "protocol", "canal is not supported"),
    (KAFKA + "maxwell", "", "protocol", "maxwell is not supported"),
    (KAFKA + "json", "", "protocol", "use simple, canal-json or open-protocol"),
    (KAFKA + "canal-jsn", "", "protocol", "'canal-jsn' is no protocol that is supported on kafka"),
    ("file:///data?protocol=csvv", "", "protocol", "use csv or canal-json; did you mean csv?"),
    ("dump:///x/records.jsonl?protocol=csv", "", "protocol", "csv is not supported on dump"),
    ("file:///data?protocol=simple", "", "protocol", "simple is not supported on storage"),
    ("gs://bucket/x?protocol=default", "", "protocol", "default is not supported on storage"),
    ("nfs:///data", "", "sink-uri", "sets no protocol"),
    ("file:///data", "[sink]\nprotocol = 'simple'", "sink.protocol", "simple is not supported"),
    ("mysql://root@h:3306/", "", "sink-uri", "must start with kafka://"),
    ("broker:9092/topic", "", "sink-uri", "must start with kafka://"),
    ("kafka://broker/topic", "", "sink-uri", "host:port"),
    ("kafka://broker:9092", "", "sink-uri", "no topic"),
    ("kafka://broker:9092/a/b", "", "sink-uri", "no topic"),
    ("file://data/prefix?protocol=csv", "", "sink-uri", "absolute path"),
    ("dump:///folder/?protocol=simple", "", "sink-uri", "must name a file"),
    ("s3:///prefix?protocol=csv", "", "sink-uri", "must name a bucket"),
    (CSV + "&a=b#c", "", "sink-uri", "%23"),
    (CSV + "&endpoint=%zz", "", "sink-uri", "%25"),
    (CSV + "&flush-interval=5", "", "flush-interval", "must be a duration"),
    (CSV + "&flush-interval=-5s", "", "flush-interval", "must be a duration"),
    (CSV + "&flush-interval=0s", "", "flush-interval", "more than 0s"),
    (CSV + "&flush-intervall=5s", "", "flush-intervall", "did you mean flush-interval?"),
    (CSV + "&date-separator=none", "", "date-separator", "is not a setting that TiCDC reads"),
    (CSV + "&use-table-id-as-path=yes", "", "use-table-id-as-path", "must be true or false"),
    (CSV + "&protocol=canal-json", "", "protocol", "given twice"),
    (KAFKA + "simple&partition-num=three", "", "partition-num", "must be a whole number"),
    (KAFKA + "simple&partition-num=0", "", "partition-num", "1 or more"),
    (KAFKA + "simple&encoding-format=xml", "", "encoding-format", "json or avro"),
    (CSV, "[sink]\ndate-separator = 'hour'", "sink.date-separator", "day, none, year or month"),
    (CSV, "[sink]\ndate-separator = 1", "sink.date-separator", "must be a string"),
    (CSV, "[sink]\nfile-index-digit = 5", "sink.file-index-digit", "6 to 20"),
    (CSV, "[sink]\nfile-index-digit = 21", "sink.file-index-digit", "6 to 20"),
    (CSV, "[sink]\nfile-index-digit = '6'", "sink.file-index-digit", "whole number"),
    (CSV, "[sink]\nenable-partition-separator = 1", "enable-partition-separator", "true or false"),
    (CSV, "[sink.csv]\ndelimiter = ''", "sink.csv.delimiter", "must not be empty"),
    (CSV, "[sink.csv]\nquote = ''\nnull = ''", "sink.csv.null", "a text may be equal"),
    (CSV, "[sink]\nterminator = ';'\n[sink.csv]\nquote = ''", "sink.terminator", "texts may"),
    (CANAL_FILES, "[sink]\nterminator = ','", "sink.terminator", "part of a record"),
    (CSV, '[sink.csv]\ndelimiter = "a\\n"', "sink.csv.delimiter", "line break"),
    (CSV, "[sink.csv]\ndelimiter = '|\"'", "sink.csv.delimiter", "quote"),
    (CSV, "[sink.csv]\nquote = '--'", "sink.csv.quote", "one ASCII character"),
    (CSV, "[sink.csv]\nbinary-encoding-method = 'raw'", "binary-encoding-method", "base64 or hex"),
    (
        CSV,
        "[sink]\ndelete-only-output-handle-key-columns = true",
        "sink.delete-only-output-handle-key-columns",
        "csv",
    ),
    (
        KAFKA + "open-protocol",
        "force-replicate = true\n[sink]\ndelete-only-output-handle-key-columns = true",
        "sink.delete-only-output-handle-key-columns",
        "force-replicate",
    ),
    (KAFKA + "simple", CLAIM, "claim-check-storage-uri", "is missing"),
    (
        KAFKA + "simple",
        CLAIM + "claim-check-storage-uri = 'kafka://a:1/b'",
        "claim-check-storage-uri",
        "folder or a bucket",
    ),
    (
        KAFKA + "open-protocol",
        CLAIM + "claim-check-storage-uri = 'file:///c'\nclaim-check-raw-value = true",
        "claim-check-raw-value",
        "open-protocol",
    ),
    (
        KAFKA + "canal-json",
        CLAIM + "claim-check-storage-uri = 'file:///c'",
        "large-message-handle-option",
        "enable-tidb-extension",
    ),
    (
        KAFKA + "canal-json",
        LARGE + "large-message-handle-option = 'handle-key-only'",
        "large-message-handle-option",
        "enable-tidb-extension",
    ),
    (CSV, CLAIM + "claim-check-storage-uri = 'file:///c'", "large-message-handle-option", "Kafka"),
    (
        KAFKA + "simple",
        LARGE + "large-message-handle-option = 'split'",
        "handle-option",
        "none, handle-key-only or",
    ),
    (
        KAFKA + "simple",
        LARGE + "large-message-handle-compression = 'zstd'",
        "large-message-handle-compression",
        "none, snappy or lz4",
    ),
    (
        KAFKA + "simple",
        "[sink]\ndispatchers = [{matcher = ['*.*'], partition = 'ts', dispatcher = 'ts'}]",
        "sink.dispatchers[0].dispatcher",
        "old name",
    ),
    (
        KAFKA + "simple",
        "[sink]\ndispatchers = [{matcher = ['a.*']}, {matchers = ['*.*']}]",
        "sink.dispatchers[1].matchers",
        "did you mean matcher?",
    ),
    (
        KAFKA + "simple",
        "[sink]\ndispatchers = [{matcher = ['*.*'], topic = 't_{column:region}'}]",
        "sink.dispatchers[0].topic",
        "{schema} and {table} only",
    ),
    (
        KAFKA + "simple",
        "[sink]\ndispatchers = [{matcher = ['a.*'], target-schema = 'b'},"
        " {matcher = ['*.*'], topic = 't_{table}'}]",
        "sink.dispatchers.topic",
        "target-schema or target-table",
    ),
    (CSV, "[sink]\ndispatchers = 'index-value'", "sink.dispatchers", "list of tables"),
    (CSV, "[sink]\ncsv = 'yes'", "sink.csv", "must be a table"),
    (CSV, "[sink]\nterminators = ''", "sink.terminators", "did you mean terminator?"),
    (CSV, "[csv]\nquote = ''", "csv", "it belongs in [sink]"),
    (CSV, "include-commit-ts = true", "include-commit-ts", "it belongs in [sink.csv]"),
    (CSV, "[sink]\nbdr-mode = true", "sink.bdr-mode", "at the top"),
    (CSV, "[sink]\nprotocol =\n", "feed.toml", "line 2"),
]


@pytest.mark.parametrize(("uri", "config", "setting", "reason"), CANNOT_WORK)
def test_an_invalid_declaration_is_an_error_that_names_file_and_setting(
    declare: Callable[..., Changefeed], uri: str, config: str, setting: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        declare(uri, config)
    assert reason in raised.value.reason
    assert setting in f"{raised.value.file} {raised.value.setting}"
    assert Path(raised.value.file or "").name in ("changefeeds.toml", "feed.toml")


@pytest.mark.parametrize(
    ("content", "setting", "reason"),
    [
        ("", "changefeed", "is missing"),
        ("[changefeed]\nid = 'a'", "changefeed", "[[changefeed]]"),
        ("[[changefeeds]]\nid = 'a'", "changefeeds", "did you mean changefeed?"),
        ("[[changefeed]]\nid = 'a' oops", None, "line 2"),
        ("[[changefeed]]\nsink-uri = 'x'", "changefeed 1.id", "letters"),
        ("[[changefeed]]\nid = 'a b'", "changefeed 1.id", "letters"),
        ("[[changefeed]]\nid = 'a'", "changefeed a.sink-uri", "missing"),
        ("[[changefeed]]\nid = 'a'\nsink-uri = 3", "changefeed a.sink-uri", "string"),
        ("[[changefeed]]\nid = 'a'\nsink_uri = 'x'", "changefeed a.sink_uri", "mean sink-uri?"),
        ("{feed}config = 'gone.toml'", "changefeed a.config", "no such file"),
        ("{feed}tz = 'Mars/Olympus'", "changefeed a.tz", "time zone"),
        ("{feed}tz = '../../etc/passwd'", "changefeed a.tz", "time zone"),
        ("{feed}tz = 'America'", "changefeed a.tz", "'America' is not the name of a time zone"),
        ("{feed}tz = 'Asia/Shangai'", "changefeed a.tz", "UTC; did you mean Asia/Shanghai?"),
        ("{feed}tz = 'Local'", "changefeed a.tz", "such as Asia/Shanghai, not 'Local'"),
        ("{feed}tz = 'System'", "changefeed a.tz", "TiCDC's own machine"),
        ("{feed}server-version = '8.5'", "changefeed a.server-version", "such as 7.5.4"),
        ("{feed}ddl-time-zone = 'Mars/Olympus'", "changefeed a.ddl-time-zone", "time zone"),
        ("{feed}ddl-time-zone = 'SYSTEM'", "changefeed a.ddl-time-zone", "sessions that run"),
        ("{feed}ddl-time-zone = 9", "changefeed a.ddl-time-zone", "string"),
        ("{feed}default-collation = 'utf8'", "changefeed a.default-collation", "utf8mb4_bin, "),
        ("{feed}default-collation = ''", "changefeed a.default-collation", "not empty"),
        ("{feed}claim-check-storage = 'http://x/y'", "changefeed a.claim-check-storage", "start"),
        ("{feed}keys = 'id'", "changefeed a.keys", "table"),
        ("{feed}keys = {{shop.stock = ['id']}}", "changefeed a.keys.shop", "in quotes"),
        ("{feed}keys = {{'s.t' = []}}", 'changefeed a.keys."s.t"', "column names"),
        ("{feed}keys = {{'s.t' = ['a', 'a']}}", 'changefeed a.keys."s.t"', "column names"),
        ("{feed}start = 'latest'", "changefeed a.start", "works on Kafka only"),
        (TOPIC + "start = 'soon'", "changefeed a.start", "must be earliest, latest, a time"),
        (TOPIC + "start = 1969-12-31T23:59:59Z", "changefeed a.start", "must be 1970 or later"),
        (TOPIC + "start = 2026-03-14T00:00:00", "changefeed a.start", "its offset from UTC"),
        (TOPIC + "start = {}", "changefeed a.start", "or offsets"),
        (TOPIC + "start = {t-0 = -1}", "changefeed a.start", "or offsets"),
        (TOPIC + "start = {t-0 = true}", "changefeed a.start", "or offsets"),
        (TOPIC + "max-records = 0", "changefeed a.max-records", "must be a whole number"),
        (TOPIC + "max-bytes = true", "changefeed a.max-bytes", "must be a whole number"),
        ("{feed}max-bytes = 5", "changefeed a.max-bytes", "works on Kafka only"),
        ("{feed}kafka = {{}}", "changefeed a.kafka", "works on Kafka only"),
        (TOPIC + "kafka = 1", "changefeed a.kafka", "must be a table"),
        (TOPIC + "kafka = {'group.id' = 'x'}", "changefeed a.kafka", "group.id cannot be set"),
        (TOPIC + "kafka = {sasl.password = 'x'}", "changefeed a.kafka", "sasl must be a text"),
        (TOPIC + "kafka = {'a.b' = {env = 'A', file = 'b'}}", "changefeed a.kafka", "a.b must be"),
        (TOPIC + "kafka = {'A B' = 1}", "changefeed a.kafka", "quote names with dots"),
        ("{feed}{feed}", "changefeed a", "declared twice"),
        (TOPIC + TOPIC.replace("'a'", "'b'"), "changefeed b.sink-uri", "the topic of a too"),
    ],
)
def test_an_invalid_changefeeds_file_is_an_error_that_names_the_setting(
    tmp_path: Path, content: str, setting: str | None, reason: str
) -> None:
    feed = "[[changefeed]]\nid = 'a'\nsink-uri = 'file:///data?protocol=csv'\n"
    path = tmp_path / "changefeeds.toml"
    path.write_text(content.format(feed=feed) if "{feed}" in content else content)
    with pytest.raises(ConfigError) as raised:
        load_changefeeds(path)
    assert (raised.value.file, raised.value.setting) == (str(path), setting)
    assert reason in raised.value.reason


def test_any_value_of_a_known_setting_is_accepted_or_a_config_error(
    declare: Callable[..., Changefeed],
) -> None:
    loaded = 0
    for table, names in KNOWN.items():
        for name, value in itertools.product(names, ["1", "true", "''", "[1]", "{a = 1}", "1.5"]):
            row = table in LISTS
            header = f"[[{table}]]" if row else f"[{table}]" if table else ""
            try:
                declare(KAFKA + "canal-json", f"{header}\n{name} = {value}")
                loaded += 1
            except ConfigError as error:
                assert name in str(error)  # noqa: PT017
    assert loaded > sum(map(len, KNOWN.values()))
