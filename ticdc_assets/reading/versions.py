"""The history of a table, and its changes, up to one ts: where the changefeed keeps them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema

from ticdc_assets.errors import ConfigError
from ticdc_assets.events.tso_text import describe_ts
from ticdc_assets.lake.history.marks import UpdateMark, find_marked_version
from ticdc_assets.log.applied_files import read_existing_snapshot, read_snapshot_names
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.reading.rows import ReadableRows
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows

Kind = Literal["history", "changes"]


@dataclass(frozen=True, repr=False, eq=False)
class PinnedVersions(ReadableRows):
    """The versions of the rows of a table, or their changes, up to a ts."""

    _stored: StoredRows
    _kind: Kind
    _ts: int

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema(Schema.from_json(self._stored.state.schema).to_arrow())

    def _open(self, schema: pa.Schema) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(schema, self._read(schema))

    def _read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        cut = _CUTS[self._kind]
        for block in self._stored.read():
            columns = [self._fit(block[field.name], field) for field in self.arrow_schema]
            rows = pa.Table.from_arrays(columns, schema=self.arrow_schema)
            yield from cut(rows, self._ts).select(schema.names).to_batches()

    def _fit(self, array: pa.Array, field: pa.Field) -> pa.Array:
        """Give a column of a file, which may be older, the type that it has now."""
        if not pa.types.is_struct(field.type) or pa.types.is_null(array.type):
            return array.cast(field.type)
        names, known = self._stored.read_names(field.name), {f.name for f in array.type}
        children = [
            array.field(names[inner.name]).cast(inner.type)
            if names[inner.name] in known
            else pa.nulls(len(array), inner.type)
            for inner in field.type
        ]
        return pa.StructArray.from_arrays(children, fields=[*field.type], mask=array.is_null())


def _cut_history(rows: pa.Table, ts: int) -> pa.Table:
    """Leave out the versions after a ts; those that are valid there have no end."""
    rows = rows.filter(pc.less_equal(rows["_valid_from"], ts))
    is_open = pc.greater(rows["_valid_to"], ts)
    for name in ("_valid_to", "_valid_to_time"):
        place, column = rows.schema.get_field_index(name), rows[name]
        ends = pc.if_else(pc.fill_null(is_open, True), pa.scalar(None, column.type), column)
        rows = rows.set_column(place, rows.schema.field(name), ends)
    return rows


def _cut_changes(rows: pa.Table, ts: int) -> pa.Table:
    return rows.filter(pc.less_equal(rows["commit_ts"], ts))


_CUTS: Mapping[Kind, Callable[[pa.Table, int], pa.Table]] = {
    "history": _cut_history,
    "changes": _cut_changes,
}


def open_versions(reader: LakeReader, table: Incarnation, kind: Kind, ts: int) -> PinnedVersions:
    """Open what the changefeed keeps of a table, complete up to a ts; else raise an error."""
    name = f"{table.schema.database}.{table.schema.table}"
    found = find_marked_version(reader, f"{kind}/{table.id}")
    if found is None:
        reason = f"the changefeed keeps none of {name}: its setting {kind!r} names tables"
        raise ConfigError(reason, setting=kind)
    if not _is_complete(reader, table.id, found.mark, ts):
        reason = (
            f"those of {name} are complete up to {describe_ts(found.mark.ts)}: read them at this"
            " TSO, or after the next run"
        )
        raise ConfigError(reason, setting=kind)
    stored = StoredRows(reader, f"{kind}/{table.id}", found.version)
    if unknown := stored.unknown_features:
        reason = f"only Spark reads Delta's {', '.join(sorted(unknown))}"
        raise ConfigError(reason, file=reader.location.path(f"{kind}/{table.id}"))
    return PinnedVersions(stored, kind, ts)


def _is_complete(reader: LakeReader, id: str, mark: UpdateMark, ts: int) -> bool:
    """Whether a history shows its table up to a ts, as the newest snapshot has it."""
    if mark.version == read_existing_snapshot(reader).versions.get(id):
        return True
    names = read_snapshot_names(reader)
    replays = (n.snapshot_id for n in names if n.replayed_from is not None)
    return mark.ts >= ts and not any(id > mark.snapshot_id for id in replays)
