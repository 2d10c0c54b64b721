"""The order in which DDLs of one commit ts apply."""

from collections.abc import Iterable, Iterator

from ticdc_assets.events import SchemaChange
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.name_resolution import is_blocked


def order_ddls(
    changes: Iterable[SchemaChange], catalog: SchemaCatalog, *, more_may_come: bool = False
) -> Iterator[SchemaChange]:
    """Yield DDLs in the order TiCDC sent them, each RENAME as soon as it is possible.

    TiCDC may send the parts of one RENAME TABLE through different topics or files.  The caller must
    apply each DDL to the catalog before it takes the next.  With `more_may_come`, DDLs that remain
    blocked are not yielded: the part that unblocks them may still arrive.
    """
    pending = list(changes)
    while pending:
        ready = (change for change in pending if not is_blocked(change, catalog))
        change = next(ready, None if more_may_come else pending[0])
        if change is None:
            return
        pending.remove(change)
        yield change
