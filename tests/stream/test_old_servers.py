"""Folders and rows as older servers write them, which only `server-version` tells."""

import json
import re
from pathlib import Path

import pytest

from tests.golden import GOLDEN, storage_tree
from tests.reference.golden_feeds import feed_of
from tests.truth import truth
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.events import Op, Quarantined, RowChange
from ticdc_assets.protocols.message import Message
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.stream.limits import describe_limits
from ticdc_assets.stream.problem import OLD_KEY_MISSING
from ticdc_assets.stream.reading import read_folder_events, read_topic_events

DATASET = "lifecycle/storage-csv-full"
TS = 437752935075545091
COLUMNS = [
    {"ColumnName": "Id", "ColumnType": "INT", "ColumnNullable": "false", "ColumnIsPk": "true"},
    {"ColumnName": "LastName", "ColumnType": "CHAR", "ColumnLength": "20"},
]
CREATE = "create table tbl_1 (Id int primary key, LastName char(20))"
FIRST = ("6.5.0", "6.5.2", "v6.6.0", "7.0.0")


def schema_file(columns: list[dict[str, str]], query: str, **more: object) -> bytes:
    """A schema file as TiCDC's guide for consumers shows it."""
    content = {
        "Table": "tbl_1",
        "Schema": "test",
        "Version": 1,
        "TableVersion": TS,
        "Query": query,
        "TableColumns": columns,
        "TableColumnsTotal": str(len(columns)),
    }
    return json.dumps({**content, **more}).encode()


def csv_feed(server: str | None, **more: str) -> Changefeed:
    uri = "file:///data?protocol=csv"
    return changefeed_from_uri(uri, server_version=server, keys=None, **more)  # type: ignore[arg-type]


def replayed(feed: Changefeed, tree: dict[str, bytes]) -> ModelReplay:
    replay = ModelReplay(feed)
    replay.add(read_folder_events(feed, tree, tree.__getitem__))
    return replay


def state(replay: ModelReplay) -> dict[str, list[bytes] | None]:
    return {
        f"{table.schema.database}.{table.schema.table}": (
            encode_rows(table) if table.pause_reason is None else None
        )
        for table in replay.model.tables
    }


def folder(
    lines: str, columns: list[dict[str, str]] = COLUMNS, create: str = CREATE
) -> dict[str, bytes]:
    """The folder of one table, with the defaults of the first servers."""
    place = f"test/tbl_1/{TS}"
    return {
        "metadata": json.dumps({"checkpoint-ts": TS + 10}).encode(),
        f"{place}/schema.json": schema_file(columns, create, Type=3),
        f"{place}/CDC000001.csv": lines.replace("\n", "\r\n").encode(),
        f"{place}/CDC.index": b"CDC000001.csv\n",
    }


@pytest.mark.parametrize("server", FIRST)
def test_the_folders_of_the_first_servers_are_read_with_their_defaults(server: str) -> None:
    tree = folder(
        '"I","tbl_1","test",1,"Smith"\n"D","tbl_1","test",1,"Smith"\n"I","tbl_1","test",2,"Li"\n'
    )
    replay = replayed(csv_feed(server), tree)
    replay.advance(replay.default_ts)
    assert state(replay) == {"test.tbl_1": [b'{"Id":"2","LastName":"Li"}\n']}
    assert replay.problems() == []


def test_a_folder_of_the_first_servers_is_what_a_newer_one_is(tmp_path: Path) -> None:
    tree = {
        re.sub(r"/meta/schema_(\d+)_\d+\.json$", r"/\1/schema.json", path)
        if path.count("/") == 3
        else path: content
        for path, content in storage_tree(DATASET).items()
    }
    assert sum(path.endswith("/schema.json") for path in tree) > 50
    config = tmp_path / "changefeed.toml"
    declared = (GOLDEN / DATASET / "changefeed.toml").read_text()
    assert 'date-separator = "none"' in declared
    without = declared.replace('date-separator = "none"', "")
    config.write_text(without)
    ours = replayed(csv_feed("6.5.2", config=config), tree)  # type: ignore[arg-type]
    newer = replayed(feed_of(DATASET), storage_tree(DATASET))
    for ts in sorted(truth("lifecycle")):
        ours.advance(ts)
        newer.advance(ts)
        assert state(ours) == state(newer)
    assert ours.problems() == newer.problems() == []


def test_without_the_server_version_the_message_names_it() -> None:
    events = list(read_folder_events(csv_feed(None), tree := folder("\n"), tree.__getitem__))
    (wrong,) = [event for event in events if isinstance(event, Quarantined)]
    assert "declare server-version" in wrong.reason


@pytest.mark.parametrize(
    ("server", "op", "splits_keys"),
    [
        ("6.5.0", Op.INSERT, False),
        ("6.5.2", Op.INSERT, False),
        ("6.5.3", Op.UPSERT, True),
        ("6.5.12", Op.UPSERT, True),
        ("6.6.0", Op.INSERT, False),
        ("7.1.0", Op.INSERT, False),
        ("7.1.1", Op.UPSERT, True),
        ("7.4.0", Op.INSERT, False),
        ("7.5.7", Op.INSERT, True),
        ("8.5.4-release.1", Op.INSERT, True),
        (None, Op.INSERT, True),
    ],
)
def test_updates_in_csv_are_what_the_server_makes_of_them(
    server: str | None, op: Op, splits_keys: bool
) -> None:
    feed = csv_feed(server)
    tree = folder('"I","tbl_1","test",1,"Smith"\n')
    tree = {
        path.replace(f"/{TS}/CDC", f"/{TS}/2024-01-02/CDC"): data for path, data in tree.items()
    }
    if feed.date_separator == "none":
        tree = folder('"I","tbl_1","test",1,"Smith"\n')
    events = read_folder_events(feed, tree, tree.__getitem__)
    assert [event.op for event in events if isinstance(event, RowChange)] == [op]
    assert feed.output_raw_change_event is not splits_keys


def test_an_old_server_without_old_values_splits_updates_of_keys(tmp_path: Path) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text("enable-old-value = false")
    for server in ("6.5.0", "7.1.0"):
        feed = csv_feed(server, config=config)  # type: ignore[arg-type]
        assert feed.writes_updates_as_inserts
        assert not feed.output_raw_change_event
    uri = "dump:///x.jsonl?protocol=open-protocol"
    declared = {
        server: changefeed_from_uri(uri, server_version=server, config=config).open_output_old_value
        for server in ("6.5.12", None, "7.5.0")
    }
    assert declared == {"6.5.12": False, None: False, "7.5.0": True}


def test_a_key_that_an_old_server_changes_without_saying_so_pauses_its_table() -> None:
    tree = folder('"I","tbl_1","test",1,"Smith"\n"U","tbl_1","test",2,"Smith"\n')
    replay = replayed(csv_feed("6.5.0"), tree)
    replay.advance(replay.default_ts)
    (table,) = replay.model.tables
    assert table.pause_reason is not None
    assert OLD_KEY_MISSING in table.pause_reason


def test_what_the_server_may_do_is_a_note() -> None:
    assert "declare server-version" in " ".join(describe_limits(csv_feed(None)))
    assert "may be an update" in " ".join(describe_limits(csv_feed("6.5.12")))
    assert "no database-level DDL" in " ".join(describe_limits(csv_feed("6.5.0")))
    assert not any("server" in limit for limit in describe_limits(csv_feed("8.5.0")))
    simple = "dump:///x.jsonl?protocol=simple"
    for server, is_noted in (
        (None, True),
        ("8.5.7", True),
        ("8.5.8", False),
        ("8.5.4-release.1", False),
    ):
        limits = describe_limits(changefeed_from_uri(simple, server_version=server))
        assert any("names of other columns" in limit for limit in limits) is is_noted


def test_a_value_that_a_server_put_under_the_wrong_name_is_quarantined_where_its_type_shows() -> (
    None
):
    def message(**fields: object) -> Message:
        value = json.dumps({"version": 1, "buildTs": 6, **fields}).encode()
        return Message("t", 0, fields["commitTs"], None, value)  # type: ignore[arg-type]

    types = {"id": "int", "name": "varchar", "born": "date"}
    schema = {
        "schema": "d",
        "table": "t",
        "tableID": 9,
        "version": 7,
        "columns": [{"name": n, "dataType": {"mysqlType": t}} for n, t in types.items()],
        "indexes": [{"name": "primary", "unique": True, "primary": True, "columns": ["id"]}],
    }
    row = {"database": "d", "table": "t", "type": "INSERT", "schemaVersion": 7}
    mixed_up = {"id": "2", "name": "2001-01-01", "born": "Li"}
    feed = changefeed_from_uri("dump:///x.jsonl?protocol=simple", server_version="8.5.7")
    sent = [
        message(type="BOOTSTRAP", commitTs=0, tableSchema=schema),
        message(**row, commitTs=8, data={"id": "1", "name": "Smith", "born": "2000-01-01"}),
        message(**row, commitTs=9, data=mixed_up),
        message(type="WATERMARK", commitTs=10),
    ]
    replay = ModelReplay(feed)
    replay.add(read_topic_events(feed, sent, None))
    replay.advance(replay.default_ts)
    assert state(replay) == {"d.t": [b'{"id":"1","name":"Smith","born":"2000-01-01"}\n']}
    (problem,) = replay.problems()
    assert (problem.kind, problem.commit_ts) == ("quarantined", 9)


def test_an_insert_that_may_be_an_update_pauses_a_table_without_a_key() -> None:
    columns = [{"ColumnName": "a", "ColumnType": "INT"}]
    tree = folder('"I","tbl_1","test",1\n', columns, "create table tbl_1 (a int)")
    tree = {
        path.replace(f"/{TS}/CDC", f"/{TS}/2024-01-02/CDC"): data for path, data in tree.items()
    }
    replay = replayed(csv_feed("6.5.12"), tree)
    replay.advance(replay.default_ts)
    assert state(replay) == {"test.tbl_1": None}
