"""What tables look like, whoever has them: upstream, the model, or a lake in memory."""

from collections.abc import Callable, Iterable
from random import Random

from msgspec import json

from tests.plan.engine import Engine
from tests.reference.changefeeds import DATABASE
from tests.reference.random_upstream import STEPS, World
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.output import row_lines
from ticdc_assets.reference.table import Table

Shown = dict[str, list[tuple[str | None, ...]]]


class Watched(World):
    """A world that keeps what it was like after each of its steps."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.pictures: dict[int, Shown] = {}
        self.more: list[Callable[[], None]] = []

    def run(self) -> None:
        actions = [self.insert] * 6 + [self.update, self.delete] * 2 + [self.create] * 2
        actions += [self.add_column, self.drop_column, self.rename_column, self.retype, self.move]
        actions += [self.truncate, self.drop, self.rename, self.swap, self.copy, self.exchange]
        actions += [self.truncate_partition, self.drop_partition, self.repartition]
        actions += [self.reorganize, self.change_key, self.alter_much, self.drop_database]
        actions += self.more
        self.create()
        while len(self.steps) < STEPS:
            self.random.choice(actions)()
            self.pictures[len(self.steps)] = {
                f"{name}({', '.join(c.name for c in table.sent())})": table.shown()
                for name, table in self.tables.items()
            }


def shown(engine: Engine) -> Shown:
    return picture(engine.shown().values())


def of_model(model: Model) -> Shown:
    return picture(table for table in model.tables if table.paused is None)


def picture(tables: Iterable[Table]) -> Shown:
    found = {}
    for table in tables:
        database, name = table.schema.database, table.schema.table
        columns = [c.name for c in table.schema.columns if c.generated != "virtual"]
        lines = [json.decode(line) for line in row_lines(table)]
        title = name if database == DATABASE else f"{database}/{name}"
        # Of a column that is not known to be virtual yet, rows have nothing.
        rows = (tuple(line.get(c, "absent") for c in columns) for line in lines)
        found[f"{title}({', '.join(columns)})"] = sorted(rows, key=str)
    return found
