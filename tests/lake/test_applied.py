"""The lines of `applied`: every one can be read again, whatever it has to tell."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.lake.canal import FEED, placed, row, watermark
from ticdc_assets.lake.advance import Source, advance
from ticdc_assets.lake.log.applied import read_last_snapshot, read_snapshot
from ticdc_assets.lake.store.contracts import Lake
from ticdc_assets.lake.views.asof import as_of


def test_a_changefeed_may_say_how_far_it_is_before_it_has_a_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path / "lake"), FEED.id)
    sent = [watermark(5), watermark(7), row("d", "t", 8, id="1"), watermark(9)]
    for count, resolved in ((1, 5), (2, 7), (4, 9)):
        came = placed(sent[:count])
        advance(spark, lake, FEED, Source(records=lambda came=came: came))
        assert read_last_snapshot(spark, lake).ts == resolved
    assert [read_snapshot(spark, lake, seq).ts for seq in range(4)] == [0, 5, 7, 9]
    assert as_of(spark, lake, FEED, 7).tables() == []
    (table,) = as_of(spark, lake, FEED).tables()
    assert list(as_of(spark, lake, FEED).lines(table)) == [b'{"id":"1"}\n']
