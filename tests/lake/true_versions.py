"""Every version of a current table is a true state: the one that TiDB had at the ts it states."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tests.lake.golden_runs import GoldenLake, compare_with_model
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.rows.lines import format_blocks
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.views.asof import as_of

# What takes a table of plain features to the next version without rows of it.
PREPARING_PLAIN = ("ADD COLUMN", "ADD COLUMNS", "CLUSTER BY", "SET TBLPROPERTIES")
# What takes a table to the next version without rows of it: it states nothing.
PREPARING = frozenset(
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
        for version, ts, _ in list_stated(Path(golden.lake.current_path(id)), PREPARING):
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


def list_stated(
    folder: Path, preparing: Collection[str], above: int = -1
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the versions above one that state a ts, the ts, and what each commit says of itself.

    The others prepare the table only, by these operations.
    """
    for path in sorted(folder.glob("_delta_log/*[0-9].json")):
        if int(path.stem) <= above:
            continue
        actions = map(json.loads, path.read_text().splitlines())
        (about,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
        if "userMetadata" in about:
            yield int(path.stem), json.loads(about["userMetadata"])["resolved_ts"], about
        else:
            assert about["operation"] in preparing, about
