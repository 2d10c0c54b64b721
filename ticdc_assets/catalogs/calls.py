"""Calls of a catalog: several at once, for a limited time, and none that holds a run.

Nothing ends a call that gets no answer, or a byte of one now and then.  Its thread is left behind:
it makes no further call, and the process ends without it.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from ticdc_assets.errors import CatalogDown, CatalogError, ConfigError
from ticdc_assets.safe_text import describe_error

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_AT_ONCE = 8
# How long the calls that were begun in time are waited for.
_LAST_SECONDS = 15.0
_ends: ContextVar[tuple[float, float]] = ContextVar("ends", default=(math.inf, math.inf))


@contextmanager
def limited_calls(seconds: float) -> Iterator[None]:
    """Stop this thread, and those it starts, from calling a catalog after so many seconds."""
    token = _ends.set(min(_ends.get(), (time.monotonic() + seconds, seconds)))
    try:
        yield
    finally:
        _ends.reset(token)


def require_time() -> None:
    """Raise a `CatalogDown` if there is no time left; clients ask before each request."""
    ends, seconds = _ends.get()
    if time.monotonic() >= ends:
        raise CatalogDown(f"took longer than {seconds:.0f} s")


def call_each(
    call: Callable[[_Item], _Answer], items: Iterable[_Item]
) -> dict[_Item, _Answer | CatalogError]:
    """Call for each item; return its answer, or the error that says why there is none.

    After a `CatalogDown` no further call is begun, and all others have that error.
    """
    waiting = deque(items)
    ends, seconds = _ends.get()
    silent = CatalogDown(f"gives no answer within {seconds + _LAST_SECONDS:.0f} s")
    found: dict[_Item, _Answer | CatalogError] = dict.fromkeys(waiting, silent)
    answers: SimpleQueue[tuple[_Item, _Answer | CatalogError]] = SimpleQueue()
    down: list[CatalogDown] = []

    def work() -> None:
        while waiting:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            answer = down[0] if down else _call(call, item)
            if isinstance(answer, CatalogDown):
                down.append(answer)
            answers.put((item, answer))

    for _ in range(min(_AT_ONCE, len(found))):
        Thread(target=copy_context().run, args=(work,), daemon=True).start()
    for _ in range(len(found)):
        left = ends + _LAST_SECONDS - time.monotonic()
        try:
            item, answer = answers.get(timeout=None if left == math.inf else max(left, 0.0))
        except Empty:
            break
        found[item] = answer
    return found


def _call(call: Callable[[_Item], _Answer], item: _Item) -> _Answer | CatalogError:
    try:
        require_time()
        return call(item)
    except CatalogError as error:
        return error
    except ConfigError as error:
        return CatalogError(str(error))
    except Exception as error:
        return CatalogError(f"unexpected {type(error).__name__}: {describe_error(error)}")
