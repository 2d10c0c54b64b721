"""The rows of a snapshot, read in this process: what `asof` shows at a snapshot's own ts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from ticdc_assets.lake.columns.row_order import sort_by_key
from ticdc_assets.lake.columns.stored_values import format_blocks
from ticdc_assets.lake.log.applied_files import find_base, read_existing_snapshot, read_snapshot
from ticdc_assets.lake.store.reader import LakeReader
from ticdc_assets.lake.store.stored_rows import StoredRows
from ticdc_assets.lake.views.lake_range import require_in_range
from ticdc_assets.lake.views.tables_at import TablesAt
from ticdc_assets.plan.state import Incarnation

# From about this many values on, Spark's cores make up for its start.
_MAX_VALUES = 5_000_000


@dataclass(frozen=True)
class SnapshotView(TablesAt):
    """All tables at a snapshot, with the rows of those that are not waiting or paused."""

    _reader: LakeReader
    _versions: Mapping[str, int]

    def why_spark(self, table: Incarnation) -> str | None:
        """Return why Spark has to read the rows of a table; None if it does not have to."""
        if table.is_stopped or table.id not in self._versions:
            return None
        stored = self._open(table)
        rows = stored.count()
        if rows * len(table.schema.columns) > _MAX_VALUES:
            return f"{rows:,} rows"
        if unknown := stored.unknown_features:
            return f"Delta's {', '.join(sorted(unknown))}"
        return None if stored.has_files else "files that maintenance removed"

    def lines(self, table: Incarnation, *, by_key: bool = False) -> Iterator[bytes]:
        """Yield a table's rows as JSON lines in the order of `asof`."""
        if table.is_stopped or table.id not in self._versions:
            return
        lines = chain.from_iterable(format_blocks(self._open(table).read(), table.schema))
        yield from sort_by_key(lines, table.schema) if by_key else sorted(lines)

    def _open(self, table: Incarnation) -> StoredRows:
        return StoredRows(self._reader, f"current/{table.id}", self._versions[table.id])


def view_snapshot(reader: LakeReader, ts: int | None) -> SnapshotView | None:
    """View the lake at a ts, by default the newest; None if the ts is not that of a snapshot."""
    last = read_existing_snapshot(reader)
    if ts is None or ts == last.ts:
        return SnapshotView(last.ts, last.state, reader, last.versions)
    require_in_range(reader, ts, last)
    base = read_snapshot(reader, find_base(reader, last, ts))
    if base.ts != ts:
        return None
    return SnapshotView(ts, base.state, reader, base.versions)
