"""The id of the run that this process works for, by which its logs and its commits are found.

It is that of Dagster's run, or of the command.  What no run does, such as a query, has none.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

_ids: list[str] = []


@contextmanager
def running_as(id: str | None = None) -> Iterator[str]:
    """Work for a run; by default for one that begins here."""
    made = id or str(uuid.uuid4())
    # Threads of the run state it too, so this is no context variable.
    _ids.append(made)
    try:
        yield made
    finally:
        _ids.remove(made)


def find_run_id() -> str | None:
    """Return the id of the run; None outside of one."""
    return _ids[-1] if _ids else None
