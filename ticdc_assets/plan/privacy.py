"""The privacy of a changefeed in a plan: schemas in the catalog, and columns that are left out."""

from collections.abc import Mapping

from ticdc_assets.changefeed.privacy import Privacy
from ticdc_assets.events import TableSchema
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.plan.table_tracker import TableTracker
from ticdc_assets.stream.privacy import list_unnamed, restore_schema
from ticdc_assets.stream.problem import Problem

_UNNAMED = (
    "no list of its entry in [[changefeed.privacy.table]] names these columns, so their values are"
    " not stored: {}"
)


def store_schema(tables: TableTracker, schema: TableSchema) -> TableSchema:
    """Store the schema of a table of the lake in the catalog; return it with its declared key."""
    return tables.protect(tables.catalog.replace(restore_schema(schema)))


def note_unnamed(
    tables: TableTracker, before: Mapping[str, Incarnation], privacy: Privacy | None, ts: int
) -> None:
    """Report the columns that are left out since this window because no list names them."""
    if privacy is None:
        return
    for id in tables.current_ids():
        schema = tables.incarnations[id].schema
        known = list_unnamed(privacy, before[id].schema) if id in before else ()
        new = [name for name in list_unnamed(privacy, schema) if name not in known]
        if new:
            names = ", ".join(name[:80] for name in new)
            place = schema.database, schema.table, ts
            tables.problems.append(Problem("privacy", _UNNAMED.format(names), *place))
