"""Rules for columns through DDL, changed rules and changed keys; no byte of a value stays."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.lake.addresses import need_none
from tests.lake.canal import FEED, change, ddl, placed, watermark
from tests.lake.privately import KEY, find_in_files, write_hash, write_mask
from tests.lake.upstream_copy import UpstreamCopy, read_images, read_schema
from tests.mariadb_server import MariaDb
from ticdc_assets.changefeed.privacy import read_privacy
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.advance import (
    AdvanceResult,
    RecordSource,
    advance,
    decode_again,
    replay_tables,
)
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.privacy import protect_schema
from ticdc_assets.views.asof import as_of

VARIABLE = "TESTS_PRIVACY"
EMAIL, PHONE, NOTE = "ann@example.com", "+4915112345678", "a note about ann"
CREATE = (
    "CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(80), phone VARCHAR(20), note VARCHAR(80))"
)
T = {"tables": ["d.t"], "keep": ["id"], "hash": ["email"], "mask": ["phone"]}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


class PrivateFeed:
    """A changefeed of the tables d.t and d.u under rules."""

    def __init__(
        self,
        folder: Path,
        *entries: dict[str, Any],
        raw: str = "encrypted",
        spark: SparkSession | None = None,
    ) -> None:
        self.folder = folder / "lake"
        self._session = need_none if spark is None else spark
        self._sent: list[Message] = []
        self.ts = 0
        self.declare(*entries, raw=raw)

    def declare(self, *entries: dict[str, Any], raw: str = "encrypted") -> None:
        table = {"key-env": VARIABLE, "raw": raw, "table": list(entries)}
        privacy = read_privacy(table, has_records=True)
        feed = dataclasses.replace(FEED, privacy=privacy)
        self.lake = LakeSession(self._session, Lake(str(self.folder), FEED.id), feed)

    def put(self, id: int, table: str = "t", **values: str) -> None:
        self.ts += 10
        self._sent.append(change("INSERT", "d", table, self.ts, {"id": str(id), **values}))

    def send(self, *messages: Message) -> None:
        self._sent += messages

    def run_ddl(self, sql: str, kind: str = "ALTER", table: str = "t") -> None:
        self.ts += 10
        self._sent.append(ddl("d", table, self.ts, kind, sql))

    def advance(self) -> AdvanceResult:
        self._sent.append(watermark(self.ts + 9))
        return advance(self.lake, self.source())

    def source(self) -> RecordSource:
        return RecordSource(lambda _: placed(self._sent))

    def rows(self, name: str = "t") -> list[dict[str, str | None]]:
        shown = as_of(self.lake, None)
        (table,) = (t for t in shown.tables() if t.schema.table == name)
        return [msgspec.json.decode(line) for line in shown.lines(table)]

    def stored(self) -> list[dict[str, Any]]:
        """Return the rows at the address, as any engine reads them."""
        return DeltaTable(self.lake.location.address("d", "t")).to_pyarrow_table().to_pylist()

    def reason(self, name: str = "t") -> str | None:
        tables = read_last_snapshot(self.lake).state.incarnations.values()
        (table,) = (t for t in tables if t.schema.table == name and t.status != "dropped")
        return table.reason if table.status == "paused" else None

    def find(self, *values: str) -> dict[str, set[str]]:
        return find_in_files(self.folder, values)


def _ann(feed: PrivateFeed) -> None:
    feed.run_ddl(CREATE, "CREATE")
    feed.put(1, email=EMAIL, phone=PHONE, note=NOTE)


def test_what_no_list_names_is_left_out_and_reported(tmp_path: Path) -> None:
    feed = PrivateFeed(tmp_path, T)
    _ann(feed)
    done = feed.advance()
    assert feed.rows() == [{"id": "1", "email": write_hash(EMAIL), "phone": write_mask(PHONE)}]
    (problem,) = done.applied.problems
    assert (problem.kind, problem.table, problem.data_may_differ) == ("privacy", "t", False)
    assert problem.reason.endswith(": note")
    assert feed.find(EMAIL, PHONE, NOTE, KEY) == {}


def test_plain_records_are_in_raw_and_nowhere_else(tmp_path: Path) -> None:
    feed = PrivateFeed(tmp_path, T, raw="plain")
    _ann(feed)
    feed.advance()
    assert {Path(path).parent.name for path in feed.find(EMAIL, PHONE, NOTE)} == {"raw"}


def test_a_column_that_is_renamed_away_from_its_rule_is_not_stored(tmp_path: Path) -> None:
    feed = PrivateFeed(tmp_path, T)
    _ann(feed)
    feed.run_ddl("ALTER TABLE t RENAME COLUMN email TO mail")
    feed.put(2, mail="bob@example.com", phone=PHONE, note=NOTE)
    feed.advance()
    assert feed.rows() == [
        {"id": "1", "phone": write_mask(PHONE)},
        {"id": "2", "phone": write_mask(PHONE)},
    ]
    assert feed.find(EMAIL, "bob@example.com", PHONE, NOTE) == {}


def test_ddl_leaves_hashes_and_masks_as_they_are_where_the_texts_are_the_same(
    tmp_path: Path,
) -> None:
    both = {**T, "hash": ["email", "mail", "code"], "mask": ["phone", "tag"], "null": ["note"]}
    feed = PrivateFeed(tmp_path, both)
    _ann(feed)
    feed.run_ddl("ALTER TABLE t MODIFY COLUMN email VARCHAR(200) NOT NULL")
    feed.run_ddl("ALTER TABLE t CHANGE COLUMN email mail VARCHAR(250)")
    feed.run_ddl("ALTER TABLE t ADD COLUMN code INT NOT NULL DEFAULT 7, ADD COLUMN tag VARCHAR(9)")
    feed.run_ddl("ALTER TABLE t MODIFY COLUMN note INT")
    row = {"id": "2", "mail": EMAIL, "phone": PHONE, "note": "5", "code": "7", "tag": "x"}
    feed.ts += 10
    feed.send(change("INSERT", "d", "t", feed.ts, row, note="int", code="int"))
    feed.advance()
    same = {"mail": write_hash(EMAIL), "phone": write_mask(PHONE), "note": None}
    assert feed.rows() == [
        {"id": "1", **same, "code": write_hash("7"), "tag": None},
        {"id": "2", **same, "code": write_hash("7"), "tag": "*"},
    ]
    assert feed.find(EMAIL, PHONE, NOTE) == {}


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("ALTER TABLE t MODIFY COLUMN phone BIGINT", "column phone from VARCHAR to BIGINT"),
        ("ALTER TABLE t RENAME COLUMN email TO id2", "email with the rule hash to id2"),
        ("ALTER TABLE t RENAME COLUMN note TO phone2", "note with the rule drop to phone2"),
    ],
)
def test_ddl_that_the_stored_values_cannot_follow_pauses_the_table(
    tmp_path: Path, sql: str, said: str
) -> None:
    feed = PrivateFeed(tmp_path, {**T, "keep": ["id", "id2"], "mask": ["phone", "phone2"]})
    _ann(feed)
    feed.advance()
    before = feed.stored()
    feed.run_ddl(sql)
    feed.put(2, email=EMAIL, phone=PHONE)
    feed.advance()
    assert said in (feed.reason() or "")
    assert feed.stored() == before
    assert feed.find(EMAIL, PHONE, NOTE) == {}


def test_a_table_that_gets_a_name_with_other_rules_is_paused_and_goes_unstored(
    tmp_path: Path,
) -> None:
    feed = PrivateFeed(tmp_path, T)
    _ann(feed)
    feed.run_ddl("RENAME TABLE t TO u", "RENAME", "u")
    feed.put(2, "u", email="bob@example.com", phone=PHONE)
    feed.advance()
    assert "other rules" in (feed.reason("u") or "")
    assert feed.find(EMAIL, "bob@example.com", PHONE, NOTE) == {}

    # The other tables go on, and this one does not go on from events of two sets of rules.
    feed.declare(T, {**T, "tables": ["d.u"]})
    feed.advance()
    applied = read_last_snapshot(feed.lake)
    request = ReplayRequest(frozenset(applied.state.incarnations), 0)
    with pytest.raises(ConfigError, match=r"rebuild d\.u --from-raw"):
        replay_tables(feed.lake, applied, request, lambda *_: None)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({**T, "keep": [], "drop": ["id"]}, "column id is in its key"),
        ({**T, "keep": [], "null": ["id"]}, "column id is in its key"),
        ({**T, "keep": []}, "no entry of [[changefeed.privacy.table]] keeps it"),
        ({**T, "tables": ["d.other"]}, "no entry of [[changefeed.privacy.table]] selects"),
        ({**T, "keep": ["id", "email"], "hash": ["born"]}, "column born is DATETIME"),
    ],
)
def test_rules_that_a_table_cannot_have_pause_it_and_say_why(
    tmp_path: Path, entry: dict[str, Any], said: str
) -> None:
    feed = PrivateFeed(tmp_path, entry)
    feed.run_ddl(CREATE.replace("note VARCHAR(80)", "born DATETIME"), "CREATE")
    feed.put(1, email=EMAIL, phone=PHONE, born="2024-01-01 10:00:00")
    feed.advance()
    assert said in (feed.reason() or "")
    assert feed.find(PHONE, "2024-01-01 10:00:00") == {}


def test_a_hashed_key_finds_its_rows_again(tmp_path: Path) -> None:
    feed = PrivateFeed(tmp_path, {"tables": ["d.*"], "hash": ["id"], "keep": ["email"]})
    _ann(feed)
    feed.put(2, email="b")
    feed.advance()
    feed.ts += 10
    row = {"id": "1", "email": "new"}
    feed.send(change("UPDATE", "d", "t", feed.ts, row, {"email": EMAIL}))
    feed.ts += 10
    feed.send(change("DELETE", "d", "t", feed.ts, {"id": "2", "email": "b"}))
    feed.advance()
    assert feed.rows() == [{"id": write_hash("1"), "email": "new"}]


def test_changed_rules_are_an_error_before_anything_is_written(tmp_path: Path) -> None:
    feed = PrivateFeed(tmp_path, T)
    _ann(feed)
    feed.advance()
    before = feed.stored()
    feed.declare({**T, "hash": [], "keep": ["id", "email"]})
    feed.put(2, email="bob@example.com", phone=PHONE)
    with pytest.raises(ConfigError, match=r"other columns of d.t now .* \(email\): decode"):
        feed.advance()
    assert feed.stored() == before


def test_events_that_are_decoded_again_follow_the_rules_of_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    entry = {"tables": ["d.t"], "keep": ["id", "email"], "mask": ["phone"]}
    feed = PrivateFeed(tmp_path, entry, raw="plain", spark=spark)
    _ann(feed)
    feed.advance()
    feed.declare({**entry, "keep": ["id", "note"], "mask": ["email"], "null": ["phone"]})
    feed.put(2, email="bob@example.com", note="n")
    applied = read_last_snapshot(feed.lake)
    ids, _ = decode_again(feed.lake, feed.source(), applied, set(applied.state.incarnations))
    request = ReplayRequest(ids, 0)
    replay_tables(feed.lake, applied, request, lambda *_: None, decoded_again=True)
    row = {"id": "1", "email": write_mask(EMAIL), "phone": None, "note": NOTE}
    assert feed.rows() == [row]
    feed.advance()
    row = {"id": "2", "email": write_mask("bob@example.com"), "phone": None, "note": "n"}
    assert feed.rows()[1:] == [row]
    # From now on, records are encrypted; those of before stay in `raw` as they are.
    assert feed.find("bob@example.com") == {}
    assert "raw" in {Path(path).parent.name for path in feed.find(EMAIL)}


def test_another_key_or_none_is_an_error_that_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = PrivateFeed(tmp_path, T)
    _ann(feed)
    feed.advance()
    before = feed.stored()
    feed.put(2, email="bob@example.com", phone=PHONE)
    errors: Sequence[tuple[str | None, str]] = (
        ("another key that is long enough, too", "is not the one that this lake was written with"),
        ("short", "has 5 characters"),
        (None, f"there is no environment variable {VARIABLE}"),
    )
    for key, said in errors:
        monkeypatch.delenv(VARIABLE, raising=False)
        if key is not None:
            monkeypatch.setenv(VARIABLE, key)
        with pytest.raises(ConfigError, match=said) as error:
            feed.advance()
        assert key is None or key == "short" or key not in str(error.value)
    assert feed.stored() == before


def test_input_that_cannot_be_decoded_leaves_no_value_behind(tmp_path: Path) -> None:
    feed = PrivateFeed(tmp_path, {"tables": ["d.t"], "keep": ["id", "day"], "hash": ["email"]})
    feed.run_ddl("CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(80), day DATE)", "CREATE")
    broken = change("INSERT", "d", "t", 15, {"id": "1", "email": EMAIL, "day": "2024-01-01"})
    feed.send(Message("t", 0, 0, None, (broken.value or b"")[:-9], 1))
    # A value that the column cannot have.
    feed.put(2, email=EMAIL, day="no day")
    assert feed.advance().applied.quarantined == 1
    reader = LakeReader(feed.lake.location)
    found = reader.read(reader.open("quarantine"), ["stage", "raw"]).to_pylist()
    assert {row["stage"] for row in found} == {"decode", "apply"}
    assert feed.find(EMAIL) == {}


def test_verify_compares_what_is_stored_as_it_is_and_says_what_not(
    tmp_path: Path, mariadb: MariaDb
) -> None:
    people = "CREATE TABLE people (id int PRIMARY KEY, name varchar(20), v int, w int)"
    by_name = "CREATE TABLE by_name (name varchar(20) PRIMARY KEY, v int)"
    mariadb.run("CREATE DATABASE p CHARACTER SET utf8mb4", "USE p", people, by_name)
    insert = "INSERT INTO people SELECT seq, CONCAT('name', seq), seq, 1 FROM seq_1_to_20"
    mariadb.run("USE p", insert, "INSERT INTO by_name VALUES ('ann', 1)")
    entries = [{"tables": ["p.*"], "keep": ["id", "v"], "hash": ["name"]}]
    privacy = read_privacy({"key-env": VARIABLE, "table": entries}, has_records=False)
    copy = UpstreamCopy.make(None, tmp_path / "lake", mariadb)
    for statement in (people, by_name):
        schema = read_schema("p", statement)
        images = [
            {**image, "name": write_hash(image["name"] or "")}
            for image in read_images(mariadb, schema)
        ]
        for image in images:
            image.pop("w", None)
        copy.put_images(protect_schema(privacy, schema), images)
    hidden, found = copy.verify()
    assert (hidden.table, hidden.verdict) == ("by_name", "skipped")
    assert "only hashes ([changefeed.privacy])" in (hidden.reason or "")
    assert (found.verdict, found.left_out) == ("equal", ("name", "w"))

    mariadb.run(
        "USE p",
        "UPDATE people SET name = 'another name'",
        "UPDATE people SET v = 0 WHERE id = 5",
        "INSERT INTO people VALUES (99, 'a new name', 99, 5)",
    )
    _, found = copy.verify()
    assert [(d.key, d.what, d.columns) for d in found.differences] == [
        ('{"id": "5"}', "differs", ("v",)),
        ('{"id": "99"}', "missing", ()),
    ]
    assert find_in_files(tmp_path / "lake", ["another name", "a new name", "name5"]) == {}
