"""The Delta table of changes: rows come and stay, unless a replay computes them again."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.table_features import PLAIN_PROPERTIES
from ticdc_assets.lake.columns.inexact import MAP, GetColumn
from ticdc_assets.lake.history.change_rows import ReadImage, format_image_type
from ticdc_assets.lake.history.columns import HistoryColumn, store_columns, take_over_columns
from ticdc_assets.lake.history.versions_table import VersionsTable
from ticdc_assets.lake.store.contracts import CHANGES, IMAGES
from ticdc_assets.rows.columns import INEXACT


class ChangesTable(VersionsTable):
    """The changes of one incarnation."""

    folder = "changes"
    structs = IMAGES
    # None for images: readers ask for a span of time.
    properties = PLAIN_PROPERTIES | {"delta.dataSkippingStatsColumns": "commit_ts"}

    def list_types(self, columns: Sequence[HistoryColumn]) -> Mapping[str, str]:
        image = format_image_type(((column.name, column.type) for column in columns), MAP)
        return CHANGES | dict.fromkeys(IMAGES, image)


def store_image(columns: Sequence[HistoryColumn], schema: TableSchema) -> ReadImage:
    """Return what makes an image of a row of a schema."""
    type = format_image_type((column.name, column.type) for column in columns)

    def read(get: GetColumn) -> Column:
        values = store_columns(columns, schema, get)
        named = (value.alias(name) for name, value in values.items())
        return F.struct(*named, get(INEXACT).alias(INEXACT)).cast(type)

    return read


def take_over_images(rows: DataFrame, columns: Sequence[HistoryColumn]) -> DataFrame:
    """Return stored changes with the columns that their images get."""
    images = {}
    for name in IMAGES:
        image = F.col(name)
        values = take_over_columns(columns, image.getField)
        named = (value.alias(column) for column, value in values.items())
        taken = F.struct(*named, image[INEXACT].alias(INEXACT))
        images[name] = F.when(image.isNotNull(), taken)
    return rows.withColumns(images)
