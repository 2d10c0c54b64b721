"""What the rows of tables weigh, by the footers of the files of their events."""

from collections.abc import Mapping
from pathlib import Path

from ticdc_assets.lake.apply.event_weights import BYTES_PER_ROW, weigh_events
from ticdc_assets.lake.apply.pending_rows import EventFiles
from ticdc_assets.lake.events.event_files import write_events
from ticdc_assets.store.event_rows import make_batch
from ticdc_assets.store.lake import Lake

LONG = 200 * BYTES_PER_ROW


def write_rows(location: Lake, images: Mapping[str, list[str]]) -> EventFiles:
    """Write a file for each half of the rows of some tables."""
    files = []
    for half in (0, 1):
        rows = [
            {"kind": "row", "name": name, ("before", "after")[number % 2]: image}
            for name, of_table in images.items()
            for number, image in enumerate(of_table[half::2])
        ]
        files += [each.file for each in write_events(location, [make_batch(rows)])]
    return EventFiles(tuple(f.path for f in files), sum(f.rows for f in files), 1)


def test_a_row_with_long_images_counts_as_several(tmp_path: Path) -> None:
    # Repeated letters: next to nothing as Parquet, and no two images are equal.
    location = Lake(str(tmp_path), "feed")
    images = {
        "`d`.`a`": [f'{{"id": "{n}"}}' for n in range(3000)],
        "`d`.`m`": [f'{{"id": "{n}", "v": "{"x" * LONG}"}}' for n in range(40)],
        "`d`.`z`": [f'{{"id": "{n}"}}' for n in range(3000)],
    }
    weights = weigh_events(location, write_rows(location, images))
    long = sum(map(len, images["`d`.`m`"])) // BYTES_PER_ROW
    assert long <= weights.weigh({"`d`.`m`"}, 40) <= 1.1 * long + 6040
    assert long <= weights.total <= 1.1 * long + 6040
    # No file has its name.
    assert weights.weigh({"`d`.`zz`"}, 0) == 0
    only_short = {name: rows for name, rows in images.items() if name != "`d`.`m`"}
    weights = weigh_events(location, write_rows(location, only_short))
    assert (weights.total, weights.weigh({"`d`.`a`"}, 3000)) == (6000, 3000)
