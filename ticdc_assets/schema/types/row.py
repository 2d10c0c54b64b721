"""Whole rows: from a row image to typed values by a table's schema, and back to MySQL's text."""

from collections.abc import Mapping

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import load
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import Reader, make_reader
from ticdc_assets.schema.types.value_writer import Writer, make_writer


class RowReader:
    """Types row images by one schema."""

    def __init__(self, schema: TableSchema, *, member_names: bool = False) -> None:
        self._schema = schema
        self._member_names = member_names
        self._readers: dict[str, tuple[str, Reader]] = {}

    def __call__(self, image: str) -> dict[str, Value]:
        """Read one image; raise `MalformedMessage` or `InvalidValue` (which names the column)."""
        row: dict[str, Value] = {}
        for name, text in load(image).items():
            known = self._readers.get(name) or self._find(name)
            try:
                row[known[0]] = known[1](text)
            except InvalidValue as problem:
                raise InvalidValue(problem.reason, column=name) from None
        return row

    def _find(self, name: str) -> tuple[str, Reader]:
        column = self._schema.column(name)
        if column is None:
            raise InvalidValue("the table has no such column", column=name)
        known = (column.name, make_reader(column.type, self._member_names))
        self._readers[name] = known
        return known


class RowWriter:
    """Writes typed rows as MySQL prints them: in the table's order, without virtual columns."""

    def __init__(self, schema: TableSchema) -> None:
        self._columns = [c for c in schema.columns if c.generated != "virtual"]
        # Made when a value is there to be written: a type nobody knows has none.
        self._writers: dict[str, Writer] = {}

    def __call__(self, row: Mapping[str, Value]) -> dict[str, str | None]:
        """Write one row; a column that the stream never sent is left out.

        Raise `InvalidValue` where a value is not of its column's type, or nobody knows that.
        """
        written: dict[str, str | None] = {}
        for column in self._columns:
            name = column.name
            if name in row:
                try:
                    write = self._writers.get(name)
                    if write is None:
                        write = self._writers[name] = make_writer(column.type)
                    written[name] = write(row[name])
                except InvalidValue as problem:
                    raise InvalidValue(problem.reason, column=name) from None
        return written
