"""Read what comes next while the caller works on what came before."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")


def read_ahead(items: Generator[_Item]) -> Generator[_Item]:
    """Yield items, of which another thread makes the next one meanwhile; to be closed.

    When this is closed, that thread is done, and the items are closed.
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(_take, items)
        try:
            while found := coming.result():
                coming = pool.submit(_take, items)
                yield found[0]
        finally:
            # Its error, if it has any, is about an item that nobody waits for.
            coming.exception()
            items.close()


def _take(items: Generator[_Item]) -> tuple[_Item] | None:
    """Return the next item; None behind the last."""
    for item in items:
        return (item,)
    return None
