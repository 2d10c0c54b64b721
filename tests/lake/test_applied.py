"""Every snapshot of the applied log can be read again."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.lake.canal import FEED, placed, row, watermark
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.lake.log.applied import read_last_snapshot
from ticdc_assets.lake.log.applied_files import read_snapshot
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.views.asof import as_of


def test_a_watermark_before_the_first_table_makes_a_snapshot(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = LakeSession(spark, Lake(str(tmp_path / "lake"), FEED.id), FEED)
    sent = [watermark(5), watermark(7), row("d", "t", 8, id="1"), watermark(9)]
    for count, resolved in ((1, 5), (2, 7), (4, 9)):
        came = placed(sent[:count])
        advance(lake, RecordSource(lambda _, came=came: came))
        assert read_last_snapshot(lake).ts == resolved
    assert [read_snapshot(LakeReader(lake.location), seq).ts for seq in range(4)] == [0, 5, 7, 9]
    assert as_of(lake, 7).tables() == []
    (table,) = as_of(lake).tables()
    assert list(as_of(lake).lines(table)) == [b'{"id":"1"}\n']
