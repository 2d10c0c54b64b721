import itertools
import pickle
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.golden import GOLDEN, datasets, meta
from ticdc_assets.changefeed import (
    Changefeed,
    CsvDialect,
    Dispatcher,
    changefeed_from_uri,
    find_changefeeds_file,
    load_changefeeds,
)
from ticdc_assets.changefeed.sink_uri import CONNECTION, KAFKA_CONNECTION
from ticdc_assets.changefeed.toml import FOREIGN, KNOWN
from ticdc_assets.errors import ConfigError

KAFKA = "kafka://broker:9092/topic?protocol="
LARGE = "[sink.kafka-config.large-message-handle]\n"


@pytest.fixture(scope="module")
def declare(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Changefeed]:
    folder = tmp_path_factory.mktemp("feeds")

    def declare(uri: str, config: str = "", entry: str = "") -> Changefeed:
        (folder / "feed.toml").write_text(config)
        declared = f"[[changefeed]]\nid = 'feed'\nsink-uri = '{uri}'\nconfig = 'feed.toml'\n{entry}"
        (folder / "changefeeds.toml").write_text(declared)
        return load_changefeeds(folder / "changefeeds.toml")["feed"]

    return declare


# --- The golden changefeeds: every setting in them arrives, and nothing else changes -------------

ARRIVES_AS = {
    "protocol": "protocol",
    "encoding-format": "encoding_format",
    "enable-tidb-extension": "enable_tidb_extension",
    "partition-num": "partition_num",
    "use-table-id-as-path": "use_table_id_as_path",
    "force-replicate": "force_replicate",
    "scheduler.enable-table-across-nodes": "enable_table_across_nodes",
    "sink.date-separator": "date_separator",
    "sink.enable-partition-separator": "enable_partition_separator",
    "sink.file-index-digit": "file_index_digit",
    "sink.terminator": "terminator",
    "sink.only-output-updated-columns": "only_output_updated_columns",
    "sink.delete-only-output-handle-key-columns": "delete_only_output_handle_key_columns",
    "sink.content-compatible": "content_compatible",
    "sink.csv.delimiter": "csv.delimiter",
    "sink.csv.quote": "csv.quote",
    "sink.csv.null": "csv.null",
    "sink.csv.include-commit-ts": "csv.include_commit_ts",
    "sink.csv.output-old-value": "csv.output_old_value",
    "sink.csv.binary-encoding-method": "csv.binary_encoding",
    "sink.csv.output-field-header": "csv.field_header",
    "sink.csv.output-handle-key": "csv.handle_key",
    "sink.kafka-config.output-raw-change-event": "output_raw_change_event",
    "sink.cloud-storage-config.output-raw-change-event": "output_raw_change_event",
    "sink.cloud-storage-config.output-column-id": "output_column_id",
    LARGE[1:-2] + ".large-message-handle-option": "large_message_handle_option",
    LARGE[1:-2] + ".large-message-handle-compression": "large_message_handle_compression",
    LARGE[1:-2] + ".claim-check-raw-value": "claim_check_raw_value",
}
CHANGES_NO_BYTE_WE_READ = {
    "kafka-version",
    "max-message-bytes",
    "max-batch-size",
    "file-size",
    "sink.send-bootstrap-in-msg-count",
    "sink.send-bootstrap-to-all-partition",
    "sink.send-all-bootstrap-at-start",
    "integrity.integrity-check-level",
    "integrity.corruption-handle-level",
}


def leaves(table: dict[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{place}{name}.")
        else:
            yield place + name, value


def as_written(text: str) -> str | bool | int:
    return {"true": True, "false": False}.get(text, int(text) if text.isdigit() else text)


@pytest.mark.parametrize("dataset", datasets())
def test_a_golden_changefeed_loads_with_exactly_what_its_uri_and_toml_say(
    dataset: str, tmp_path: Path
) -> None:
    config = GOLDEN / dataset / "changefeed.toml"
    uri, tz = meta(dataset)["sink-uri"], meta(dataset)["timezone"]
    (tmp_path / "changefeeds.toml").write_text(
        f"[[changefeed]]\nid = 'golden'\nsink-uri = '{uri}'\ntz = '{tz}'\nconfig = '{config}'\n"
    )
    feed = load_changefeeds(tmp_path / "changefeeds.toml")["golden"]

    parts = urlsplit(uri)
    expected: dict[str, Any] = {
        "id": "golden",
        "transport": "kafka" if parts.scheme == "kafka" else "storage",
        "scheme": parts.scheme,
        "location": parts.netloc or parts.path,
        "topic": parts.path[1:] if parts.scheme == "kafka" else None,
        "tz": ZoneInfo(tz),
        "open_output_old_value": True,
        "encoding_format": "json",
        "terminator": "\r\n",
        "date_separator": "day",
        "enable_partition_separator": True,
        "file_index_digit": 20,
        "flush_interval": 5.0,
        "large_message_handle_option": "none",
        "large_message_handle_compression": "none",
        "dispatchers": (),
        "keys": {},
        "claim_check_storage": None,
        "partition_num": None,
    }
    csv = asdict(CsvDialect())
    for name, value in itertools.chain(
        leaves(tomllib.loads(config.read_text())),
        ((name, as_written(text)) for name, text in parse_qsl(parts.query)),
    ):
        if name == "sink.dispatchers":
            expected["dispatchers"] = tuple(
                Dispatcher(tuple(rule["matcher"]), rule["partition"], rule.get("topic", ""))
                for rule in value
            )
        elif name.endswith("claim-check-storage-uri"):
            expected["claim_check_storage"] = value.removeprefix("file://")
        elif name == "flush-interval":
            expected["flush_interval"] = int(value.removesuffix("ms")) / 1000
        elif name not in CHANGES_NO_BYTE_WE_READ:
            target, _, csv_field = ARRIVES_AS[name].partition(".")
            (csv if csv_field else expected)[csv_field or target] = value
    expected["only_output_updated_columns"] = expected.get(
        "content_compatible", False
    ) or expected.get("only_output_updated_columns", False)
    csv["terminator"] = expected["terminator"]
    for name in (field.name for field in fields(feed)):
        actual = getattr(feed, name)
        if name == "csv":
            assert asdict(actual) == csv
        elif name in ("options", "claim_check_options"):
            assert not actual
        else:
            assert actual == expected.get(name, False), name


def test_every_setting_of_the_golden_changefeeds_was_compared() -> None:
    assert len(datasets()) == 176


# --- What cannot work ----------------------------------------------------------------------------

CSV = "file:///data?protocol=csv"
CANAL_FILES = "s3://bucket/prefix?protocol=canal-json"
CLAIM = LARGE + "large-message-handle-option = 'claim-check'\n"
CANNOT_WORK: list[tuple[str, str, str, str]] = [
    # sink URI, changefeed TOML, the setting that the error names, a word of the reason
    (KAFKA + "csv", "", "protocol", "csv is not supported on kafka"),
    (KAFKA + "avro", "", "protocol", "avro is not supported on kafka, only simple"),
    (KAFKA + "debezium", "", "protocol", "debezium is not supported"),
    (KAFKA + "canal", "", "protocol", "canal is not supported"),
    (KAFKA + "maxwell", "", "protocol", "maxwell is not supported"),
    (KAFKA + "json", "", "protocol", "only simple, canal-json, open-protocol"),
    ("dump:///x/records.jsonl?protocol=csv", "", "protocol", "csv is not supported on dump"),
    ("file:///data?protocol=simple", "", "protocol", "simple is not supported on storage"),
    ("gs://bucket/x?protocol=default", "", "protocol", "default is not supported on storage"),
    ("nfs:///data", "", "sink-uri", "sets no protocol"),
    ("file:///data", "[sink]\nprotocol = 'simple'", "sink.protocol", "simple is not supported"),
    ("mysql://root@h:3306/", "", "sink-uri", "must start with one of kafka://"),
    ("broker:9092/topic", "", "sink-uri", "must start with one of kafka://"),
    ("kafka://broker/topic", "", "sink-uri", "host:port"),
    ("kafka://broker:9092", "", "sink-uri", "no topic"),
    ("kafka://broker:9092/a/b", "", "sink-uri", "no topic"),
    ("file://data/prefix?protocol=csv", "", "sink-uri", "absolute path"),
    ("dump:///folder/?protocol=simple", "", "sink-uri", "must name a file"),
    ("s3:///prefix?protocol=csv", "", "sink-uri", "must name a bucket"),
    (CSV + "&a=b#c", "", "sink-uri", "%23"),
    (CSV + "&endpoint=%zz", "", "sink-uri", "%25"),
    (CSV + "&flush-interval=5", "", "flush-interval", "not a duration"),
    (CSV + "&flush-interval=-5s", "", "flush-interval", "not a duration"),
    (CSV + "&flush-interval=0s", "", "flush-interval", "more than nothing"),
    (CSV + "&flush-intervall=5s", "", "flush-intervall", "did you mean flush-interval?"),
    (CSV + "&date-separator=none", "", "date-separator", "is not a setting that TiCDC reads"),
    (CSV + "&use-table-id-as-path=yes", "", "use-table-id-as-path", "not true or false"),
    (CSV + "&protocol=canal-json", "", "protocol", "given twice"),
    (KAFKA + "simple&partition-num=three", "", "partition-num", "not an integer"),
    (KAFKA + "simple&partition-num=0", "", "partition-num", "1 or more"),
    (KAFKA + "simple&encoding-format=xml", "", "encoding-format", "json or avro"),
    (CSV, "[sink]\ndate-separator = 'hour'", "sink.date-separator", "day or none or year or month"),
    (CSV, "[sink]\ndate-separator = 1", "sink.date-separator", "must be a string"),
    (CSV, "[sink]\nfile-index-digit = 5", "sink.file-index-digit", "6 to 20"),
    (CSV, "[sink]\nfile-index-digit = 21", "sink.file-index-digit", "6 to 20"),
    (CSV, "[sink]\nfile-index-digit = '6'", "sink.file-index-digit", "whole number"),
    (CSV, "[sink]\nenable-partition-separator = 1", "enable-partition-separator", "true or false"),
    (CSV, "[sink.csv]\ndelimiter = ''", "sink.csv.delimiter", "1 to 3"),
    (CSV, "[sink.csv]\ndelimiter = '||||'", "sink.csv.delimiter", "1 to 3"),
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
    (KAFKA + "simple", LARGE + "large-message-handle-option = 'split'", "handle-option", "none or"),
    (
        KAFKA + "simple",
        LARGE + "large-message-handle-compression = 'zstd'",
        "large-message-handle-compression",
        "none or snappy or lz4",
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
    (CSV, "[sink]\ndispatchers = 'index-value'", "sink.dispatchers", "list of tables"),
    (CSV, "[sink]\ncsv = 'yes'", "sink.csv", "must be a table"),
    (CSV, "[sink]\nterminators = ''", "sink.terminators", "did you mean terminator?"),
    (CSV, "[csv]\nquote = ''", "csv", "it belongs in [sink]"),
    (CSV, "include-commit-ts = true", "include-commit-ts", "it belongs in [sink.csv]"),
    (CSV, "[sink]\nforce-replicate = true", "sink.force-replicate", "at the top"),
    (CSV, "[sink]\nprotocol =\n", "feed.toml", "line 2"),
]


@pytest.mark.parametrize(("uri", "config", "setting", "reason"), CANNOT_WORK)
def test_a_declaration_that_cannot_work_is_one_error_that_names_file_and_setting(
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
        ("", "changefeed", "there is none"),
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
        ("{feed}tz = 'America'", "changefeed a.tz", "time zone"),
        ("{feed}tz = 'System'", "changefeed a.tz", "TiCDC's own machine"),
        ("{feed}claim-check-storage = 'http://x/y'", "changefeed a.claim-check-storage", "start"),
        ("{feed}keys = 'id'", "changefeed a.keys", "table"),
        ("{feed}keys = {{shop.stock = ['id']}}", "changefeed a.keys.shop", "in quotes"),
        ("{feed}keys = {{'s.t' = []}}", 'changefeed a.keys."s.t"', "column names"),
        ("{feed}keys = {{'s.t' = ['a', 'a']}}", 'changefeed a.keys."s.t"', "column names"),
        ("{feed}{feed}", "changefeed a", "declared twice"),
    ],
)
def test_a_changefeeds_file_that_cannot_work_is_an_error_with_its_place(
    tmp_path: Path, content: str, setting: str | None, reason: str
) -> None:
    feed = "[[changefeed]]\nid = 'a'\nsink-uri = 'file:///data?protocol=csv'\n"
    path = tmp_path / "changefeeds.toml"
    path.write_text(content.format(feed=feed) if "{feed}" in content else content)
    with pytest.raises(ConfigError) as raised:
        load_changefeeds(path)
    assert (raised.value.file, raised.value.setting) == (str(path), setting)
    assert reason in raised.value.reason


def test_every_known_setting_may_have_any_value_without_another_error_than_ours(
    declare: Callable[..., Changefeed],
) -> None:
    loaded = 0
    for table, names in KNOWN.items():
        for name, value in itertools.product(names, ["1", "true", "''", "[1]", "{a = 1}", "1.5"]):
            row = table in ("sink.dispatchers", "sink.column-selectors", "filter.event-filters")
            header = f"[[{table}]]" if row else f"[{table}]" if table else ""
            try:
                declare(KAFKA + "canal-json", f"{header}\n{name} = {value}")
                loaded += 1
            except ConfigError as error:
                assert name in str(error)  # noqa: PT017
    assert loaded > sum(map(len, KNOWN.values()))


# --- What works ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "transport", "scheme", "location", "topic"),
    [
        ("kafka://a:1,b:2,[::1]:3/t.x_y-z", "kafka", "kafka", "a:1,b:2,[::1]:3", "t.x_y-z"),
        ("kafka+ssl://me:pw@a:1/t", "kafka", "kafka+ssl", "a:1", "t"),
        ("dump:///x%20y/records.jsonl.gz", "dump", "dump", "/x y/records.jsonl.gz", None),
        ("file:///my%2Ddata/a@b/", "storage", "file", "/my-data/a@b", None),
        ("nfs:///data", "storage", "file", "/data", None),
        ("s3://bucket/pre%20fix/x?endpoint=http://h:9000/", "storage", "s3", None, None),
        ("gs://bucket/x/", "storage", "gcs", "gcs://bucket/x", None),
        ("gcs://bucket", "storage", "gcs", "gcs://bucket", None),
        ("azblob://container/x", "storage", "azure", "azure://container/x", None),
        ("AZURE://container/x", "storage", "azure", "azure://container/x", None),
    ],
)
def test_a_location_is_unescaped_and_without_userinfo_and_parameters(
    uri: str, transport: str, scheme: str, location: str | None, topic: str | None
) -> None:
    uri += ("&" if "?" in uri else "?") + "protocol=canal-json"
    feed = changefeed_from_uri(uri)
    assert (feed.transport, feed.scheme, feed.topic) == (transport, scheme, topic)
    assert feed.location == (location or "s3://bucket/pre fix/x")


def test_the_uri_wins_over_the_toml_and_each_may_say_it_alone(
    declare: Callable[..., Changefeed],
) -> None:
    config = """
        [sink]
        protocol = "Canal-JSON"
        content-compatible = true
        [sink.open]
        output-old-value = false
        [sink.kafka-config]
        partition-num = 4
        sasl-user = "file"
        sasl-mechanism = "plain"
        enable-tls = true
        [sink.kafka-config.codec-config]
        enable-tidb-extension = true
        encoding-format = "avro"
        [sink.cloud-storage-config]
        flush-interval = "2m"
        use-table-id-as-path = true
        output-column-id = true
        output-raw-change-event = true
        [filter]
        rules = ["*.*"]
        [[filter.event-filters]]
        matcher = ["a.b"]
        [sink.mysql-config]
        whatever = 1
    """
    feed = declare("kafka://a:1/t", config)
    assert (feed.protocol, feed.partition_num, feed.flush_interval) == ("canal-json", 4, 120)
    assert feed.enable_tidb_extension
    assert feed.content_compatible
    assert feed.only_output_updated_columns
    assert feed.use_table_id_as_path
    assert feed.output_column_id
    assert not feed.output_raw_change_event
    assert not feed.open_output_old_value
    assert feed.encoding_format == "json"  # the Simple protocol's, and this is not Simple
    assert dict(feed.options) == {
        "sasl-user": "file",
        "sasl-mechanism": "plain",
        "enable-tls": "true",
    }

    feed = declare(
        "kafka://a:1/t?protocol=simple&partition-num=%2B5&sasl-user=uri&flush-interval=90s", config
    )
    assert (feed.protocol, feed.partition_num, feed.flush_interval) == ("simple", 5, 90)
    assert (feed.encoding_format, feed.options["sasl-user"]) == ("avro", "uri")

    assert declare("s3://b/p?protocol=csv", config).output_raw_change_event
    files = declare(
        CANAL_FILES + "&enable-tidb-extension=1",
        f"{LARGE}large-message-handle-option = 'handle-key-only'\n"
        "large-message-handle-compression = 'lz4'",
    )
    assert files.large_message_handle_option == "none"  # files know no large messages
    assert files.large_message_handle_compression == "none"
    assert declare("kafka://a:1/t").protocol == "open-protocol"
    assert declare("kafka://a:1/t?protocol=default").protocol == "open-protocol"


def test_claim_checks_are_where_the_owner_says_or_else_where_the_toml_says(
    declare: Callable[..., Changefeed], tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = CLAIM + "claim-check-storage-uri = 's3://b/claims?Access_Key=k'"
    feed = declare(KAFKA + "simple", config)
    assert feed.claim_check_storage == "s3://b/claims"
    assert dict(feed.claim_check_options) == {"access-key": "k"}
    for ours, there in [
        ("file:///mnt/claims", "/mnt/claims"),
        ("/mnt/claims/", "/mnt/claims"),
        ("gs://c/d?credentials-file=x", "gcs://c/d"),
    ]:
        for toml in (config, CLAIM):
            feed = declare(KAFKA + "simple", toml, f"claim-check-storage = '{ours}'")
            assert feed.claim_check_storage == there
    beside = declare(KAFKA + "simple", CLAIM, "claim-check-storage = 'claims'").claim_check_storage
    assert beside is not None
    assert Path(beside).is_relative_to(tmp_path_factory.getbasetemp())


def test_keys_of_tables_are_as_declared() -> None:
    keys = {"shop.stock": ["sku", "warehouse"], "a.b.c": ["id"]}
    feed = changefeed_from_uri(CSV, keys=keys)
    assert feed.keys == {"shop.stock": ("sku", "warehouse"), "a.b.c": ("id",)}
    assert hash(feed) == hash(pickle.loads(pickle.dumps(feed)))


def test_the_changefeeds_file_is_the_named_one_or_the_environments_or_the_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TICDC_CHANGEFEEDS", raising=False)
    with pytest.raises(ConfigError, match=r"changefeeds\.toml"):
        find_changefeeds_file(None)
    for name in ("changefeeds.toml", "b.toml", "c.toml"):
        (tmp_path / name).touch()
    assert find_changefeeds_file(None) == Path("changefeeds.toml")
    monkeypatch.setenv("TICDC_CHANGEFEEDS", "b.toml")
    assert find_changefeeds_file(None) == Path("b.toml")
    assert find_changefeeds_file(Path("c.toml")) == Path("c.toml")
    with pytest.raises(ConfigError, match="gone"):
        find_changefeeds_file(Path("gone.toml"))


@pytest.mark.parametrize("truth", [True, False])
def test_booleans_of_the_uri_are_those_of_go(truth: bool) -> None:
    texts = ["1", "t", "T", "TRUE", "true", "True"]
    if not truth:
        texts = ["0", "f", "F", "FALSE", "false", "False", ""]
    for text in texts:
        feed = changefeed_from_uri(f"{KAFKA}canal-json&enable-tidb-extension={text}")
        assert feed.enable_tidb_extension is truth
    for text in ("tRUE", "yes", "on", "2", "%20true"):
        with pytest.raises(ConfigError, match="enable-tidb-extension"):
            changefeed_from_uri(f"{KAFKA}canal-json&enable-tidb-extension={text}")


@given(st.integers(0, 99), st.integers(0, 99), st.decimals(0, 99, places=3), st.integers(1, 999))
def test_durations_of_the_uri_are_those_of_go(h: int, m: int, s: object, ms: int) -> None:
    feed = changefeed_from_uri(f"{CSV}&flush-interval={h}h{m}m{s}s{ms}ms")
    assert feed.flush_interval == pytest.approx(h * 3600 + m * 60 + float(str(s)) + ms / 1000)
    assert changefeed_from_uri(f"{CSV}&flush-interval={ms}µs").flush_interval == ms * 1e-6


# --- Secrets -------------------------------------------------------------------------------------

MARK = "hunter"  # whatever a careless parser makes of the secret, a piece of it has this in it
secrets = st.lists(
    st.sampled_from("aB3/?#@:&=%;+., \\[]~*'é") | st.sampled_from(["%26", "&x=", "=1", "://"])
).map(lambda between: MARK + "".join(text + MARK for text in between))
SECRET_POSITIONS = [
    "kafka://user:{}@a:1/t?protocol=simple",
    "kafka://{}@a:1/t?protocol=simple",
    "s3://{}:{}@bucket/prefix?protocol=csv",
    "s3://{}@bucket/prefix?protocol=csv",
    "azure://user:{}@bucket/prefix?protocol=csv",
    "file://user:{}@/data?protocol=csv",
    *(f"s3://bucket/p?{name}={{}}&protocol=csv" for name in sorted(CONNECTION)),
    *(f"kafka://a:1/t?protocol=simple&{name}={{}}" for name in sorted(KAFKA_CONNECTION)),
    "s3://bucket/p?SECRET_ACCESS_KEY={}&protocol=csv",
    "kafka://a:1/t?protocol=simple&schema-registry=http://u:{}@h",
]
AN_ERROR_ELSEWHERE = ["", "&partition-num=x", "&x=1", "&protocol=avro", "&flush-interval=1", "#"]
secret_toml = st.sampled_from(
    [
        *(f"[sink.kafka-config]\n{name} = {{}}" for name in sorted(KAFKA_CONNECTION)),
        "[sink]\nschema-registry = {}",
        "[consistent]\nstorage = {}",
        "[sink.kafka-config.glue-schema-registry-config]\nsecret-access-key = {}",
        "[sink.pulsar-config]\nauthentication-token = {}",
    ]
)


def everything_said(call: Callable[[], Changefeed]) -> str:
    try:
        feed = call()
    except ConfigError as error:
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return f"{error} {error!r} {vars(error)} {cause!r}"
    return f"{feed} {feed!r} {feed.options} {feed.claim_check_options!r} {asdict(feed)}"


@given(
    st.sampled_from(SECRET_POSITIONS), secrets, st.booleans(), st.sampled_from(AN_ERROR_ELSEWHERE)
)
@example("s3://{}:{}@bucket/prefix?protocol=csv", f"{MARK}/{MARK}", False, "")
@example("s3://bucket/p?sas-token={}&protocol=csv", f"{MARK}&{MARK}=1", False, "")
@example("s3://{}@bucket/prefix?protocol=csv", f"{MARK}?{MARK}={MARK}", False, "")
@example("kafka://user:{}@a:1/t?protocol=simple", f"{MARK}?{MARK}&{MARK}", False, "")
@example(SECRET_POSITIONS[-1], f"{MARK}&{MARK}&{MARK}", False, "")
def test_a_secret_in_the_uri_is_never_said(
    position: str, secret: str, escaped: bool, elsewhere: str
) -> None:
    uri = position.replace("{}", quote(secret, safe="") if escaped else secret) + elsewhere
    assert MARK not in everything_said(lambda: changefeed_from_uri(uri))
    assert MARK not in everything_said(
        lambda: changefeed_from_uri(KAFKA + "simple", claim_check_storage=uri)
    )


@given(secret_toml, secrets, st.sampled_from(["", "\n[sink.csv]\nquote = 1", "\n[what]\n", "\n]"]))
def test_a_secret_in_the_toml_is_never_said(
    declare: Callable[..., Changefeed], position: str, secret: str, elsewhere: str
) -> None:
    plain = secret.replace("'", "")
    for value in (
        f"'{plain}'",
        f'"{plain}"',
        plain,
        f"['{plain}']",
        f"'{plain}",
        f"{{a='{plain}'}}",
    ):
        config = position.replace("{}", value) + elsewhere
        assert MARK not in everything_said(lambda config=config: declare(CSV, config))  # type: ignore[misc]
    claim = LARGE + f"claim-check-storage-uri = 's3://u:{plain}@b/x?access-key={plain}'" + elsewhere
    assert MARK not in everything_said(lambda: declare(KAFKA + "simple", claim))


@given(secrets)
def test_a_secret_reaches_the_resource_that_needs_it(secret: str) -> None:
    uri = f"s3://b/p?protocol=csv&SECRET_ACCESS_KEY={quote(secret, safe='')}"
    feed = pickle.loads(pickle.dumps(changefeed_from_uri(uri)))
    assert feed.options["secret-access-key"] == secret


# --- Anything at all -----------------------------------------------------------------------------


@given(st.text() | st.text("kafs3://:@?&=%#gzipdumfle.[]1-_;\0").map("s3://".__add__))
@example("s3://[bucket/x?protocol=csv")
@example("kafka://a:1/t?protocol=simple&partition-num=" + "9" * 5000)
@example("file:///%ff?protocol=csv")
@example("file:///%00?protocol=csv")
@example("s3://bücket℀/x?protocol=csv")
def test_any_text_is_a_changefeed_or_a_config_error(uri: str) -> None:
    try:
        changefeed_from_uri(uri)
    except ConfigError as error:
        assert error.setting  # noqa: PT017


@given(st.binary() | st.just(b"a = " + b"[" * 100_000) | st.just(b"a = " + b"1" * 5_000))
def test_any_bytes_are_changefeeds_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"any\.toml"):
        load_changefeeds(path)


def test_the_tables_of_other_sinks_are_known_by_name() -> None:
    for place in FOREIGN:
        table, _, name = place.rpartition(".")
        assert name in KNOWN[table]
