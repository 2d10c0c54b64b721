"""Data files of `events`: how readers find the rows of a table in them."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ticdc_assets.lake.events.event_files import write_events
from ticdc_assets.store.event_rows import make_batch
from ticdc_assets.store.lake import Lake

ROWS = 10_000


@pytest.mark.parametrize(
    ("names", "groups"), [([None, "`d`.`t`"], 1), (["`d`.`u`", None, "`d`.`t`"], 2)]
)
def test_only_a_file_of_several_tables_has_small_row_groups(
    tmp_path: Path, names: list[str | None], groups: int
) -> None:
    batch = make_batch([{"kind": "row", "name": names[n % len(names)]} for n in range(ROWS)])
    [written] = write_events(Lake(str(tmp_path), "feed"), [batch])
    file = pq.ParquetFile(Path(Lake(str(tmp_path), "feed").path("events")) / written.file.path)
    assert (file.metadata.num_rows, file.num_row_groups) == (ROWS, groups)
    if groups > 1:
        found = file.read(["name"])["name"].to_pylist()
        assert found == sorted(found, key=lambda name: (name is None, name))
