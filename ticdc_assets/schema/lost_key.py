"""Tables that lose their last key, of which TiCDC sends no more rows without `force-replicate`."""

from ticdc_assets.events import TableSchema

KEY_LOST = (
    "the DDL removes the last key of the table, and without force-replicate TiCDC sends no rows of"
    " tables without a key: changes are missing from here on, also once the table has a key again;"
    " give it a key, fill a copy of it (CREATE TABLE … LIKE, INSERT … SELECT) and rename the copy"
)
# The new architecture sends neither the DDL that removes the last key nor the rows after it.
KEY_LOST_UNSEEN = (
    "there is a primary key already, so TiCDC left out the DDL that removed it, and all changes"
    " since; fill a copy of the table (CREATE TABLE … LIKE, INSERT … SELECT) and rename the copy"
)


def lacks_key(before: TableSchema, after: TableSchema) -> bool:
    """Whether a table lost its last key by the DDL between two schemas, or before it.

    Rows alone do not say which columns are NOT NULL, so an inferred table has a key as long as it
    has any unique one.
    """
    if after.own_key or (after.origin == "inferred" and after.unique_keys):
        return False
    return bool(before.own_key) or before.lost_key
