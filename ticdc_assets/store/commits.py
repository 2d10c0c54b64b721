"""Commits to Delta tables: the newest ones, and what goes into the next.

Every stage reads the newest commits of every table it works on, and DESCRIBE HISTORY costs Spark a
third of a second of processor time; delta-rs reads the log in milliseconds.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.open_table import open_table
from ticdc_assets.store.run_id import find_run_id
from ticdc_assets.store.sql import delta_table

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Commit:
    """A commit to a Delta table; `metadata` is the text that its writer added."""

    version: int
    operation: str
    metadata: str | None


def read_newest_commits(lake: LakeSession, table: str, limit: int) -> list[Commit]:
    """Read the newest commits of a table, newest first; raise Spark's errors only."""
    path = lake.path(table)
    # Spark then meets the same problem, and raises the error that callers expect.
    with suppress(DeltaError, OSError):
        return list_commits(open_table(path), limit)
    history = lake.spark.sql(f"DESCRIBE HISTORY {delta_table(path)} LIMIT {limit}")
    rows = history.select("version", "operation", "userMetadata").collect()
    return [Commit(*row) for row in rows]


def list_commits(table: DeltaTable, limit: int) -> list[Commit]:
    """List the newest commits of an open table, newest first."""
    return [
        Commit(commit["version"], commit["operation"], commit.get("userMetadata"))
        for commit in table.history(limit)
    ]


def decode_metadata(text: str | None) -> dict[str, Any]:
    """Decode the text that a stage added to its commit; {} for anybody else's."""
    try:
        metadata = json.loads(text or "{}")
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def write_ts(ts: int) -> str:
    """Write the ts at which the rows of a version are what TiDB had, and by which run."""
    run_id = find_run_id()
    return json.dumps({"resolved_ts": ts} | ({} if run_id is None else {"run_id": run_id}))


def group_by_size(
    items: Iterable[_Item], size_of: Callable[[_Item], int], most: int
) -> Iterator[list[_Item]]:
    """Group items into commits of at most `most` bytes, of one item at least."""
    group: list[_Item] = []
    total = 0
    for item in items:
        size = size_of(item)
        if group and total + size > most:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group
