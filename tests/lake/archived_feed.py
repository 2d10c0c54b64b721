"""A changefeed of an archived table: random changes, DDL, kills, and what the lake has then."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.lake.addresses import need_none
from tests.lake.canal import FEED, change, ddl, placed, watermark
from tests.lake.true_versions import PREPARING_PLAIN, list_stated
from tests.reference.archive_model import ArchiveModel
from ticdc_assets.changefeed.archive import TableArchive
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.advance import AdvanceResult, RecordSource, advance, replay_tables
from ticdc_assets.lake.apply import window_work
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.replay import ReplayRequest
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.protocols.message import Message
from ticdc_assets.rows.columns import DELETED_AT, DELETED_TS
from ticdc_assets.rows.kept import split_kept
from ticdc_assets.rows.lines import format_columns
from ticdc_assets.rows.table_rows import read_table
from ticdc_assets.schema.types.row import RowWriter
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.stream.rules import make_rules
from ticdc_assets.views.asof import as_of

# What a version shows: its rows, and those that were deleted with the ts of their deletes.
Shown = tuple[Counter[str], Counter[tuple[str, int]]]
CREATE = (
    "CREATE TABLE {} (id INT PRIMARY KEY, v VARCHAR(20)) PARTITION BY RANGE (id) ("
    "PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20),"
    " PARTITION p2 VALUES LESS THAN (30))"
)
IDS = 30
# A millisecond of TSOs, so that times of deletes differ.
STEP = 1 << 18
# What prepares a large table, and states no ts.


class Killed(Exception):
    """A run ends."""


class ArchivedFeed:
    """A changefeed of the table `d.t` that sends more and more."""

    def __init__(
        self, folder: Path, *archives: TableArchive, spark: SparkSession | None = None
    ) -> None:
        self._folder, self._spark = folder, spark
        self.sent: list[Message] = []
        self.ts = STEP
        self.there: dict[int, str] = {}
        self._compared: dict[str, int] = {}
        self.declare(*archives)

    def declare(self, *archives: TableArchive) -> None:
        self.feed = replace(FEED, archives=archives)
        session = need_none if self._spark is None else self._spark
        self.lake = LakeSession(session, Lake(f"{self._folder}/lake", FEED.id), self.feed)

    # What upstream does

    def run_ddl(self, sql: str, kind: str = "ALTER") -> None:
        self.ts += STEP
        self.sent.append(ddl("d", "t", self.ts, kind, sql.format("t")))

    def put(self, id: int, v: str) -> None:
        self.ts += STEP
        values = {"id": str(id), "v": v}
        if id in self.there:
            old = {"v": self.there[id]}
            self.sent.append(change("UPDATE", "d", "t", self.ts, values, old))
        else:
            self.sent.append(change("INSERT", "d", "t", self.ts, values))
        self.there[id] = v

    def delete(self, id: int) -> None:
        self.ts += STEP
        values = {"id": str(id), "v": self.there.pop(id)}
        self.sent.append(change("DELETE", "d", "t", self.ts, values))

    def truncate(self) -> None:
        self.run_ddl("TRUNCATE TABLE {}", "TRUNCATE")
        self.there.clear()

    def empty_partition(self, number: int) -> None:
        self.run_ddl(f"ALTER TABLE {{}} TRUNCATE PARTITION p{number}")
        self.there = {id: v for id, v in self.there.items() if id // 10 != number}

    def change_at_random(self, random: Random) -> None:
        """Change something: mostly rows, some of which come back after they went."""
        draw, id = random.random(), random.randrange(IDS)
        if draw < 0.04:
            self.truncate()
        elif draw < 0.1:
            self.empty_partition(random.randrange(3))
        elif id in self.there and draw < 0.55:
            self.delete(id)
        else:
            self.put(id, f"v{self.ts // STEP}")

    def send_late(self, ts: int, id: int) -> None:
        """Send a row that was inserted before what was applied, and deleted at once."""
        values = {"id": str(id % IDS), "v": "late"}
        if id % IDS in self.there:
            return
        for at, kind in ((ts, "INSERT"), (ts + 1, "DELETE")):
            self.sent.append(change(kind, "d", "t", at, values))

    # Runs

    def advance(self) -> AdvanceResult:
        """Apply what there is up to now, and compare each new version of the tables."""
        done = self.try_advance()
        self.compare()
        return done

    def try_advance(self) -> AdvanceResult:
        last = watermark(self.ts + STEP // 2)
        if not self.sent or self.sent[-1] != last:
            self.sent.append(last)
        return advance(self.lake, RecordSource(lambda _: placed(self.sent)))

    def kill(self, commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let a run end behind some commits of tables, and before its snapshot."""
        left = commits

        def commit(*arguments: object) -> int:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return window_commit(*arguments)  # type: ignore[arg-type]

        def write(*_: object, **__: object) -> None:
            raise Killed

        window_commit = window_work.commit_table
        with monkeypatch.context() as patch:
            patch.setattr(window_work, "commit_table", commit)
            patch.setattr("ticdc_assets.lake.apply.apply.write_snapshot", write)
            with pytest.raises(Killed):
                self.try_advance()

    def rebuild(self) -> None:
        """Replay all tables from the first event on."""
        applied = read_last_snapshot(self.lake)
        request = ReplayRequest(frozenset(applied.state.incarnations), 0)
        replay_tables(self.lake, applied, request, lambda *_: None)

    # What is there

    def model_at(self, ts: int) -> ArchiveModel:
        model = ArchiveModel(make_rules(self.feed))
        model.add(read_topic_events(self.feed, placed(self.sent), None))
        model.advance(ts)
        return model

    def compare(self) -> None:
        """Compare the newest rows, and those at a ts in between that no snapshot has."""
        applied = read_last_snapshot(self.lake)
        self.compare_versions()
        since = self._compared.get("at", applied.ts)
        for ts in {applied.ts, (applied.ts + since) // 2}:
            view = as_of(self.lake, ts)
            for table in view.tables():
                rows = view.rows(table)
                assert rows is not None
                there, kept = split_kept(rows)
                wanted = show_modelled(self.model_at(ts), table.schema)
                lines = Counter(format_text(there.columns, table.schema))
                assert lines == wanted[0]
                assert Counter(line.decode() for line in view.lines(table)) == wanted[0]
                texts = [] if kept is None else format_text(kept.columns, table.schema)
                times = [] if kept is None else kept.commit_ts.to_pylist()
                assert Counter(zip(texts, times, strict=True)) == wanted[1], ts
        self._compared["at"] = applied.ts

    def compare_versions(self) -> None:
        """Compare each version of the current table with the model at the ts that it states."""
        for table in as_of(self.lake).tables():
            folder = Path(self.lake.current_path(table.id))
            above = self._compared.get(table.id, -1)
            for version, ts, about in list_stated(folder, PREPARING_PLAIN, above):
                self._compared[table.id] = version
                schema = find_schema(self.lake, table, ts)
                if schema is not None and not about.get("operation", "").startswith("RESTORE"):
                    found = self.read_version(table.id, version, schema)
                    assert found == show_modelled(self.model_at(ts), schema), (version, ts)

    def read_version(self, id: str, version: int, schema: TableSchema) -> Shown:
        """Read what a version shows."""
        there: Counter[str] = Counter()
        kept: Counter[tuple[str, int]] = Counter()
        for block in StoredRows(LakeReader(self.lake.location), f"current/{id}", version).read():
            rows = read_table(pa.table(dict(block)), schema)
            texts = format_text(rows.columns, schema)
            count = len(texts)
            times = block[DELETED_TS].to_pylist() if DELETED_TS in block else [None] * count
            moments = block[DELETED_AT].to_pylist() if DELETED_AT in block else [None] * count
            for text, ts, moment in zip(texts, times, moments, strict=True):
                if ts is None:
                    assert moment is None
                    there[text] += 1
                else:
                    assert round(moment.timestamp() * 1000) == ts >> 18
                    kept[text, ts] += 1
        return there, kept


def find_schema(lake: LakeSession, table: Incarnation, ts: int) -> TableSchema | None:
    known = as_of(lake, ts).state.incarnations.get(table.id)
    return None if known is None or known.status == "dropped" else known.schema


def format_text(columns: object, schema: TableSchema) -> Iterator[str]:
    return [line.decode() for line in format_columns(columns, schema)]  # type: ignore[arg-type]


def show_modelled(model: ArchiveModel, schema: TableSchema) -> Shown:
    """Show a table of the model."""
    table = model.tables.get(schema.database, schema.table)
    assert table is not None
    write = RowWriter(table.schema)

    def show(row: object) -> str:
        return json.dumps(write(row), separators=(",", ":")) + "\n"  # type: ignore[arg-type]

    kept = model.tables.kept[table]
    return Counter(map(show, table)), Counter((show(row), ts) for row, ts in kept)
