"""Which columns the values of a data file belong to."""

from collections.abc import Sequence

from ticdc_assets.dumpling.rows import list_stored
from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events import TableSchema


class FileColumns:
    """Finds the stored column of each value, by names or by their number."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._stored = [column.name for column in list_stored(schema)]

    def find(self, names: Sequence[str]) -> list[int | None]:
        """Return the places of named columns, None for a virtual one."""
        places: list[int | None] = []
        for name in names:
            column = self._schema.column(name)
            if column is None:
                raise MalformedMessage(f"the table has no column {name[:80]!r}")
            is_stored = column.generated != "virtual"
            places.append(self._stored.index(column.name) if is_stored else None)
        stored = [place for place in places if place is not None]
        if len(set(stored)) < len(stored):
            raise MalformedMessage("a column is named twice")
        return self._check(places)

    def assume(self, count: int | None = None) -> list[int | None]:
        """Return the places of columns that nothing names; `count` is how many values rows have."""
        plain = [self._stored.index(c.name) for c in self._schema.columns if c.generated is None]
        # Dumpling leaves generated columns out, unless it is given --include-generated-columns.
        return self._check([*plain] if count == len(plain) else [*range(len(self._stored))])

    def _check(self, places: list[int | None]) -> list[int | None]:
        lacking = [name for place, name in enumerate(self._stored) if place not in places]
        if lacking:
            column = self._schema.column(lacking[0])
            reason = f"the export lacks column {lacking[0]!r}"
            if column is not None and column.generated == "stored":
                reason += ", which is generated: export with --include-generated-columns=stored"
            raise MalformedMessage(reason)
        return places
