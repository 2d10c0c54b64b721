"""Every setting of TiCDC does here what docs/settings.md says."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.changefeed.sinks import CANAL_FILES, CSV, KAFKA
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.known_settings import (
    CONNECTION,
    FOREIGN,
    KAFKA_CONNECTION,
    LISTS,
    SINK_PARAMETERS,
    TOML,
    Effect,
)
from ticdc_assets.stream.limits import describe_limits

DOCUMENT = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
ROW = re.compile(
    r"^\| (\S.*?) \| (`.+?`) \| (read|ignored|leaves data out) \| .+ \|$", re.MULTILINE
)
SAME = "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = 'claim-check'\n"
# How a setting that is read shows: sink URI, the file without it, the file with it.
SHOWN: dict[str, tuple[str, str, str]] = {
    "force-replicate": (CSV, "", "force-replicate = true"),
    "enable-old-value": (CSV, "", "enable-old-value = false"),
    "scheduler.enable-table-across-nodes": (
        CSV, "", "[scheduler]\nenable-table-across-nodes = true",
    ),
    "sink.protocol": ("kafka://a:1/t", "", "[sink]\nprotocol = 'simple'"),
    "sink.terminator": (CSV, "", "[sink]\nterminator = '\\n'".replace("'", '"')),
    "sink.date-separator": (CSV, "", "[sink]\ndate-separator = 'YEAR'"),
    "sink.enable-partition-separator": (CSV, "", "[sink]\nenable-partition-separator = false"),
    "sink.file-index-digit": (CSV, "", "[sink]\nfile-index-digit = 6"),
    "sink.only-output-updated-columns": (
        CANAL_FILES, "", "[sink]\nonly-output-updated-columns = true",
    ),
    "sink.content-compatible": (CANAL_FILES, "", "[sink]\ncontent-compatible = true"),
    "sink.delete-only-output-handle-key-columns": (
        CANAL_FILES, "", "[sink]\ndelete-only-output-handle-key-columns = true",
    ),
    "sink.dispatchers.matcher": (
        CSV, "[[sink.dispatchers]]\nmatcher = ['a.*']", "[[sink.dispatchers]]\nmatcher = ['b.*']",
    ),
    **{
        f"sink.dispatchers.{name}": (
            CSV, "[[sink.dispatchers]]", f"[[sink.dispatchers]]\n{name} = 'x'",
        )
        for name in ("dispatcher", "partition", "topic", "target-schema", "target-table")
    },
    "sink.csv.delimiter": (CSV, "", "[sink.csv]\ndelimiter = '||||'"),
    "sink.csv.quote": (CSV, "", '[sink.csv]\nquote = "\'"'),
    "sink.csv.null": (CSV, "", "[sink.csv]\nnull = ''"),
    "sink.csv.binary-encoding-method": (CSV, "", "[sink.csv]\nbinary-encoding-method = 'hex'"),
    **{
        f"sink.csv.{name}": (CSV, "", f"[sink.csv]\n{name} = true")
        for name in (
            *("include-commit-ts", "output-old-value", "output-handle-key"),
            "output-field-header",
        )
    },
    "sink.open.output-old-value": (
        KAFKA + "open-protocol", "", "[sink.open]\noutput-old-value = false",
    ),
    "sink.kafka-config.partition-num": (
        KAFKA + "simple", "", "[sink.kafka-config]\npartition-num = 2",
    ),
    "sink.kafka-config.output-raw-change-event": (
        KAFKA + "simple", "", "[sink.kafka-config]\noutput-raw-change-event = true",
    ),
    **{
        f"sink.kafka-config.{name}": (KAFKA + "simple", "", f"[sink.kafka-config]\n{name} = 'x'")
        for name in KAFKA_CONNECTION
    },
    "sink.kafka-config.codec-config.enable-tidb-extension": (
        CANAL_FILES, "", "[sink.kafka-config.codec-config]\nenable-tidb-extension = true",
    ),
    "sink.kafka-config.codec-config.encoding-format": (
        KAFKA + "simple", "", "[sink.kafka-config.codec-config]\nencoding-format = 'avro'",
    ),
    "sink.kafka-config.large-message-handle.large-message-handle-option": (
        KAFKA + "simple",
        "",
        "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = 'handle-key-only'",
    ),
    "sink.kafka-config.large-message-handle.large-message-handle-compression": (
        KAFKA + "simple",
        "",
        "[sink.kafka-config.large-message-handle]\nlarge-message-handle-compression = 'lz4'",
    ),
    "sink.kafka-config.large-message-handle.claim-check-storage-uri": (
        KAFKA + "simple",
        SAME + "claim-check-storage-uri = 'file:///a'",
        SAME + "claim-check-storage-uri = 'file:///b'",
    ),
    "sink.kafka-config.large-message-handle.claim-check-raw-value": (
        KAFKA + "simple",
        SAME + "claim-check-storage-uri = 'file:///a'",
        SAME + "claim-check-storage-uri = 'file:///a'\nclaim-check-raw-value = true",
    ),
    "sink.cloud-storage-config.flush-interval": (
        CSV, "", "[sink.cloud-storage-config]\nflush-interval = '9s'",
    ),
    **{
        f"sink.cloud-storage-config.{name}": (
            CSV, "", f"[sink.cloud-storage-config]\n{name} = true",
        )
        for name in ("output-column-id", "use-table-id-as-path", "output-raw-change-event")
    },
}  # fmt: skip
IN_URI = {
    "protocol": ("kafka://a:1/t?", "protocol=simple"),
    "enable-tidb-extension": (KAFKA + "canal-json", "&enable-tidb-extension=true"),
    "only-output-updated-columns": (KAFKA + "canal-json", "&only-output-updated-columns=true"),
    "content-compatible": (KAFKA + "canal-json", "&content-compatible=true"),
    "encoding-format": (KAFKA + "simple", "&encoding-format=avro"),
    "partition-num": (KAFKA + "simple", "&partition-num=2"),
    "flush-interval": (CSV, "&flush-interval=9s"),
    "use-table-id-as-path": (CSV, "&use-table-id-as-path=true"),
}


def documented() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for where, names, effect in ROW.findall(DOCUMENT):
        for name in re.findall(r"`([^`]+)`", names):
            place = where.strip("`")
            assert found.setdefault((place, name), effect) == effect
    return found


def of_effect(effect: Effect) -> list[tuple[str, str]]:
    return [
        (table, name) for table, names in TOML.items() for name in names if names[name] == effect
    ]


def test_the_document_and_the_code_know_the_same_settings_and_effects() -> None:
    known = {
        (table or "top", name): effect
        for table, names in TOML.items()
        for name, effect in names.items()
    }
    known |= {("sink URI", name): effect for name, effect in SINK_PARAMETERS.items()}
    assert documented() == known
    connection = DOCUMENT[DOCUMENT.index("Besides,") :]
    assert {
        name for name in CONNECTION - KAFKA_CONNECTION if f"`{name}`" not in connection
    } == set()
    assert {name for name in FOREIGN if f"`{name}`" not in connection} == set()


@pytest.mark.parametrize(("table", "name"), of_effect("read"))
def test_a_setting_that_is_read_changes_the_changefeed(
    declare: Callable[..., Changefeed], table: str, name: str
) -> None:
    uri, without, with_it = SHOWN[f"{table}.{name}" if table else name]
    assert name in with_it
    assert declare(uri, with_it) != declare(uri, without)


@pytest.mark.parametrize("name", [name for name, e in SINK_PARAMETERS.items() if e == "read"])
def test_a_parameter_that_is_read_changes_the_changefeed(
    declare: Callable[..., Changefeed], name: str
) -> None:
    uri, parameter = IN_URI[name]
    assert name in parameter
    assert declare(uri + parameter) != declare(uri)


@pytest.mark.parametrize("uri", [CSV, CANAL_FILES, KAFKA + "simple", KAFKA + "open-protocol"])
def test_an_ignored_setting_changes_nothing(declare: Callable[..., Changefeed], uri: str) -> None:
    plain = declare(uri)
    for table, name in of_effect("ignored"):
        header = f"[[{table}]]" if table in LISTS else f"[{table}]" if table else ""
        for value in ("true", "1", "'x'"):
            # A list of tables has one more member, whatever that says.
            expected = declare(uri, header) if table in LISTS else plain
            assert declare(uri, f"{header}\n{name} = {value}") == expected, (table, name)
    for name in (name for name, effect in SINK_PARAMETERS.items() if effect == "ignored"):
        assert declare(f"{uri}&{name}=1") == plain, name


@pytest.mark.parametrize(("table", "name"), of_effect("leaves data out"))
def test_a_setting_that_leaves_data_out_is_a_note(
    declare: Callable[..., Changefeed], table: str, name: str
) -> None:
    header = f"[[{table}]]" if table in LISTS else f"[{table}]" if table else ""
    value = {
        "rules": "['shop.*']",
        "ignore-txn-start-ts": "[1]",
        "file-expiration-days": "7",
        "bdr-mode": "true",
        "enable-active-active": "true",
        "ignore-ineligible-table": "true",
    }.get(name, "['x']")
    plain = describe_limits(declare(CSV))
    notes = describe_limits(declare(CSV, f"{header}\n{name} = {value}"))
    (note,) = [note for note in notes if note not in plain]
    assert (table if table in LISTS else name) in note
    # A filter of tables or columns, or a deleted file, lets no row be inserted twice.
    hides_deletes = {"event-filters", "ignore-txn-start-ts", "bdr-mode", "enable-active-active"}
    feed = declare(CSV, f"{header}\n{name} = {value}")
    assert feed.may_lack_deletes == bool(hides_deletes & {name, table.rpartition(".")[2]})


def test_what_leaves_nothing_out_is_no_note(declare: Callable[..., Changefeed]) -> None:
    config = """
        bdr-mode = false
        ignore-ineligible-table = true
        force-replicate = true
        [filter]
        rules = ["*.*"]
        ignore-txn-start-ts = []
        [sink]
        date-separator = "none"
        [sink.cloud-storage-config]
        file-expiration-days = 3
    """
    assert declare(CSV, config).omissions == ()
