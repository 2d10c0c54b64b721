"""Every version of a current table is a true state: the one that TiDB had at the ts it states."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.lake.golden_runs import GoldenLake, compare_with_model
from ticdc_assets.lake.log.applied import read_last_snapshot
from ticdc_assets.rows.lines import format_blocks
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.views.asof import as_of

# What takes a table to the next version without rows of it: it states nothing.
_PREPARING = frozenset(
    (
        *("SET TBLPROPERTIES", "CLUSTER BY", "ADD COLUMNS", "ADD COLUMN", "ADD FEATURE"),
        *("RENAME COLUMN", "DROP COLUMNS", "CHANGE COLUMN", "UPDATE", "UNSET TBLPROPERTIES"),
        *("VACUUM START", "VACUUM END", "OPTIMIZE"),
    )
)


def compare_versions(golden: GoldenLake) -> int:
    """Compare the versions of all current tables with the model; return how many there were."""
    reader, count = LakeReader(golden.lake.location), 0
    for id in read_last_snapshot(golden.lake).versions:
        for version, commit in _list_commits(Path(golden.lake.current_path(id))):
            stated = commit.get("userMetadata")
            if stated is None:
                assert commit["operation"] in _PREPARING, commit
                continue
            ts = json.loads(stated)["resolved_ts"]
            table = as_of(golden.lake, ts).state.incarnations[id]
            if table.status == "dropped":
                # TiDB has it no more; it stays as it was.
                continue
            blocks = StoredRows(reader, f"current/{id}", version).read()
            rows = [
                json.loads(line) for lines in format_blocks(blocks, table.schema) for line in lines
            ]
            compare_with_model(golden.dataset, ts, table.schema, rows)
            count += 1
    return count


def _list_commits(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for path in sorted(folder.glob("_delta_log/*.json")):
        actions = map(json.loads, path.read_text().splitlines())
        yield int(path.stem), next(a["commitInfo"] for a in actions if "commitInfo" in a)
