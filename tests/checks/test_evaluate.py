"""All checks over a small lake: they pass on valid data and fail where a test corrupts it."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import dagster as dg
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession

from tests.lake.canal import ddl, row, watermark
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.checks import SnapshotRange, check_specs, evaluate_checks
from ticdc_assets.checks.invariants import CheckContext, NotEvaluated, current
from ticdc_assets.checks.invariants.current import (
    columns_match_schema_history,
    keys_are_unique,
    row_count_matches_events,
    table_is_live,
)
from ticdc_assets.checks.results import make_status_evaluation
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.advance import RecordSource, advance, replay_tables
from ticdc_assets.log.applied import read_last_snapshot, write_snapshot
from ticdc_assets.naming import layer_asset_key
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.restores import restore
from ticdc_assets.store.sql import quote_identifier
from ticdc_assets.stream.problem import CREATE_NOT_SENT

FEED = changefeed_from_uri(
    "kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=true", id="f"
)
# A name of characters that need quoting somewhere.
HOSTILE = "b/`'\".ü"
NAMES = ("a", HOSTILE)
UNKNOWN = "ALTER TABLE `a` FROBNICATE ALL"


class GrowingLake(NamedTuple):
    """A lake over a topic to which a test appends messages."""

    session: LakeSession
    messages: list[Message]

    def run(self, *messages: Message) -> SnapshotRange:
        """Advance, and return the range of snapshots."""
        since = read_last_snapshot(self.session).snapshot_id if self.messages else 0
        self.messages.extend(messages)
        sent = [Message("t", 0, n, None, m.value, 1) for n, m in enumerate(self.messages)]
        advance(self.session, RecordSource(lambda _: sent))
        return SnapshotRange(since, read_last_snapshot(self.session).snapshot_id)

    def results(
        self,
        changed: SnapshotRange,
        selected: Collection[dg.AssetCheckKey] | None = None,
        had_failed: Collection[str] = (),
    ) -> dict[str, dg.AssetCheckEvaluation]:
        found = evaluate_checks(
            *(self.session, changed, keys(), selected),
            lambda check: _short(check) in had_failed,
        )
        return {_short(one.asset_check_key): one for one in found}

    def write_snapshot_at(self, incarnation: str, version: int) -> SnapshotRange:
        """Write a snapshot that names another Delta version of a table, as no run would."""
        before = read_last_snapshot(self.session)
        line = self.session.read("applied").where(f"snapshot_id = {before.snapshot_id}")
        after = write_snapshot(
            self.session,
            before,
            before.state,
            batch=before.batch,
            decoded_batch=before.decoded_batch,
            versions={incarnation: version},
            watermarks=line.collect()[0]["watermarks"],
            counts=(),
        )
        return SnapshotRange(before.snapshot_id, after.snapshot_id)

    def context_at(self, incarnation: str, version: int, changed: SnapshotRange) -> CheckContext:
        """Return a context in which a table is at another version."""
        context = CheckContext(self.session, changed)
        versions = {**context.after.versions, incarnation: version}
        context.after = replace(context.after, versions=versions)
        return context


def _discard_progress(*_: object) -> None:
    """Discard progress."""


def _short(check: dg.AssetCheckKey) -> str:
    return f"{check.asset_key.path[-1]}: {check.name}"


def keys() -> dict[str, dg.AssetKey]:
    return {
        make_table_name("d", name) or "": dg.AssetKey(["f", "current", "d", str(n)])
        for n, name in enumerate(NAMES)
    }


@pytest.fixture(scope="module")
def growing_lake(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[GrowingLake, SnapshotRange]:
    root: Path = tmp_path_factory.mktemp("checks")
    lake = GrowingLake(LakeSession(spark, Lake(str(root / "lake"), FEED.id), FEED), [])
    made = [ddl("d", "a", 10, "CREATE", "CREATE TABLE `a` (`id` INT PRIMARY KEY, `v` VARCHAR(20))")]
    name = HOSTILE.replace("`", "``")
    made.append(ddl("d", HOSTILE, 10, "CREATE", f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY)"))
    lake.run(*made, row("d", "a", 20, id="1", v="x"), row("d", HOSTILE, 20, id="1"), watermark(30))
    changed = lake.run(row("d", "a", 40, id="2", v="y"), watermark(50))
    return lake, changed


def test_every_check_passes_on_valid_data(growing_lake: tuple[GrowingLake, SnapshotRange]) -> None:
    lake, changed = growing_lake
    whole = lake.results(SnapshotRange(0, changed.through))
    assert [(name, r.description) for name, r in whole.items() if not r.passed] == []
    assert len(whole) == len(check_specs(FEED, keys()))
    # The second range changed one of the tables: the other gets no result.
    new = lake.results(changed)
    assert [(name, r.description) for name, r in new.items() if not r.passed] == []
    assert {name.partition(":")[0] for name in new} >= {"0", "events", "checkpoints"}
    assert not any(name.startswith("1:") for name in new)
    assert not [name for name, r in new.items() if "ticdc/not_evaluated" in r.metadata]
    one = {dg.AssetCheckKey(layer_asset_key(FEED, "events"), "inserts_have_no_old_value")}
    assert list(lake.results(changed, one)) == ["events: inserts_have_no_old_value"]
    assert lake.results(SnapshotRange(changed.through, changed.through)) == {}


def test_a_corrupted_table_fails_its_checks(
    growing_lake: tuple[GrowingLake, SnapshotRange], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, changed = growing_lake
    applied = read_last_snapshot(lake.session)
    (id,) = [i for i, t in applied.state.incarnations.items() if t.schema.table == "a"]
    path = f"delta.{quote_identifier(lake.session.current_path(id))}"
    version = applied.versions[id]
    found: list[Any] = []
    try:
        lake.session.spark.sql(f"INSERT INTO {path} VALUES (1, 'again', 45)")
        lake.session.spark.sql(f"ALTER TABLE {path} ADD COLUMNS (surplus INT AFTER id)")
        with lake.context_at(id, version + 2, changed) as context:
            for invariant in (
                keys_are_unique,
                row_count_matches_events,
                columns_match_schema_history,
            ):
                violations = invariant.find(context, [applied.state.incarnations[id]])[id]
                assert not isinstance(violations, NotEvaluated)
                found.append([tuple(line.asDict().values()) for line in violations.collect()])
            # Large tables take another path.
            monkeypatch.setattr(current, "MANY_ROWS", 0)
            violations = keys_are_unique.find(context, [applied.state.incarnations[id]])[id]
            assert not isinstance(violations, NotEvaluated)
            assert [tuple(line.asDict().values()) for line in violations.collect()] == found[0]
    finally:
        restore(lake.session.location, f"current/{id}", version + 2, version)
    assert found[0] == [("1", 2, 45)]
    assert found[1] == [(1, 1, 0, 2, 3)]
    assert found[2][0] == (2, "v string", "surplus int")


def test_a_failed_table_is_rechecked_in_full_until_it_passes_or_is_replayed(
    growing_lake: tuple[GrowingLake, SnapshotRange],
) -> None:
    lake, _ = growing_lake
    state = read_last_snapshot(lake.session).state
    (id,) = [i for i, t in state.incarnations.items() if t.schema.table == "a"]
    path = f"delta.{quote_identifier(lake.session.current_path(id))}"
    lake.session.spark.sql(f"INSERT INTO {path} VALUES (1, 'again', 45)")
    tampered = lake.write_snapshot_at(id, read_last_snapshot(lake.session).versions[id] + 1)
    wrong = {"0: keys_are_unique", "0: row_count_matches_events"}
    chosen = {spec.key for spec in check_specs(FEED, keys()) if spec.asset_key in keys().values()}
    found = lake.results(SnapshotRange(0, tampered.through), chosen)
    assert {name for name, one in found.items() if not one.passed} == wrong

    # The next range does not contain the corruption; only a recheck finds it.
    changed = lake.run(row("d", "a", 52, id="7", v="w"), watermark(54))
    assert {name for name, one in lake.results(changed, chosen).items() if not one.passed} == set()
    found = lake.results(changed, chosen, wrong)
    assert {name for name, one in found.items() if not one.passed} == wrong
    rows = found["0: row_count_matches_events"].metadata["ticdc/sample"].records
    assert rows[0].data == {
        "rows_before": 0,
        "inserts": 3,
        "deletes": 0,
        "expected": 3,
        "actual": 4,
    }
    # Other tables are checked only for what changed.
    assert not any(name.startswith("1:") for name in found)

    before = read_last_snapshot(lake.session)
    replay_tables(lake.session, before, ReplayRequest(frozenset({id}), 0), _discard_progress)
    replayed = SnapshotRange(before.snapshot_id, read_last_snapshot(lake.session).snapshot_id)
    found = lake.results(replayed, chosen, wrong)
    assert {name for name, one in found.items() if not one.passed} == set()
    assert wrong <= found.keys()


def test_quarantined_input_fails_a_check_and_a_paused_table_states_how_to_resume(
    growing_lake: tuple[GrowingLake, SnapshotRange],
) -> None:
    lake, _ = growing_lake
    bad = Message("t", 0, 0, None, b'{"broken', 1)
    stop = ddl("d", "a", 60, "ALTER", UNKNOWN)
    found = lake.results(lake.run(bad, stop, row("d", "a", 65, id="3", v="z"), watermark(70)))
    quarantine = found["quarantine: quarantine_is_empty"]
    assert not quarantine.passed
    assert quarantine.severity == dg.AssetCheckSeverity.ERROR
    assert quarantine.metadata["ticdc/violations"].value == 1
    (sample,) = quarantine.metadata["ticdc/sample"].records
    assert sample.data["error"] == "MalformedMessage"
    assert sample.data["position"].startswith("t-0-")
    paused = found["0: table_is_live"]
    assert not paused.passed
    assert paused.metadata["ticdc/ddl"].value == UNKNOWN
    command = f"ticdc-assets resume --lake {lake.session.location.root} --changefeed f d.a"
    assert paused.metadata["ticdc/resume_command"].value == command
    without = paused.metadata["ticdc/skip_ddl_command"].value
    assert without == f"{command} --skip-ddl"
    failed = {name for name, r in found.items() if not r.passed}
    lacking = found["quarantine: tables_lack_nothing"]
    assert lacking.severity == dg.AssetCheckSeverity.WARN
    assert failed == {
        "quarantine: quarantine_is_empty",
        "quarantine: tables_lack_nothing",
        "0: table_is_live",
    }
    # It keeps failing while the table is paused, whatever the next range holds.
    now = read_last_snapshot(lake.session).snapshot_id
    assert list(lake.results(SnapshotRange(now, now))) == ["0: table_is_live"]


def test_a_lake_table_that_violates_its_contract_fails(
    growing_lake: tuple[GrowingLake, SnapshotRange],
) -> None:
    lake, _ = growing_lake
    events, raw = (DeltaTable(lake.session.path(name)) for name in ("events", "raw"))
    through = read_last_snapshot(lake.session).snapshot_id
    events.update({"op": "'merge'"}, predicate="kind = 'row' AND commit_ts = 40")
    raw.alter.add_columns([Field("surplus", PrimitiveType("string"))])
    names = [("events", "events_matches_contract"), ("raw", "raw_matches_contract")]
    chosen = {dg.AssetCheckKey(layer_asset_key(FEED, layer), name) for layer, name in names}
    found = lake.results(SnapshotRange(0, through), chosen)
    wrong = found["events: events_matches_contract"]
    assert wrong.metadata["ticdc/violations"].value == 1
    assert "op" in str(wrong.metadata["ticdc/errors"].value)
    assert wrong.metadata["ticdc/sample"].records[0].data["commit_ts"] == 40
    assert not found["raw: raw_matches_contract"].passed


def test_every_check_has_a_promise_and_a_unique_name() -> None:
    specs = check_specs(FEED, keys())
    assert len({spec.key for spec in specs}) == len(specs)
    assert all(spec.description for spec in specs)
    assert {s.name for s in specs if s.blocking} >= {"keys_are_unique", "ledger_balances"}
    assert not any(s.blocking for s in specs if s.metadata["ticdc/severity"] == "WARN")


def test_a_partial_table_warns_and_says_what_to_do() -> None:
    schema = TableSchema("d", "a", ())
    table = Incarnation(id="a", schema=schema, created_ts=1, partial_reason=CREATE_NOT_SENT)
    context = cast("CheckContext", SimpleNamespace(lake=None))
    (violations,) = table_is_live.find(context, [table]).values()
    key = dg.AssetCheckKey(dg.AssetKey("a"), table_is_live.name)
    found = make_status_evaluation(key, violations, table_is_live, "snapshot 1")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["ticdc/status"].value == "partial"
    assert (found.description or "").startswith("partial: the changefeed did not send")
    assert "ticdc/correct_up_to" not in found.metadata
