"""What a commit says of itself: where its stage has got to, in the commit's own metadata.

Read back from the last few commits, so it costs the same however large a table is.  A mark is
believed only if nothing after it can have taken rows away or brought others back.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrameWriter

from ticdc_assets.lake.store.commits import newest_commits
from ticdc_assets.lake.store.lake import LakeSession

# What commits of ours, and of maintenance, are called in a table's history.
_HARMLESS = {"WRITE", "CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "DELETE"}
_HARMLESS |= {"SET TBLPROPERTIES", "CLUSTER BY", "UPGRADE PROTOCOL", "REORG", "UPDATE", "MERGE"}
_LOOKED_AT = 50


@dataclass(frozen=True)
class StageCommit:
    """The last commit of a stage: its number among those of the stage, and what it left word of."""

    number: int
    said: Mapping[str, Any] = field(default_factory=dict)
    # Whether such a commit was found; if not, the number is only greater than all there were.
    found: bool = False


def last_stage_commit(lake: LakeSession, table: str, stage: str) -> StageCommit:
    """The newest commit of a stage in a table."""
    believed = True
    version = newest = 0
    for commit in newest_commits(lake.spark, lake.path(table), _LOOKED_AT):
        version = commit.version
        newest = max(newest, version)
        said = _said(commit.said)
        if said.get("stage") == stage:
            # A number is never used again, not even of a commit that was taken back.
            return StageCommit(said["number"], said if believed else {}, found=believed)
        believed = believed and commit.operation in _HARMLESS
    if newest == 0:
        # The table was made, and no more.
        return StageCommit(0, found=True)
    # A stage's numbers grow by one with a commit at most, so no version is below any of them.
    return StageCommit(newest if version else 0)


def stage_writer(
    writer: DataFrameWriter, stage: str, number: int, **said: Any
) -> tuple[DataFrameWriter, str]:
    """A writer whose commit is made only if no later one of the stage was; and its token."""
    token = secrets.token_hex(8)
    text = json.dumps({"stage": stage, "number": number, "token": token, **said})
    writer = writer.format("delta").option("txnAppId", stage).option("txnVersion", number)
    return writer.option("userMetadata", text), token


def was_committed(lake: LakeSession, table: str, token: str) -> bool:
    """Whether the commit of that token is there: Delta skips what another run has done."""
    commits = newest_commits(lake.spark, lake.path(table), 10)
    return any(_said(commit.said).get("token") == token for commit in commits)


def _said(text: str | None) -> dict[str, Any]:
    try:
        said = json.loads(text or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
