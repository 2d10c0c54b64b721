"""Every change of a column's type that TiDB makes, as a lake makes it from each protocol."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pymysql
import pytest

from tests.lake.test_tidb_changefeed import make_lake, read_lake, read_model, replay_feed
from tests.lake.tidb_recording import MANNERS, Recording, execute, read_all, recorder_of
from tests.lake.tidb_statements import DATABASE, TYPES
from tests.tidb_server import Tidb
from ticdc_assets.demo.recorder import Recorder

pytestmark = [pytest.mark.slow, pytest.mark.all_cases]

TARGETS = (
    *("TINYINT", "INT", "BIGINT UNSIGNED", "DECIMAL(20,3)", "DECIMAL(9)", "FLOAT", "DOUBLE"),
    *("VARCHAR(60)", "CHAR(40)", "TEXT", "VARBINARY(60)", "BINARY(12)", "BLOB"),
    *("DATE", "DATETIME", "DATETIME(2)", "TIMESTAMP NULL", "TIME", "YEAR", "JSON", "BIT(20)"),
    *("ENUM('a','b','it''s','c')", "ENUM('b','a','it''s')", "SET('z','x','y')"),
)
# A TIME becomes a moment of the day on which the DDL runs, which no message states.
PAUSED = {"TIME(2)": ("DATE", "DATETIME", "DATETIME(2)", "TIMESTAMP NULL")}


@pytest.fixture(scope="module")
def recording(tidb: Tidb) -> Recording:
    recording = Recording()
    with recorder_of(tidb) as recorder:
        execute(recording, recorder, f"CREATE DATABASE `{DATABASE}`")
        for table, name, target in list_conversions():
            convert(recording, recorder, table, name, target)
        recording.checkpoints.append(recorder.now())
    return recording


def list_conversions() -> Iterator[tuple[str, str, str]]:
    """Yield a table for each, with the column's type as TYPES names it, and the type it gets."""
    for name, (sql, _, _) in TYPES.items():
        for place, target in enumerate(TARGETS):
            if target not in PAUSED.get(sql, ()):
                yield f"{name}_{place}", name, target


def convert(recording: Recording, recorder: Recorder, table: str, name: str, target: str) -> None:
    """Make a table with some values of a type, and change the type; without, if TiDB does not."""
    random = Random(table)
    sql, values, _ = TYPES[name]
    rows = ", ".join(f"({id}, {values(random)})" for id in range(8))
    column = sql.partition(" DEFAULT")[0]
    execute(recording, recorder, f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY,`c` {column})")
    change = recorder.transact(
        [f"INSERT IGNORE INTO {DATABASE}.`{table}` VALUES {rows}, (99, NULL)"], {table: ""}
    )
    assert change is not None
    recording.changes.append(change)
    try:
        execute(recording, recorder, f"ALTER TABLE `{table}` MODIFY COLUMN `c` {target}")
    except pymysql.MySQLError:
        execute(recording, recorder, f"DROP TABLE `{table}`")


@pytest.mark.parametrize("manner", MANNERS)
def test_a_column_has_the_values_that_tidb_converts_it_to(
    request: pytest.FixtureRequest, tidb: Tidb, recording: Recording, manner: str, tmp_path: Path
) -> None:
    (ts,) = recording.checkpoints
    expected = read_all(tidb, ts)
    assert len(expected) > 230
    replay = replay_feed(tmp_path / "model", recording, MANNERS[manner])
    replay.advance(ts)
    session = make_lake(request, tmp_path / "feed", recording, MANNERS[manner])
    for found in (read_model(replay), read_lake(session, ts)):
        assert {name: table for name, table in found.items() if table != expected[name]} == {}
        assert found.keys() == expected.keys()
