"""The Delta table of changes: rows come and stay, unless a replay computes them again."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ticdc_assets.lake.apply.table_features import PLAIN_PROPERTIES
from ticdc_assets.lake.history.change_rows import (
    format_types,
    list_change_fields,
    make_image_type,
)
from ticdc_assets.lake.history.columns import HistoryColumn
from ticdc_assets.lake.history.versions_table import VersionsTable
from ticdc_assets.store.contracts import IMAGES


class ChangesTable(VersionsTable):
    """The changes of one incarnation."""

    folder = "changes"
    structs = IMAGES
    # None for images: readers ask for a span of time.
    properties = PLAIN_PROPERTIES | {"delta.dataSkippingStatsColumns": "commit_ts"}

    def list_types(self, columns: Sequence[HistoryColumn]) -> Mapping[str, str]:
        return format_types((column.name, column.type) for column in columns)

    def list_fields(self, columns: Sequence[HistoryColumn]) -> pa.Schema:
        image = make_image_type((column.name, column.arrow_type) for column in columns)
        return list_change_fields(image)
