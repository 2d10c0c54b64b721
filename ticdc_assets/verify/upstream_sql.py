"""Hashes of rows in the SQL of MySQL, MariaDB and TiDB."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ticdc_assets.events import Column, ColumnType
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.upstream.sql import ServerSql
from ticdc_assets.verify.canonical import (
    HASH_DIGITS,
    MD5_MARK,
    MOST_BYTES,
    NULL,
    ComparedColumn,
)


@dataclass(frozen=True)
class ServerColumn:
    """A column of a server that holds the values of a compared one, which has another type."""

    column: Column
    type: ColumnType


class HashSql(ServerSql):
    """Writes expressions for one kind of server; `held` are columns that it has otherwise."""

    def __init__(
        self, *, is_tidb: bool, held: Mapping[ComparedColumn, ServerColumn] | None = None
    ) -> None:
        super().__init__(is_tidb=is_tidb)
        self._held = held or {}

    def write_hash(self, columns: Iterable[ComparedColumn]) -> str:
        """Write the hash of the values of columns, a BIGINT."""
        parts = ", ".join(self._write_part(column) for column in columns)
        digits = f"SUBSTRING(MD5(CONCAT_WS(',', {parts})), 1, {HASH_DIGITS})"
        return f"CAST(CONV({digits}, 16, 10) AS UNSIGNED)"

    def _write_part(self, column: ComparedColumn) -> str:
        text = self.write_text(column)
        if column.is_long:
            text = f"MD5({text})"
        elif column.has_bytes:
            text = f"CONCAT(LENGTH({text}), ':', {text})"
        return f"COALESCE({text}, '{NULL}')"

    def write_text(self, column: ComparedColumn) -> str:
        """Write the canonical text of a compared column."""
        held = self._held.get(column)
        return self.write_canonical(column) if held is None else self.write_held(held)

    def write_held(self, held: ServerColumn) -> str:
        """Write the canonical text that the values of a column have in another type."""
        text = self.write_canonical(held.column)
        own = held.column.type
        if describe(own).kind in ("decimal", "datetime", "time"):
            return _fit_fraction(text, own.decimals or 0, held.type.decimals or 0)
        return text

    def write_shown(self, column: ComparedColumn) -> str:
        """Write the canonical text of a column, or if it is too long to be read, its MD5."""
        text = self.write_text(column)
        if not column.is_long:
            return text
        short = f"CONCAT('{MD5_MARK.decode()}', MD5({text}))"
        return f"IF(LENGTH({text}) <= {MOST_BYTES}, {text}, {short})"


def _fit_fraction(text: str, places: int, wanted: int) -> str:
    """Write a text of `places` decimals with `wanted` ones, or more where it needs them."""
    more = wanted - places
    if more > 0:
        return f"CONCAT({text}, '{'' if places else '.'}{'0' * more}')"
    if more < 0:
        whole = f"LEFT({text}, LENGTH({text}) + ({more}))"
        fitting = f"CONCAT({whole}, TRIM(TRAILING '0' FROM RIGHT({text}, {-more})))"
        return fitting if wanted else f"TRIM(TRAILING '.' FROM {fitting})"
    return text
