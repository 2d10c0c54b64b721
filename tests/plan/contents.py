"""The rows of all live tables in one form, for an engine and for the reference model."""

from collections.abc import Iterable

from msgspec import json

from tests.plan.engine import Engine
from tests.plan.work_in_memory import StoredTable
from tests.reference.changefeeds import DATABASE
from tests.reference.random_upstream import Shown
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.reference.table import ModelTable


def contents(engine: Engine) -> Shown:
    return list_contents(engine.live_tables().values())


def model_contents(model: Model) -> Shown:
    return list_contents(t for t in model.tables if t.pause_reason is None and not t.is_waiting)


def list_contents(tables: Iterable[ModelTable | StoredTable]) -> Shown:
    """Return the rows of tables."""
    found = {}
    for table in tables:
        database, name = table.schema.database, table.schema.table
        columns = [c.name for c in table.schema.columns if c.generated != "virtual"]
        lines = [json.decode(line) for line in encode_rows(table)]
        title = name if database == DATABASE else f"{database}/{name}"
        # The model's rows lack a column that no event stated; a Delta table has NULL there.
        rows = (tuple(line.get(c) for c in columns) for line in lines)
        found[f"{title}({', '.join(columns)})"] = sorted(rows, key=str)
    return found


def partial(engine: Engine) -> set[tuple[str, str]]:
    """Return the names of tables that lack rows, stopped ones among them."""
    tables = (engine.now.incarnations[id] for _, id in engine.now.names)
    return {(t.schema.database, t.schema.table) for t in tables if t.partial_reason is not None}


def model_partial(model: Model) -> set[tuple[str, str]]:
    return {
        (t.schema.database, t.schema.table) for t in model.tables if t.partial_reason is not None
    }
