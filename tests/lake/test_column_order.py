"""Current tables have their columns in the order that these have upstream."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lake import canal
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.lake.apply import table_features
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import Lake, LakeSession

# Statements, and the columns that the table has upstream after them.
_DDLS = [
    ("ALTER TABLE t MODIFY COLUMN v varchar(20) FIRST", ["v", "id", "w"]),
    ("ALTER TABLE t MODIFY COLUMN id int AFTER w", ["v", "w", "id"]),
    ("ALTER TABLE t ADD COLUMN n varchar(20) AFTER v", ["v", "n", "w", "id"]),
    ("ALTER TABLE t MODIFY COLUMN w varchar(20) FIRST", ["w", "v", "n", "id"]),
]


# Of a large table, Spark does each step and each merge: a window has two of the DDLs.
@pytest.mark.parametrize(("large", "each"), [(1 << 20, 1), (-1, 2)])
def test_a_ddl_that_moves_a_column_moves_it_in_the_lake(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int, each: int
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", large)
    lake = LakeSession(spark, Lake(str(tmp_path), "f"), canal.FEED)
    create = "CREATE TABLE t (id int primary key, v varchar(20), w varchar(20))"
    sent = [canal.ddl("d", "t", 1, "CREATE", create), _row(2, 1, ["id", "v", "w"])]
    _advance(lake, sent, 3)
    for number, (sql, columns) in enumerate(_DDLS, 1):
        ts = 10 * number
        sent += [canal.ddl("d", "t", ts, "ALTER", sql), _row(ts + 1, ts, columns)]
        if number % each:
            continue
        _advance(lake, sent, ts + 2)
        for table in (_address(tmp_path), _address(tmp_path) / "1"):
            shown = spark.read.format("delta").load(str(table)).toArrow()
            assert shown.column_names == [*columns, "_commit_ts"]
            newest = next(row for row in shown.to_pylist() if row["id"] == ts)
            assert newest == {**dict.fromkeys(columns, str(ts)), "id": ts, "_commit_ts": ts + 1}
            assert shown.num_rows == number + 1


def _row(ts: int, id: int, columns: list[str]) -> Message:
    return canal.row("d", "t", ts, **dict.fromkeys(columns, str(id)))


def _address(root: Path) -> Path:
    return root / "f" / "current" / "d.t"


def _advance(lake: LakeSession, sent: list[Message], ts: int) -> None:
    messages = canal.placed([*sent, canal.watermark(ts)])
    sent.append(canal.watermark(ts))
    assert advance(lake, RecordSource(lambda _: iter(messages))).applied.resolved_ts == ts
