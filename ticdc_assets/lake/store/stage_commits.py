"""The progress of a stage, kept in the metadata of its commits.

Only the last few commits are read back, so the cost does not depend on the size of the table.  A
stage's metadata is trusted only if no later commit can have removed rows or restored old ones.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrameWriter

from ticdc_assets.lake.store.commits import decode_metadata, read_newest_commits
from ticdc_assets.lake.store.lake import LakeSession

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
    for commit in read_newest_commits(lake.spark, lake.path(table), _COMMITS_TO_SEARCH):
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


def make_stage_writer(
    writer: DataFrameWriter, stage: str, number: int, **metadata: Any
) -> tuple[DataFrameWriter, str]:
    """Return a writer that Delta ignores once the stage has reached `number`, and a token."""
    token = secrets.token_hex(8)
    text = json.dumps({"stage": stage, "number": number, "token": token, **metadata})
    writer = writer.format("delta").option("txnAppId", stage).option("txnVersion", number)
    return writer.option("userMetadata", text), token


def was_committed(lake: LakeSession, table: str, token: str) -> bool:
    """Return whether the commit with a token exists: a concurrent run's commit makes ours void."""
    commits = read_newest_commits(lake.spark, lake.path(table), _COMMITS_TO_VERIFY)
    return any(decode_metadata(commit.metadata).get("token") == token for commit in commits)
