"""What the plan knows of rows without reading them: row groups, and files not decoded yet."""

from msgspec import Struct

from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.stream.ordering import OrderKey, Phase


class UndecodedFiles(Struct, frozen=True):
    """Files of one table version that could not be decoded yet, and why."""

    database: str
    table: str
    version: int
    reason: str

    @property
    def key(self) -> TableKey:
        return table_key(self.database, self.table)


class RowGroup(Struct, frozen=True, kw_only=True):
    """Pending rows of one table that share schema version, stated columns and ordering.

    No DDL of the table comes between them.  Rows are ordered by commit ts, or by arrival;
    `after_ddls` says that they come after the DDLs of their ts.
    """

    database: str
    table: str
    schema_version: int | None = None
    observed: str | None = None
    # The only columns that the images can have, as a JSON list; None if that is not certain.
    columns: str | None = None
    key_columns: tuple[str, ...] | None = None
    member_names: bool = False
    ordered_by_commit_ts: bool = True
    after_ddls: bool = False
    first_ts: int
    last_ts: int
    rows: int
    # How many rows are inserts, upserts, updates without an old image, rows with nothing but their
    # key, and rows with checksums.
    inserts: int
    upserts: int = 0
    overwrites: int = 0
    key_only: int = 0
    checksums: int = 0

    @property
    def key(self) -> TableKey:
        return table_key(self.database, self.table)

    @property
    def first(self) -> OrderKey:
        return self.first_ts, self._phase

    @property
    def last(self) -> OrderKey:
        return self.last_ts, self._phase

    @property
    def _phase(self) -> int:
        return Phase.AFTER_DDLS if self.after_ddls else Phase.ROWS
