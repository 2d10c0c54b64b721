"""Leave rows out of a load that were erased since its ts, or at that ts.

An export that is older than an erasure still has the row.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.dumpling.rows import OWN_FIELDS, list_stored
from ticdc_assets.events import TableSchema
from ticdc_assets.events.escaped_text import unescape_text
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.log.erasures import make_digest, read_erasures
from ticdc_assets.store.event_rows import make_table_name
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.texts import replace_surrogates

_Batches = Iterable[tuple[str, pa.RecordBatch]]


@dataclass(frozen=True)
class ErasedKeys:
    """The keys of a table that were erased: where they are in batches, and their digests."""

    places: tuple[int, ...]
    salt: str
    digests: frozenset[str]

    def find(self, batch: pa.RecordBatch) -> pa.Array:
        """Return which rows of a batch have such a key."""
        columns = [batch.column(len(OWN_FIELDS) + place).to_pylist() for place in self.places]
        escaped = batch.column("escaped").to_pylist()
        found = [
            make_digest(self.salt, _read(texts, is_escaped)) in self.digests
            for is_escaped, texts in zip(escaped, zip(*columns, strict=True), strict=True)
        ]
        return pa.array(found, pa.bool_())


def read_erased_keys(reader: LakeReader, schema: TableSchema, ts: int) -> tuple[ErasedKeys, ...]:
    """Read which keys of a table were erased of what it had at a ts."""
    name = replace_surrogates(make_table_name(schema.database, schema.table))
    stored = {fold_name(column.name): n for n, column in enumerate(list_stored(schema))}
    found = []
    for erasure in read_erasures(reader):
        for place in erasure.places if ts <= erasure.through_ts else ():
            numbers = [stored.get(fold_name(column)) for column in place.columns]
            known = tuple(number for number in numbers if number is not None)
            if place.name == name and place.covers(ts) and len(known) == len(numbers):
                found.append(ErasedKeys(known, erasure.salt, erasure.digests))
    return tuple(found)


def leave_out_erased(
    batches: _Batches, erased: Iterable[ErasedKeys]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield batches without the rows that were erased."""
    for source, batch in batches:
        for keys in erased:
            batch = batch.filter(pc.invert(keys.find(batch)))
        yield source, batch


def _read(texts: tuple[str | None, ...], is_escaped: bool | None) -> list[str | None]:
    return [unescape_text(text) if is_escaped and text is not None else text for text in texts]
