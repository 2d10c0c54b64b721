"""Declarations that work: what a changefeed is taken to be."""

import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.changefeed.sinks import CANAL_FILES, CLAIM, CSV, KAFKA, LARGE
from ticdc_assets.changefeed import (
    Changefeed,
    changefeed_from_uri,
    find_changefeeds_file,
    load_changefeeds,
)
from ticdc_assets.changefeed.table_pattern import match_table
from ticdc_assets.errors import ConfigError


@pytest.mark.parametrize(
    ("uri", "transport", "scheme", "location", "topic"),
    [
        ("kafka://a:1,b:2,[::1]:3/t.x_y-z", "kafka", "kafka", "a:1,b:2,[::1]:3", "t.x_y-z"),
        ("kafka+ssl://me:pw@a:1/t", "kafka", "kafka+ssl", "a:1", "t"),
        ("dump:///x%20y/records.jsonl.gz", "dump", "dump", "/x y/records.jsonl.gz", None),
        ("file:///my%2Ddata/a@b/", "storage", "file", "/my-data/a@b", None),
        ("nfs:///data", "storage", "file", "/data", None),
        ("s3://bucket/pre%20fix/x?endpoint=http://h:9000/", "storage", "s3", None, None),
        ("s3a://bucket/x/", "storage", "s3", "s3://bucket/x", None),
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


def test_the_uri_wins_over_the_toml_and_either_may_set_a_value_alone(
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


def test_open_protocol_is_the_default_on_kafka(declare: Callable[..., Changefeed]) -> None:
    assert declare("kafka://a:1/t").protocol == "open-protocol"
    assert declare("kafka://a:1/t?protocol=default").protocol == "open-protocol"


def test_the_claim_check_storage_of_the_entry_wins_over_the_toml(
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


def test_declared_keys_are_read() -> None:
    keys = {"shop.stock": ["sku", "warehouse"], "a.b.c": ["id"]}
    feed = changefeed_from_uri(CSV, keys=keys)
    assert feed.keys == {"shop.stock": ("sku", "warehouse"), "a.b.c": ("id",)}
    assert hash(feed) == hash(pickle.loads(pickle.dumps(feed)))


def test_the_changefeeds_file_is_found_by_option_environment_or_working_directory(
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
def test_booleans_in_the_uri_are_read_as_go_does(truth: bool) -> None:
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
def test_durations_in_the_uri_are_read_as_go_does(h: int, m: int, s: object, ms: int) -> None:
    feed = changefeed_from_uri(f"{CSV}&flush-interval={h}h{m}m{s}s{ms}ms")
    assert feed.flush_interval == pytest.approx(h * 3600 + m * 60 + float(str(s)) + ms / 1000)
    assert changefeed_from_uri(f"{CSV}&flush-interval={ms}µs").flush_interval == ms * 1e-6


def test_what_ddl_takes_from_its_session_is_unknown_unless_it_is_declared(tmp_path: Path) -> None:
    path = tmp_path / "changefeeds.toml"
    path.write_text(
        f"""
        [[changefeed]]
        id = "declared"
        sink-uri = "{CSV}"
        ddl-time-zone = "Asia/Tokyo"
        default-collation = "utf8mb4_general_ci"
        [[changefeed]]
        id = "unknown"
        sink-uri = "{CSV}"
        """
    )
    declared, unknown = load_changefeeds(path).values()
    assert (declared.ddl_time_zone, declared.tz) == (ZoneInfo("Asia/Tokyo"), ZoneInfo("UTC"))
    assert declared.default_collation == "utf8mb4_general_ci"
    assert (unknown.ddl_time_zone, unknown.default_collation) == (None, None)


def test_where_a_lake_begins(tmp_path: Path) -> None:
    written = {
        "": "earliest",
        "start = 'latest'": "latest",
        "start = 2026-03-14T09:00:00+09:00": datetime(2026, 3, 14, tzinfo=UTC),
        "start = {'t-0' = 120, 't-1' = 0}": {"t-0": 120, "t-1": 0},
    }
    for number, (line, start) in enumerate(written.items()):
        path = tmp_path / f"{number}.toml"
        path.write_text(f"[[changefeed]]\nid = 'a'\nsink-uri = '{KAFKA}simple'\n{line}\n")
        assert load_changefeeds(path)["a"].start == start


def test_what_one_window_reads_of_topics(tmp_path: Path) -> None:
    path = tmp_path / "changefeeds.toml"
    path.write_text(
        f"[[changefeed]]\nid = 'a'\nsink-uri = '{KAFKA}simple'\n"
        "[[changefeed]]\nid = 'b'\nsink-uri = 'kafka://h:9092/other?protocol=simple'\n"
        "max-records = 10\nmax-bytes = 4096\n"
    )
    default, stated = load_changefeeds(path).values()
    assert (default.max_records, default.max_bytes) == (2_000_000, 1 << 30)
    assert (stated.max_records, stated.max_bytes) == (10, 4096)


@pytest.mark.parametrize("name", ["history", "changes", "iceberg"])
def test_the_tables_with_a_history_or_changes_are_listed_as_in_a_filter(
    declare: Callable[..., Changefeed], name: str
) -> None:
    assert getattr(declare(CSV), name) == ()
    declared = getattr(declare(CSV, entry=f'{name} = ["shop.*", "!shop.carts"]'), name)
    assert match_table(declared, "Shop", "orders")
    assert not match_table(declared, "shop", "carts")
    for wrong in ('"shop.*"', "[1]", '["shop"]', '["shop./(/"]'):
        with pytest.raises(ConfigError) as caught:
            declare(CSV, entry=f"{name} = {wrong}")
        assert caught.value.setting == f"changefeed feed.{name}"
