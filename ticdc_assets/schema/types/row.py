"""Reading row images into typed rows by a table's schema, and writing typed rows as MySQL text."""

from collections.abc import Mapping

from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import TableSchema
from ticdc_assets.events.row_image import load
from ticdc_assets.schema.types.value import Value
from ticdc_assets.schema.types.value_reader import Reader, make_reader
from ticdc_assets.schema.types.value_writer import Writer, make_writer


class RowReader:
    """Reads the row images of one schema version."""

    def __init__(self, schema: TableSchema, *, member_names: bool = False) -> None:
        self._schema = schema
        self._member_names = member_names
        self._readers: dict[str, tuple[str, Reader]] = {}

    def __call__(self, image: str) -> dict[str, Value]:
        """Read one image; raise `MalformedMessage`, or `InvalidValue` with the column's name."""
        row: dict[str, Value] = {}
        members = load(image)
        for name, text in members.items():
            column_name, read = self._readers.get(name) or self._add_reader(name)
            try:
                row[column_name] = read(text)
            except InvalidValue as problem:
                raise InvalidValue(problem.reason, column=name) from None
        if len(row) < len(members):
            raise MalformedMessage("a column is there twice, in different case")
        return row

    def _add_reader(self, name: str) -> tuple[str, Reader]:
        column = self._schema.column(name)
        if column is None or column.name != name:
            raise InvalidValue("the table has no such column", column=name)
        reader = (column.name, make_reader(column.type, self._member_names))
        self._readers[name] = reader
        return reader


class RowWriter:
    """Writes typed rows as MySQL prints them, in column order and without virtual columns."""

    def __init__(self, schema: TableSchema) -> None:
        self._columns = [c for c in schema.columns if c.generated != "virtual"]
        # Created at a column's first value: an unknown type has no writer and may have no values.
        self._writers: dict[str, Writer] = {}

    def __call__(self, row: Mapping[str, Value]) -> dict[str, str | None]:
        """Write one row, without columns that the row lacks.

        Raise `InvalidValue` if a column's type is unknown or its value has another Python type.
        """
        texts: dict[str, str | None] = {}
        for column in self._columns:
            name = column.name
            if name in row:
                try:
                    write = self._writers.get(name)
                    if write is None:
                        write = self._writers[name] = make_writer(column.type)
                    texts[name] = write(row[name])
                except InvalidValue as problem:
                    raise InvalidValue(problem.reason, column=name) from None
        return texts
