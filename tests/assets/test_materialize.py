"""Which assets Dagster shows as stale after runs, and which data versions runs state."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from tests.assets.scripted import stale_statuses
from tests.made_lake import schema, write_snapshot, write_tables
from ticdc_assets import definitions
from ticdc_assets.assets import materialize, metadata
from ticdc_assets.assets.materialize import DagsterEvents, GraphAssets, Materializer
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.lake.advance import AdvanceResult
from ticdc_assets.lake.apply.apply import ApplyResult
from ticdc_assets.lake.events.event_commits import DecodeResult
from ticdc_assets.lake.raw.ingest_records import IngestResult
from ticdc_assets.log.applied_row import AppliedRow
from ticdc_assets.log.catalog import LakeCatalog, LakeTable, SchemaVersionEntry
from ticdc_assets.naming import FeedNames
from ticdc_assets.run import AdvanceReport
from ticdc_assets.store.lake import Lake

FEED = replace(
    changefeed_from_uri("file:///data?protocol=csv", id="f"), history=("d.a",), changes=("d.a",)
)
A, B = (dg.AssetKey(["f", "current", "d", name]) for name in "ab")
HISTORIES = {"f/history/d/a.history", "f/changes/d/a.changes"}


@dg.asset(deps=[A])
def mine() -> None: ...


class World:
    """A lake of two tables, as catalogs that tests make, and the runs that report them."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.lake = Lake(str(folder), FEED.id)
        write_snapshot(self.lake, 1, 10)
        write_tables(self.lake, [schema("d", "a"), schema("d", "b")])
        graph = definitions.graph([FEED], str(folder))
        self.defs = dg.Definitions.merge(graph, dg.Definitions(assets=[mine]))
        self.instance = instance
        self.now = LakeCatalog()
        # The Delta version of `a` that its history and changes show.
        self.shown = 0

    def catalog(self, row: AppliedRow, *, status: str = "live", ddls: int = 1) -> LakeCatalog:
        tables = {
            f"t{name}": LakeTable(f"t{name}", "d", name, status, None, None, 1, None)
            for name in "ab"
        }
        versions = {**self.now.versions, **row.versions}
        steps = [SchemaVersionEntry("ta", "d", "a", n, "3", f"DDL {n}") for n in range(ddls)]
        steps += [SchemaVersionEntry("tb", "d", "b", 0, "3", "DDL")]
        return LakeCatalog(tables, row, versions, steps)

    def report(self, after: LakeCatalog, *rows: AppliedRow, came: int = 1) -> list[str]:
        """Run a job that reports a change; return what it materializes."""
        before, self.now = self.now, after
        result = AdvanceResult(
            IngestResult(1, 1, 5, 1),
            DecodeResult(came, 0, 0, (), 5, 1, 1),
            ApplyResult(after.ts, rows=came),
        )
        report = AdvanceReport(
            feed=FEED,
            lake=self.lake,
            before=before,
            after=after,
            snapshots=rows,
            seconds=1.0,
            result=result,
            session="",
        )

        @dg.op(out=dg.Out(dg.Nothing, is_required=False))
        def apply(context: dg.OpExecutionContext) -> DagsterEvents:
            keys = self.defs.resolve_asset_graph().get_all_asset_keys()
            materializer = Materializer(context, report, GraphAssets(FeedNames(FEED), keys))
            yield from materializer.materialize_layers(report)
            yield from materializer.materialize_tables(SimpleNamespace(), 0)
            yield from materializer.materialize_checkpoints(report)

        @dg.job
        def job() -> None:
            apply()

        done = job.execute_in_process(instance=self.instance)
        made = (event.asset_key for event in done.all_events if event.is_step_materialization)
        return sorted(key.to_user_string() for key in made if key is not None)

    def read_mine(self) -> None:
        """Materialize the asset of somebody else, who reads `a`."""
        dg.materialize([mine], instance=self.instance, selection=[mine.key])

    def list_stale(self) -> set[str]:
        found = stale_statuses(self.instance, self.defs.resolve_asset_graph())
        assert "MISSING" not in {found[key] for key in found if key not in HISTORIES | {"mine"}}
        return set(found)

    def version(self, key: dg.AssetKey) -> str | None:
        event = self.instance.get_latest_materialization_event(key)
        assert event is not None
        assert event.asset_materialization is not None
        return (event.asset_materialization.tags or {}).get("dagster/data_version")


def row(id: int, ts: int, replayed_from: int | None = None, **versions: int) -> AppliedRow:
    known = {f"t{name}": version for name, version in versions.items()}
    return AppliedRow(id, datetime.now(UTC), ts, id, id, {}, known, (), replayed_from, 1)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with dg.DagsterInstance.ephemeral() as instance:
        made = World(tmp_path, instance)
        monkeypatch.setattr(materialize, "preview_changed_tables", lambda *_: {})
        monkeypatch.setattr(materialize, "find_shown_version", lambda *_: made.shown)
        monkeypatch.setattr(metadata, "count_files", lambda *_: (1, 1))
        monkeypatch.setattr(metadata, "versions_metadata", lambda *_: {})
        yield made


def make_first_report(world: World) -> None:
    first = row(1, 10, a=0, b=0)
    layers = ["f/checkpoints", "f/events", "f/quarantine", "f/raw"]
    schemas = [f"f/schema_history/d/{name}.schema" for name in "ab"]
    tables = [A.to_user_string(), B.to_user_string()]
    made = world.report(world.catalog(first), first, came=0)
    assert made == sorted([*layers, *schemas, *tables, *HISTORIES])
    world.read_mine()
    assert world.list_stale() == set()


def test_a_table_without_changes_does_not_become_stale(world: World) -> None:
    make_first_report(world)
    for ts in (20, 30):
        window = row(ts, ts, b=ts)
        made = world.report(world.catalog(window), window)
        assert made == ["f/checkpoints", B.to_user_string(), "f/events", "f/raw"]
        assert world.list_stale() == set()


def test_watermarks_alone_materialize_only_the_checkpoints(world: World) -> None:
    make_first_report(world)
    window = row(2, 20)
    assert world.report(world.catalog(window), window, came=0) == ["f/checkpoints"]
    assert world.list_stale() == set()


def test_what_reads_a_table_is_stale_when_its_rows_are_others(world: World) -> None:
    make_first_report(world)
    before = world.version(A)
    compacted, paused = row(2, 10, a=1), row(3, 20)
    for after, rows in (
        (world.catalog(compacted), [compacted]),
        (world.catalog(paused, status="paused"), [paused]),
    ):
        world.shown = after.versions["ta"]
        assert A.to_user_string() in world.report(after, *rows)
        assert world.version(A) == before
        assert world.list_stale() == set()
    written = row(4, 30, a=2)
    world.shown = 2
    made = world.report(world.catalog(written, status="paused"), written)
    assert set(made) > {A.to_user_string(), *HISTORIES}
    assert world.list_stale() == {"mine"}
    world.read_mine()
    assert world.list_stale() == set()
    # Rebuilt at the same ts.
    rebuilt = row(5, 30, replayed_from=0, a=3)
    world.shown = 3
    world.report(world.catalog(rebuilt, status="paused"), rebuilt)
    assert world.list_stale() == {"mine"}


def test_a_history_that_could_not_be_updated_is_stale_until_it_is(world: World) -> None:
    make_first_report(world)
    window, empty = row(2, 20, a=1), row(3, 30)
    assert not HISTORIES & set(world.report(world.catalog(window), window))
    assert world.list_stale() == HISTORIES | {"mine"}
    world.shown = 1
    made = world.report(world.catalog(empty), empty)
    assert set(made) >= HISTORIES
    assert A.to_user_string() not in made
    assert world.list_stale() == {"mine"}


def test_a_ddl_changes_the_version_of_one_schema(world: World) -> None:
    make_first_report(world)
    window = row(2, 20, a=1)
    world.shown = 1
    made = world.report(world.catalog(window, ddls=2), window)
    assert "f/schema_history/d/a.schema" in made
    assert "f/schema_history/d/b.schema" not in made
    assert world.list_stale() == {"mine"}


def test_what_is_reported_again_has_the_same_versions(world: World) -> None:
    make_first_report(world)
    window, later = row(2, 20, a=1), row(3, 30, b=1)
    world.shown = 1
    world.report(world.catalog(window), window)
    world.read_mine()
    # As for a run that was killed before it reported the checkpoints.
    world.now = LakeCatalog()
    rows: Sequence[Any] = [row(1, 10, a=0, b=0), window, later]
    world.now, after = LakeCatalog(), replace(world.catalog(later), versions={"ta": 1, "tb": 1})
    assert A.to_user_string() in world.report(after, *rows)
    assert world.list_stale() == set()
