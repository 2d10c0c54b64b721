"""The golden changefeeds: every setting in them arrives, and nothing else changes."""

import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo

import pytest

from tests.changefeed.sinks import LARGE
from tests.golden import datasets, find_folder, meta, released_datasets
from ticdc_assets.changefeed import CsvDialect, Dispatcher, load_changefeeds

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
DEFAULTS: dict[str, Any] = {
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
    "catalogs": (),
    "keys": {},
    "claim_check_storage": None,
    "partition_num": None,
    "server_version": None,
    "start": "earliest",
    "max_records": 2_000_000,
    "max_bytes": 1 << 30,
    "ddl_time_zone": None,
    "default_collation": None,
    "start_ts": None,
    "keep_events_days": None,
    "filter_rules": (),
    "history": (),
    "changes": (),
    "iceberg": (),
    "layouts": (),
    "omissions": (),
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


@pytest.mark.parametrize("dataset", [*datasets(), *released_datasets()])
def test_a_golden_changefeed_loads_as_declared(dataset: str, tmp_path: Path) -> None:
    config = find_folder(dataset) / "changefeed.toml"
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
    } | DEFAULTS
    csv, omissions = asdict(CsvDialect()), list[str]()
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
        elif name == "filter.rules":
            omissions.append(name)
            expected["filter_rules"] = tuple(value)
        elif name not in CHANGES_NO_BYTE_WE_READ:
            target, _, csv_field = ARRIVES_AS[name].partition(".")
            (csv if csv_field else expected)[csv_field or target] = value
    expected["only_output_updated_columns"] = expected.get(
        "content_compatible", False
    ) or expected.get("only_output_updated_columns", False)
    csv["terminator"] = expected["terminator"]
    if feed.protocol == "csv" and not csv["output_old_value"]:
        expected["writes_updates_as_inserts"] = None
    for name in (field.name for field in fields(feed)):
        actual = getattr(feed, name)
        if name == "csv":
            assert asdict(actual) == csv
        elif name == "omissions":
            assert [omission.setting for omission in actual] == omissions
        elif name in ("options", "claim_check_options", "upstream", "copy", "privacy", "archives"):
            assert not actual
        elif name == "client_settings":
            assert not actual.values
            assert not actual.references
        else:
            assert actual == expected.get(name, False), name


def test_every_setting_of_the_golden_changefeeds_was_compared() -> None:
    assert len(datasets()) == 176
    assert len(released_datasets()) == 33
