"""What is made of a table's schema once, and used for every row that comes with it."""

from collections.abc import Callable
from typing import Generic, TypeVar

from ticdc_assets.events import TableSchema

Made = TypeVar("Made")


class PerTable(Generic[Made]):
    """Schemas are told apart by identity, for a row holds its own: comparing them costs more."""

    def __init__(self, make: Callable[[TableSchema], Made]) -> None:
        self._make = make
        # The schema is kept beside it, so that no other one gets its identity.
        self._made: dict[int, tuple[TableSchema, Made]] = {}

    def __call__(self, schema: TableSchema) -> Made:
        found = self._made.get(id(schema))
        if found is None:
            found = self._made[id(schema)] = schema, self._make(schema)
        return found[1]
