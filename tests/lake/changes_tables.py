"""Tables of changes, compared with what computes the same in other ways."""

from collections import Counter
from typing import Any

from tests.lake.readers import READERS
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.log.applied import read_last_snapshot
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.views.changes import changes

_OWN = ("_valid_from", "_valid_from_time", "_valid_to", "_valid_to_time", "_operation")


def list_values(row: Any) -> tuple[Any, ...] | None:
    """Return a row in a form that can be compared, without what is NULL."""
    if row is None:
        return None
    values = row if isinstance(row, dict) else row.asDict(recursive=True)
    return tuple(sorted((name, str(v)) for name, v in values.items() if v is not None))


def compare_with_histories(lake: LakeSession) -> int:
    """Compare all changes with the histories: each version begins with a change, and ends so."""
    last, count = read_last_snapshot(lake), 0
    for id in last.versions:
        history, table = HistoryTable(lake, id), ChangesTable(lake, id)
        assert (history.mark is None) == (table.mark is None)
        if table.mark is None:
            continue
        versions = [row.asDict(recursive=True) for row in history.read().collect()]
        stored = table.read().collect()
        dropped_ts = last.state.incarnations[id].dropped_ts
        for side, ts, image in (
            ("after", "_valid_from", None),
            ("before", "_valid_to", dropped_ts),
        ):
            expected = Counter(
                (row[ts], list_values({k: v for k, v in row.items() if k not in _OWN}))
                for row in versions
                if row[ts] not in (None, image)
            )
            found = Counter(
                (row["commit_ts"], list_values(row[side]))
                for row in stored
                if row[side] is not None
            )
            assert found == expected, (id, side)
        count += len(stored)
    return count


def compare_with_function(lake: LakeSession, name: str, start: int, end: int) -> int:
    """Compare changes with `changes()`, in a span in which the columns stay as they are."""
    expected = changes(lake, name, start, end)
    (id,) = (
        id
        for id, table in read_last_snapshot(lake).state.incarnations.items()
        if table.created_ts <= end and (table.dropped_ts is None or table.dropped_ts > end)
    )
    stored = ChangesTable(lake, id).read().where(f"commit_ts > {start} AND commit_ts <= {end}")
    assert stored.columns == expected.columns
    both = [Counter(map(_list_change, frame.collect())) for frame in (stored, expected)]
    assert both[0] == both[1]
    return both[0].total()


def _list_change(row: Any) -> tuple[Any, ...]:
    values = row.asDict()
    images = (list_values(values.pop(name)) for name in ("before", "after"))
    return (*images, *values.items())


def compare_readers(lake: LakeSession, id: str) -> int:
    """Read the changes of a table with readers other than Spark."""
    table = ChangesTable(lake, id)
    assert table.version is not None
    expected = Counter(_plain(row.asDict(recursive=True)) for row in table.read().collect())
    for name, read in READERS.items():
        rows = read(lake.path(table.name), table.version).to_pylist()
        assert Counter(map(_plain, rows)) == expected, name
    return expected.total()


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what all readers return for a row; each has its own zone for times."""
    parts = {name: value for name, value in row.items() if name != "time"}
    return tuple(
        (name, list_values(value) if isinstance(value, dict) else value)
        for name, value in parts.items()
    )
