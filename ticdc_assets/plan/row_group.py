"""What the plan knows of rows without reading them: a line for all that are alike."""

from msgspec import Struct

from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.stream.ordering import OrderKey, Phase


class UndecodedFiles(Struct, frozen=True):
    """Rows of a table's version that are there and cannot be read yet, and why."""

    database: str
    table: str
    version: int
    reason: str

    @property
    def key(self) -> TableKey:
        return table_key(self.database, self.table)


class RowGroup(Struct, frozen=True, kw_only=True):
    """Rows of one table that say the same of their columns, and come in the same way.

    `exact` rows are ordered by their commit ts; others by their arrival, and those that are
    `dated` come after the DDLs of their ts.
    """

    database: str
    table: str
    schema_version: int | None = None
    observed: str | None = None
    # As a JSON list: images have no columns but these, where that is sure.
    columns: str | None = None
    key_columns: tuple[str, ...] | None = None
    member_names: bool = False
    exact: bool = True
    dated: bool = False
    first_ts: int
    last_ts: int
    rows: int
    # How many of the rows are inserts; updates without an old image; known by their key alone.
    inserts: int
    overwrites: int = 0
    key_only: int = 0

    @property
    def first(self) -> OrderKey:
        return self.first_ts, self._phase

    @property
    def last(self) -> OrderKey:
        return self.last_ts, self._phase

    @property
    def _phase(self) -> int:
        return Phase.AFTER_DDLS if self.dated else Phase.ROWS
