"""A folder with every kind of damage: each is reported, and nothing is lost."""

import dataclasses
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from tests.lake.reading import read_lines
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.demo import FULL_CSV, encode_truth
from ticdc_assets.demo.column_type import column
from ticdc_assets.demo.csv_lines import CsvLines
from ticdc_assets.demo.delivery import Delivery
from ticdc_assets.demo.statement import Session
from ticdc_assets.demo.storage import StorageWriter
from ticdc_assets.demo.upstream import Upstream
from ticdc_assets.lake.advance import AdvanceResult, FolderSource, advance
from ticdc_assets.lake.quarantine import list_faults
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.storage_sink.path import DataPath, Layout, TableSchemaPath, parse
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.views import overview
from ticdc_assets.views.asof import as_of
from ticdc_assets.views.ledger import build_ledger

LAYOUT = Layout(date_separator="none")
ODD = 'a/b.c"d'
PLAIN = ("cut", "garbled", "checksum", "unstated", "growing", ODD)
ALTERED = ("gap", "late", "unread")
CONFIG = """
[sink]
date-separator = "none"
[sink.csv]
include-commit-ts = true
output-old-value = true
output-field-header = true
"""


class Damaged:
    """An upstream with a correct folder, and a damaged copy of it that the lake reads."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.upstream = Upstream(1_770_000_000_000)
        self.session = Session(self.upstream, "db")
        self.checkpoints: list[int] = []
        self._right, self._found = root / "right", root / "found"
        self._found.mkdir()
        self._writer = StorageWriter(
            self._right,
            partial(CsvLines, dialect=FULL_CSV),
            LAYOUT,
            Delivery(self.upstream.start_ts),
        )
        config = root / "changefeed.toml"
        config.write_text(CONFIG)
        uri = f"file://{self._found}?protocol=csv"
        self._feed = changefeed_from_uri(uri, config=config, tz="UTC")
        self.lake = LakeSession(spark, Lake(str(root / "lake"), "damaged"), self._feed)

    def create(self, *tables: str) -> None:
        self.session.create_database()
        for table in tables:
            columns = [column("id", "int", nullable=False), column("text", "varchar(99)")]
            self.session.create_table(table, columns, primary=("id",))

    def declare(self, separator: Literal["none", "day"]) -> None:
        """Declare a date-separator, right or wrong."""
        self._feed = dataclasses.replace(self._feed, date_separator=separator)
        self.lake = LakeSession(self.lake.spark, self.lake.location, self._feed)

    def put(self, first: int, last: int) -> None:
        """Insert or replace rows of these ids in every table."""
        for number in range(first, last + 1):
            transaction = self.upstream.begin()
            for database, name in list(self.upstream.tables):
                table = self.upstream.tables[database, name]
                transaction.insert(table, id=str(number), text=f"{name} {first} {number}")
            transaction.commit()

    def flush(self) -> None:
        self.upstream.advance(1000)
        for change in self.upstream.drain():
            self._writer.take(change)
        self.checkpoints.append(self.upstream.now)
        self._writer.flush(self.upstream.now)

    def right(self) -> dict[str, bytes]:
        """Return the correct content of the folder."""
        files = (path for path in self._right.rglob("*") if path.is_file())
        return {str(path.relative_to(self._right)): path.read_bytes() for path in files}

    def deliver(self, files: dict[str, bytes]) -> None:
        """Make these files, and no others, the lake's source."""
        for path in self._found.rglob("*"):
            if path.is_file() and str(path.relative_to(self._found)) not in files:
                path.unlink()
        for path, content in files.items():
            place = self._found / path
            if not place.exists() or place.read_bytes() != content:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)

    def advance(self) -> AdvanceResult:
        folder = partial(open_sink_folder, self._feed)
        source = FolderSource(folder(), folder)
        return advance(self.lake, source)

    def tables(self) -> dict[str, overview.TableOverview]:
        applied = read_last_snapshot(self.lake)
        lines = overview.list_tables(LakeReader(self.lake.location), applied, dropped=False)
        return {line.table: line for line in lines}

    def quarantined(self) -> dict[tuple[str, int], str]:
        """Return the quarantine: error and reason by path and record."""
        rows = read_table(self.lake, "quarantine").collect()
        return {(row["source"], row["number"]): f"{row['error']}: {row['reason']}" for row in rows}

    def wrong(self, ts: int) -> dict[str, tuple[int, int] | str]:
        """Return the tables that differ from upstream: how many rows are surplus and missing."""
        shown = as_of(self.lake, ts)
        tables = {table.schema.table: table for table in shown.tables()}
        true = {
            name: Counter(rows) for (_, name), rows in encode_truth(self.upstream.truth(ts)).items()
        }
        found: dict[str, tuple[int, int] | str] = {}
        for name in {*tables, *true}:
            table = tables.get(name)
            if table is None or table.is_stopped:
                found[name] = "missing" if table is None else table.status
                continue
            ours, theirs = Counter(read_lines(self.lake, shown, table)), Counter(true.get(name))
            if ours != theirs:
                found[name] = (ours - theirs).total(), (theirs - ours).total()
        return found


def paths(files: dict[str, bytes], kind: type[DataPath | TableSchemaPath], table: str) -> list[str]:
    """Return the data or schema files of a table, oldest first."""
    parsed = [(path, parse(path, LAYOUT)) for path in sorted(files)]
    # A table name with a slash parses differently.
    found = [(p.version, path) for path, p in parsed if isinstance(p, kind) and p.table == table]
    return [path for _, path in sorted(found)]


# Length: one folder is damaged, repaired and damaged again; every state builds on the one before.
@pytest.mark.slow
def test_temporary_damage_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    there = Damaged(spark, tmp_path)
    there.create(*PLAIN, *ALTERED)
    there.put(1, 4)
    there.flush()
    first = there.right()
    there.put(5, 6)
    for table in ALTERED:
        there.session.add_column(table, column("more", "int", default="5"))
    there.put(7, 8)
    there.flush()
    second = there.right()
    begun, passed = there.checkpoints

    # One file is truncated, one has a wrong byte, a schema file has another's name, one is missing,
    # and a file beyond the checkpoint is still being written.
    (cut,), (garbled,) = paths(first, DataPath, "cut"), paths(first, DataPath, "garbled")
    (misnamed,) = paths(first, TableSchemaPath, "checksum")
    (unstated,) = paths(first, TableSchemaPath, "unstated")
    _, growing = paths(second, DataPath, "growing")
    found = dict(first)
    found[cut] = first[cut][:-6]
    found[garbled] = first[garbled].replace(b",2,", b",x,")
    wrong_name = misnamed[:-15] + "0000000001.json"
    found[wrong_name] = found.pop(misnamed)
    del found[unstated]
    found[growing] = second[growing][:-6]
    there.deliver(found)
    run = there.advance()
    assert (run.applied.resolved_ts, len(run.decoded.waiting)) == (begun, 1)
    assert there.wrong(begun) == {"cut": (0, 1), "garbled": (0, 1), "unstated": "missing"}
    quarantined = there.quarantined()
    reasons = {
        (cut, 4): "MalformedMessage: field 7, at byte 308",
        (garbled, 2): "InvalidValue: column 'id': 'x' is not a int",
        (growing, 4): "MalformedMessage: field 7, at byte 336",
        (wrong_name, 0): "ChecksumMismatch: the file's name says 0000000001",
    }
    assert quarantined.keys() == reasons.keys()
    assert all(quarantined[place].startswith(reason) for place, reason in reasons.items())
    stopped = {line.table: line.status for line in there.tables().values() if line.reason}
    assert stopped == {"unstated": "waiting"}

    # All of this is repaired; now a version's schema file and a file of an earlier version are
    # missing, and one statement is unreadable.
    _, gap = paths(second, TableSchemaPath, "gap")
    _, late, _ = paths(second, DataPath, "late")
    _, unread = paths(second, TableSchemaPath, "unread")
    found = dict(second)
    del found[gap], found[late]
    found[unread] = second[unread].replace(b"ADD COLUMN", b"ADD COLUMNIST")
    there.deliver(found)
    run = there.advance()
    assert (run.applied.resolved_ts, len(run.decoded.waiting)) == (passed, 1)
    assert there.wrong(begun) == {}
    assert not {(cut, 4), (garbled, 2), (growing, 4)} & there.quarantined().keys()
    assert there.wrong(passed) == {"gap": "waiting", "late": (0, 2), "unread": "paused"}
    (problem,) = run.applied.problems
    line = there.tables()["unread"]
    # Up to this statement, the table has all of its rows.
    assert problem.commit_ts is not None
    assert begun <= problem.commit_ts - 1 <= passed
    assert (line.status, line.reason, line.ts) == (
        "paused",
        problem.reason,
        problem.commit_ts - 1,
    )
    assert (problem.table, "ADD COLUMNIST `more`" in problem.reason) == ("unread", True)

    # Everything is repaired, and new rows arrive.
    there.put(9, 9)
    there.flush()
    there.deliver(there.right())
    run = there.advance()
    assert (run.applied.resolved_ts, len(run.decoded.waiting)) == (there.checkpoints[-1], 0)
    assert [there.wrong(checkpoint) for checkpoint in there.checkpoints] == [{}, {}, {}]
    assert run.applied.problems == []
    assert {line.status for line in there.tables().values()} == {"live"}
    assert len(there.tables()) == len(PLAIN) + len(ALTERED)


def test_files_on_unexpected_paths_count_once_the_declaration_fits(
    spark: SparkSession, tmp_path: Path
) -> None:
    there = Damaged(spark, tmp_path)
    there.create("one", "two")
    for turn in (1, 2):
        there.put(turn, turn)
        there.flush()
    # It is on no path that any declaration fits.
    lost = "db/CDC00000000000000000001.csv"
    there.deliver({**there.right(), lost: b"1"})
    there.declare("day")
    run = there.advance()
    assert run.decoded.quarantined == 5
    (problem,) = run.applied.problems
    assert (problem.kind, str(problem.position)) == ("quarantined", f"{lost}-0")
    assert "date-separator = 'day'" in problem.reason
    assert problem.reason.endswith("(and 4 more)")

    there.declare("none")
    run = there.advance()
    assert (run.ingested.items, run.decoded.quarantined, run.applied.problems) == (4, 0, [])
    assert [there.wrong(checkpoint) for checkpoint in there.checkpoints] == [{}, {}]
    reader = LakeReader(there.lake.location)
    (fault,) = list_faults(reader)
    assert (fault.count, str(fault.position)) == (1, f"{lost}-0")
    assert build_ledger(reader, read_last_snapshot(there.lake)).adds_up
    assert there.advance().ingested.items == 0
