"""What tables look like, whoever has them: upstream, the model, or a lake in memory."""

from collections.abc import Iterable

from msgspec import json

from tests.plan.engine import Engine
from tests.reference.changefeeds import DATABASE
from tests.reference.random_upstream import Shown
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.reference.table import ModelTable


def shown(engine: Engine) -> Shown:
    return picture(engine.shown().values())


def of_model(model: Model) -> Shown:
    return picture(table for table in model.tables if table.pause_reason is None)


def picture(tables: Iterable[ModelTable]) -> Shown:
    found = {}
    for table in tables:
        database, name = table.schema.database, table.schema.table
        columns = [c.name for c in table.schema.columns if c.generated != "virtual"]
        lines = [json.decode(line) for line in encode_rows(table)]
        title = name if database == DATABASE else f"{database}/{name}"
        # Of a column that is not known to be virtual yet, rows have nothing.
        rows = (tuple(line.get(c, "absent") for c in columns) for line in lines)
        found[f"{title}({', '.join(columns)})"] = sorted(rows, key=str)
    return found
