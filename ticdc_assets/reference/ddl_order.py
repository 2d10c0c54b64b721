"""In which order DDLs of one commit ts go, whoever carries them out."""

from collections.abc import Iterable, Iterator

from ticdc_assets.events import SchemaChange
from ticdc_assets.schema.catalog import Catalog


def in_order(changes: Iterable[SchemaChange], catalog: Catalog) -> Iterator[SchemaChange]:
    """Give DDLs out in the order they were sent in, but renames when they can be carried out.

    The messages of one RENAME TABLE may come by different topics or files.  Whoever takes a change
    moves the catalog on before taking the next.
    """
    waiting = list(changes)
    while waiting:
        ready = (change for change in waiting if not catalog.blocked(change))
        change = next(ready, waiting[0])
        waiting.remove(change)
        yield change
