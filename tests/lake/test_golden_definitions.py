"""A recorded changefeed that begins in the middle, with definitions of an upstream in memory."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.checks.test_golden_checks import failed
from tests.dumpling.exporter import format_create_table
from tests.lake.golden_runs import Cut, cuts, list_truth_points
from tests.lake.reading import read_lines
from tests.lake.test_golden_loads import USUAL, LaterLake
from tests.plan.test_golden_definitions import WHOLE, schemas_at
from tests.reference.golden_feeds import keys, replicated, rows_before, schema_difference
from tests.truth import truth
from ticdc_assets.checks import SnapshotRange
from ticdc_assets.lake.advance import RecordSource, Source
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.log.definitions import read_definitions
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.upstream.snapshot import Row, RowsUnreadable
from ticdc_assets.views.ledger import build_ledger

_SHOW = re.compile(r"SHOW CREATE TABLE `([^`]+)`\.`([^`]+)`")


class MemoryTidb:
    """Shows how tables were defined at a ts."""

    is_tidb = True
    ts = 0

    def read_at(self, ts: int) -> None:
        self.ts = ts

    def query(self, sql: str, values: Sequence[str] | None = None) -> Sequence[Row]:
        if "tidb_ddl_job" in sql:
            return []
        wanted = _SHOW.fullmatch(sql)
        assert wanted is not None
        for schema in schemas_at(self.ts):
            if (schema.database, schema.table) == wanted.groups():
                return [(schema.table.encode(), format_create_table(schema).encode())]
        raise RowsUnreadable("no such table")


class DefinedLake(LaterLake):
    """Its changefeed declares the database upstream."""

    def _source(self, cut: Cut) -> Source:
        source = super()._source(cut)
        assert isinstance(source, RecordSource)
        return dataclasses.replace(source, open_upstream=self.open)

    @contextmanager
    def open(self) -> Iterator[MemoryTidb]:
        yield MemoryTidb()


@pytest.mark.all_golden
def test_tables_that_are_older_hold_rows_that_tidb_had(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(7)
    points = list_truth_points(USUAL)
    start = points[len(points) // 3]
    golden = DefinedLake(spark, tmp_path, USUAL, start)
    chosen = random.sample([point for point in points if point > start][:-1], 2)
    for cut in cuts(USUAL, sorted(chosen), random):
        golden.advance(cut)
    problems = [problem for run in golden.runs for problem in run.applied.problems]
    assert [problem.describe() for problem in problems] == []
    reader = LakeReader(golden.lake.location)
    assert len(read_definitions(reader)) > 2
    ledger = build_ledger(reader, read_existing_snapshot(reader))
    assert ledger.adds_up
    assert ledger.partial
    # Partial tables are not live; all else holds.
    whole = SnapshotRange(0, read_existing_snapshot(reader).snapshot_id)
    assert failed(golden, whole).keys() == {"table_is_live"}
    before = rows_before(WHOLE, start)
    for ts in (*chosen, points[-1]):
        shown = golden.as_of(ts)
        expected = replicated(USUAL, truth("lifecycle")[ts])
        for table in shown.tables():
            name = table.schema.database, table.schema.table
            true, lines = expected[name], read_lines(golden.lake, shown, table)
            ours = true.strict([msgspec.json.decode(line) for line in lines])
            theirs = true.strict_rows()
            assert schema_difference(table.schema, true, from_start=True) == []
            assert ours <= theirs
            assert keys(true, theirs - ours) <= keys(true, true.strict(before.get(name, [])))
