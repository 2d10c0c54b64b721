"""The lines of `applied`: every one can be read again, whatever it has to tell."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.lake.canal import FEED, placed, row, watermark
from ticdc_assets.lake.advance import Source, advance
from ticdc_assets.lake.log.applied import applied_at, last_applied
from ticdc_assets.lake.views.asof import picture
from ticdc_assets.lake.store.contracts import Lake


def test_a_changefeed_may_say_how_far_it_is_before_it_has_a_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path / "lake"), FEED.id)
    sent = [watermark(5), watermark(7), row("d", "t", 8, id="1"), watermark(9)]
    for count, resolved in ((1, 5), (2, 7), (4, 9)):
        came = placed(sent[:count])
        advance(spark, lake, FEED, Source(records=lambda came=came: came))
        assert last_applied(spark, lake).ts == resolved
    assert [applied_at(spark, lake, seq).ts for seq in range(4)] == [0, 5, 7, 9]
    assert picture(spark, lake, FEED, 7).tables() == []
    (table,) = picture(spark, lake, FEED).tables()
    assert list(picture(spark, lake, FEED).lines(table)) == [b'{"id":"1"}\n']
