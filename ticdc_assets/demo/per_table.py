"""Compute something once per table schema and reuse it for every row."""

from collections.abc import Callable
from typing import Generic, TypeVar

from ticdc_assets.events import TableSchema

Made = TypeVar("Made")


class PerTable(Generic[Made]):
    """A cache by the identity of schemas; comparing them by value would cost more."""

    def __init__(self, make: Callable[[TableSchema], Made]) -> None:
        self._make = make
        # The value keeps the schema alive, so that no other schema gets its identity.
        self._made: dict[int, tuple[TableSchema, Made]] = {}

    def __call__(self, schema: TableSchema) -> Made:
        found = self._made.get(id(schema))
        if found is None:
            found = self._made[id(schema)] = schema, self._make(schema)
        return found[1]
