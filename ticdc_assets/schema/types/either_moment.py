"""TIMESTAMP texts that mean one of two moments, because the server's time zone repeats an hour.

In a row the first moment counts, and the row is reported.  It may not identify a row: two rows an
hour apart would be taken for the same one.
"""

from collections.abc import Sequence

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import EITHER, load
from ticdc_assets.events.table_schema import fold_name

EITHER_MOMENT = (
    "the server's time zone repeats this hour, and the text does not say which of the two it means;"
    " let the TiCDC server run with tz = UTC: column "
)


def find_either_moments(timestamps: Sequence[str], image: str | None) -> list[str]:
    """Return those of a table's TIMESTAMP columns that are one of two moments in a row image."""
    if image is None or EITHER not in image:
        return []
    unsure = {fold_name(name) for name, text in load(image).items() if EITHER in (text or "")}
    return [name for name in timestamps if fold_name(name) in unsure]


def list_timestamps(schema: TableSchema) -> list[str]:
    """List the TIMESTAMP columns of a table."""
    return [column.name for column in schema.columns if column.type.name == "timestamp"]


def list_identifying_timestamps(schema: TableSchema) -> list[str]:
    """List the TIMESTAMP columns by which rows are found: in a key, or in the partitioning."""
    keys = (schema.key,) if schema.key else schema.unique_keys
    names = {fold_name(name) for key in keys for name in key}
    expression = ""
    if schema.partitioning is not None:
        names.update(map(fold_name, schema.partitioning.columns))
        expression = fold_name(schema.partitioning.expression or "")
    return [
        name
        for name in list_timestamps(schema)
        if fold_name(name) in names or fold_name(name) in expression
    ]


def check_identity(schema: TableSchema, image: str | None) -> None:
    """Raise `InvalidValue` for a row image that identifies its row by one of two moments."""
    if image is not None and EITHER in image:
        names = find_either_moments(list_identifying_timestamps(schema), image)
        if names:
            raise InvalidValue(f"the row cannot be identified: {EITHER_MOMENT}{', '.join(names)}")
