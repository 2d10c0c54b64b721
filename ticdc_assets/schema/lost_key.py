"""Tables that lose their last key, of which TiCDC sends no more rows without `force-replicate`."""

from collections.abc import Iterable

from ticdc_assets.events import Index, TableSchema
from ticdc_assets.events.table_schema import fold_name

KEY_LOST = (
    "the DDL removes the last key of the table, and without force-replicate TiCDC sends no rows of"
    " tables without a key: changes are missing from here on, also once the table has a key again;"
    " give it a key, fill a copy of it (CREATE TABLE … LIKE, INSERT … SELECT) and rename the copy"
)
# The new architecture sends neither the DDL that removes the last key nor the rows after it.
_LEFT_OUT = (
    "so TiCDC left out the DDL that removed it, and all changes since; fill a copy of the table"
    " (CREATE TABLE … LIKE, INSERT … SELECT) and rename the copy"
)
PRIMARY_KEY_LOST_UNSEEN = f"there is a primary key already, {_LEFT_OUT}"
KEYS_LOST_UNSEEN = f"the table no longer has the key that it had, {_LEFT_OUT}"


def lacks_key(before: TableSchema, after: TableSchema) -> bool:
    """Whether a table lost its last key by the DDL between two schemas, or before it.

    Rows alone do not say which columns are NOT NULL, so an inferred table has a key as long as it
    has any unique one.
    """
    if after.own_key or (after.origin == "inferred" and after.unique_keys):
        return False
    return bool(before.own_key) or before.lost_key


def lost_keys_unseen(before: TableSchema, replayed: TableSchema, after: TableSchema) -> bool:
    """Whether a DDL that is not in the stream removed the last key of a table.

    The next DDL gives the table a key again, so it is in the stream.  By its statement alone it
    takes `before` to `replayed`; `after` is what the table is, as far as the DDL's message says.
    """
    known, expected, found = (_by_name(s.own_keys) for s in (before, replayed, after))
    added = {name: columns for name, columns in expected.items() if name not in known}
    kept = {name: columns for name, columns in known.items() if expected.get(name) == columns}
    left = {name: columns for name, columns in kept.items() if found.get(name) == columns}
    # The statement adds an index under the name that the lost one had: to the replay, a second one.
    again = [columns for name, columns in added.items() if name not in found]
    return bool(added and kept) and all(columns in again for columns in left.values())


def _by_name(keys: Iterable[Index]) -> dict[str, tuple[str, ...]]:
    return {fold_name(key.name): tuple(map(fold_name, key.columns)) for key in keys}
