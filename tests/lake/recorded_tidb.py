"""What a real TiDB answers at each TSO while a DDL runs: `ddl_jobs.json`.

Recorded with `tidb_snapshot` at every TSO at which an answer changed: the jobs of
`mysql.tidb_ddl_job`, without the arguments that nobody reads here, and each table's id and
`SHOW CREATE TABLE`.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ticdc_assets.upstream.snapshot import (
    Pace,
    Row,
    RowsUnreadable,
    TableUnreadable,
    UpstreamSnapshot,
)

DATABASE = "rec"
_NAMED = re.compile(r"TABLE_NAME = '(\w+)'|TABLE `rec`\.`(\w+)`")


@dataclass(frozen=True)
class Recording:
    """A statement, the ts that TiCDC gives it, and the answers from one TSO to the next."""

    sql: str
    done: int
    answers: Sequence[Mapping[str, Any]]

    @property
    def changes(self) -> list[int]:
        """The TSOs from which on an answer is another one."""
        return [answer["from"] for answer in self.answers]

    @property
    def middle(self) -> int:
        """The last TSO before the DDL is done."""
        return self.done - 1

    @property
    def tables(self) -> list[str]:
        return list(self.answers[0]["shown"])

    def find(self, ts: int, key: str) -> Any:
        """Return the answer at a TSO; one is recorded again only if it is another one."""
        known = self.answers[: bisect_right(self.changes, ts)] if ts else self.answers
        return next(answer[key] for answer in reversed(known) if key in answer)


@cache
def read_recordings() -> dict[str, Recording]:
    """Read all recordings, by their statement."""
    text = Path(__file__).with_name("ddl_jobs.json").read_text()
    return {case["sql"]: Recording(**case) for case in json.loads(text)}


@dataclass
class RecordedTidb:
    """A connection to it; `may_read_jobs` says whether the user has the right to read the jobs."""

    recording: Recording
    # 0 is the present.
    ts: int = 0
    may_read_jobs: bool = True
    is_tidb: bool = True
    read: list[int] = field(default_factory=list)
    # Connections that read at any TSO say so otherwise than those of a snapshot.
    missing: type[Exception] = RowsUnreadable

    @contextmanager
    def open(self) -> Iterator["RecordedTidb"]:
        yield self

    @contextmanager
    def open_snapshot(self, ts: int) -> Iterator[UpstreamSnapshot]:
        self.ts, self.missing = ts, TableUnreadable
        yield UpstreamSnapshot([self], Pace(None), is_tidb=True, ts=ts)

    def read_at(self, ts: int) -> None:
        self.ts = ts
        self.read.append(ts)

    def query(self, sql: str, values: Sequence[str] | None = None) -> Sequence[Row]:
        if "tidb_ddl_job" in sql:
            if not self.may_read_jobs:
                raise TableUnreadable("SELECT command denied to user")
            jobs = self.recording.find(self.ts, "jobs")
            return [(meta.encode(), ids.encode()) for meta, ids in jobs]
        shown = self.recording.find(self.ts, "shown")
        if named := _NAMED.search(sql):
            name = named[1] or named[2]
            if (found := shown.get(name)) is None:
                if sql.startswith("SHOW"):
                    raise self.missing(f"Table '{name}' doesn't exist")
                return []
            id, create = found
            text = create if sql.startswith("SHOW") else str(id)
            return [(name.encode(), text.encode())] if text is create else [(text.encode(),)]
        assert "TIDB_TABLE_ID" in sql, sql
        kind = DATABASE.encode(), b"BASE TABLE", b"0"
        listed = sorted((name, found[0]) for name, found in shown.items() if found is not None)
        return [(kind[0], name.encode(), *kind[1:], str(id).encode()) for name, id in listed]

    def stream(self, sql: str) -> Generator[Sequence[Row]]:
        raise NotImplementedError

    def renew(self) -> None: ...
