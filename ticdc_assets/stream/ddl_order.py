"""In which order DDLs of one commit ts go, whoever carries them out."""

from collections.abc import Iterable, Iterator

from ticdc_assets.events import SchemaChange
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.name_resolution import is_blocked


def order_ddls(
    changes: Iterable[SchemaChange], catalog: SchemaCatalog, *, more_may_come: bool = False
) -> Iterator[SchemaChange]:
    """Give DDLs out in the order they were sent in, but renames when they can be carried out.

    The messages of one RENAME TABLE may come by different topics or files.  Whoever takes a change
    moves the catalog on before taking the next.  Where more may come, what cannot be carried out
    without it is not given out.
    """
    waiting = list(changes)
    while waiting:
        ready = (change for change in waiting if not is_blocked(change, catalog))
        change = next(ready, None if more_may_come else waiting[0])
        if change is None:
            return
        waiting.remove(change)
        yield change
