"""The progress of a stage, kept in the metadata of its commits.

Only the last few commits are read back, so the cost does not depend on the size of the table.  A
stage's metadata is trusted only if no later commit can have removed rows or restored old ones.
"""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from pyspark.sql import DataFrame

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.commits import decode_metadata, read_newest_commits
from ticdc_assets.store.data_files import WrittenFile
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.run_id import find_run_id
from ticdc_assets.store.tables import COUNTED_STAGE
from ticdc_assets.store.writer import ConcurrentCommit, LakeWriter, is_writable

# Operations of stages and of maintenance: none of them takes a table back in time.
_HARMLESS = {"WRITE", "CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "DELETE"}
_HARMLESS |= {"SET TBLPROPERTIES", "CLUSTER BY", "UPGRADE PROTOCOL", "REORG", "UPDATE", "MERGE"}
_COMMITS_TO_SEARCH = 50
_COMMITS_TO_VERIFY = 10


@dataclass(frozen=True)
class StageCommit:
    """The last commit of a stage: its number among the stage's commits, and its metadata."""

    number: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    # Whether a trusted commit was found; if not, `number` is only no less than all of the stage's.
    found: bool = False


def read_last_stage_commit(lake: LakeSession, table: str, stage: str) -> StageCommit:
    """Read the newest commit of a stage to a table."""
    is_trusted = True
    version = newest = 0
    for commit in read_newest_commits(lake, table, _COMMITS_TO_SEARCH):
        version = commit.version
        newest = max(newest, version)
        metadata = decode_metadata(commit.metadata)
        if metadata.get("stage") == stage:
            # A number is never used again, even if its commit was taken back.
            return StageCommit(metadata["number"], metadata if is_trusted else {}, found=is_trusted)
        is_trusted = is_trusted and commit.operation in _HARMLESS
    if newest == 0:
        # The table was created and never written.
        return StageCommit(0, found=True)
    # A stage's number grows by at most one per commit, so no version is below any number.
    return StageCommit(newest if version else 0)


@dataclass(frozen=True)
class StageMark:
    """What the commit of a stage says of itself: its number, and how far the stage has got.

    A commit is void once its stage has reached the number: a concurrent run was faster.
    """

    stage: str
    number: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def text(self) -> str:
        named = {"stage": self.stage, "number": self.number, "token": self.token}
        run_id = find_run_id()
        run = {} if run_id is None else {"run_id": run_id}
        return json.dumps(named | run | dict(self.metadata))

    @property
    def properties(self) -> CommitProperties:
        """Return the mark for a commit of delta-rs."""
        return CommitProperties(
            # Where Spark's commits have it.
            custom_metadata={"userMetadata": self.text},
            app_transactions=[Transaction(self.stage, self.number)],
        )

    @property
    def options(self) -> dict[str, str]:
        """Return the mark for a commit of Spark."""
        number = str(self.number)
        return {"txnAppId": self.stage, "txnVersion": number, "userMetadata": self.text}


def commit_rows(
    lake: LakeSession,
    table: str,
    rows: pa.Table,
    mark: StageMark,
    *,
    rows_per_group: int | None = None,
) -> bool:
    """Append rows of the driver to a table; return False if the commit was void.

    Without rows, the commit has the mark alone.
    """
    opened = LakeReader(lake.location).open(table)
    if mark.stage == COUNTED_STAGE:
        # After the table was opened: see `lease`.
        check_lock(lake.location)
    if not is_writable(opened):
        frame = lake.make_frame(rows).coalesce(1) if len(rows) else lake.read(table).limit(0)
        return commit_frame(lake, table, frame, mark)
    return _commit(
        lake,
        table,
        opened,
        mark,
        lambda w: w.append(opened, rows, mark.properties, rows_per_group=rows_per_group),
    )


def commit_files(
    lake: LakeSession, table: str, files: Sequence[WrittenFile], mark: StageMark
) -> bool:
    """Add data files to a table that delta-rs writes; return False if the commit was void."""
    opened = LakeReader(lake.location).open(table)
    return _commit(
        lake, table, opened, mark, lambda w: w.append_files(opened, files, mark.properties)
    )


# Parameters: a table of a lake, open, and its next commit.
def _commit(
    lake: LakeSession,
    table: str,
    opened: DeltaTable,
    mark: StageMark,
    write: Callable[[LakeWriter], None],
) -> bool:
    """Write a commit to an open table; return False if it was void."""
    if _has_reached(opened, mark):
        return False
    writer = LakeWriter(lake.location)
    try:
        write(writer)
    except ConcurrentCommit:
        if _has_reached(LakeReader(lake.location).open(table), mark):
            return False
        raise
    # The commit is there, whatever becomes of this; the next one tries again.
    with suppress(ConfigError):
        writer.compact_many(opened)
    return True


def commit_frame(
    lake: LakeSession,
    table: str,
    frame: DataFrame,
    mark: StageMark,
    replaced: str | None = None,
) -> bool:
    """Append rows with Spark; return False if the commit was void.

    The commit removes the rows for which the SQL condition `replaced` holds.
    """
    writer = frame.write.format("delta").mode("append" if replaced is None else "overwrite")
    if replaced is not None:
        writer = writer.option("replaceWhere", replaced)
    writer.options(**mark.options).save(lake.path(table))
    return _was_committed(lake, table, mark)


def _has_reached(table: DeltaTable, mark: StageMark) -> bool:
    return (table.transaction_version(mark.stage) or 0) >= mark.number


def _was_committed(lake: LakeSession, table: str, mark: StageMark) -> bool:
    commits = read_newest_commits(lake, table, _COMMITS_TO_VERIFY)
    return any(decode_metadata(commit.metadata).get("token") == mark.token for commit in commits)
