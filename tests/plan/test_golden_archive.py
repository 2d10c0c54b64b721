"""Golden datasets with archived tables: rows that are there equal TiDB, kept ones the event list.

The model that says which rows are kept goes from event to event; the engine does whole windows, as
a whole, in parts, or by merges.
"""

from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random
from zlib import crc32

import pytest

from tests.golden import datasets, released_datasets
from tests.plan.engine import Engine
from tests.plan.test_golden_windows import arriving, compare, is_usual, started
from tests.reference.archive_model import ArchiveModel, Kept
from tests.reference.golden_feeds import (
    END_STATE_ONLY,
    PARTITIONED_DIFFER,
    UNUSABLE,
    allowed,
    feed_of,
)
from tests.truth import truth
from tests.usual import is_one_of, usual
from ticdc_assets.changefeed.archive import ALL_DELETES, Deletes, TableArchive
from ticdc_assets.events import TableSchema
from ticdc_assets.schema.types.row import RowWriter
from ticdc_assets.stream.rules import make_rules

OF_DDL: tuple[Deletes, ...] = ("truncate", "drop-partition")
DELETES = {"all": ALL_DELETES, "of-ddl": OF_DDL}


def takes_every_run(dataset: str, deletes: str) -> bool:
    """Take a third of the quick cases of the windows, others with all deletes than with DDL's."""
    return is_usual(dataset) and is_one_of(3, dataset if deletes == "of-ddl" else f"{dataset} all")


CASES = usual(
    product(
        (d for d in [*datasets(), *released_datasets()] if UNUSABLE not in allowed(d)), DELETES
    ),
    takes_every_run,
    pytest.mark.all_golden,
)


@pytest.mark.parametrize(("dataset", "deletes"), CASES)
def test_rows_that_are_deleted_are_kept(dataset: str, deletes: str) -> None:
    random = Random(crc32(dataset.encode()))
    feed = replace(feed_of(dataset), archives=(TableArchive(("*.*",), DELETES[deletes]),))
    engine, model = Engine.of(feed), ArchiveModel(make_rules(feed))
    points = [ts for ts in sorted(truth(dataset.split("/")[0])) if ts >= started(dataset)]
    kept = 0
    for piece in arriving(dataset, random):
        engine.take(piece)
        model.add(piece)
        resolved = engine.resolved_ts
        for ts in points:
            if resolved is not None and engine.now.ts < ts <= resolved and random.random() < 0.7:
                engine.advance(ts, more_may_come=not engine.is_storage)
                if END_STATE_ONLY not in allowed(dataset):
                    compare(engine, dataset, ts)
                    model.advance(ts)
                    kept += compare_kept(engine, model, dataset)
        engine.advance()
    compare(engine, dataset, points[-1])
    model.advance(engine.now.ts)
    kept += compare_kept(engine, model, dataset)
    assert kept or deletes == "of-ddl"


def compare_kept(engine: Engine, model: ArchiveModel, dataset: str) -> int:
    """Compare the kept rows of all live tables, and count them."""
    count = 0
    for name, table in engine.live_tables().items():
        is_partitioned = table.schema.partitioning is not None
        if PARTITIONED_DIFFER in allowed(dataset) and is_partitioned:
            continue
        modelled = model.tables.get(*name)
        assert modelled is not None
        theirs = show(model.tables.kept[modelled], table.schema)
        ours = show(table.kept, table.schema)
        assert ours == theirs, (name, ours - theirs, theirs - ours)
        count += len(table.kept)
    return count


def show(kept: list[Kept], schema: TableSchema) -> Counter[tuple[object, ...]]:
    """Return kept rows as texts."""
    write = RowWriter(schema)
    columns = [c.name for c in schema.columns if c.generated != "virtual"]
    shown = ((write({name: row.get(name) for name in columns}), ts) for row, ts in kept)
    return Counter((*texts.values(), ts) for texts, ts in shown)
