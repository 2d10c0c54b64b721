"""Tables of changes, compared with what computes the same in other ways."""

from collections import Counter
from typing import Any

import pyarrow.compute as pc

from tests.lake.readers import READERS
from tests.lake.versions_at import read_rows
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.views.changes import changes

_OWN = ("_valid_from", "_valid_from_time", "_valid_to", "_valid_to_time", "_operation")


def list_values(row: Any) -> tuple[Any, ...] | None:
    """Return a row in a form that can be compared, without what is NULL."""
    if row is None:
        return None
    return tuple(sorted((name, str(v)) for name, v in row.items() if v is not None))


def compare_with_histories(lake: LakeSession) -> int:
    """Compare all changes with the histories: each version begins with a change, and ends so."""
    last, count = read_last_snapshot(lake), 0
    for id in last.versions:
        history, table = HistoryTable(lake, id), ChangesTable(lake, id)
        assert (history.mark is None) == (table.mark is None)
        if table.mark is None:
            continue
        versions, stored = (read_rows(each).to_pylist() for each in (history, table))
        dropped_ts = last.state.incarnations[id].dropped_ts
        # A DDL ends every version; what it leaves as it was, is no change.
        unchanged = _count(versions, "_valid_to") & _count(
            [row for row in versions if row["_operation"] == "ddl"], "_valid_from"
        )
        for side, ts, image in (
            ("after", "_valid_from", None),
            ("before", "_valid_to", dropped_ts),
        ):
            moved = [row for row in versions if row[ts] not in (None, image)]
            expected = _count(moved, ts) - unchanged
            found = Counter(
                (row["commit_ts"], list_values(row[side]))
                for row in stored
                if row[side] is not None
            )
            assert found == expected, (id, side)
        count += len(stored)
    return count


def _count(versions: list[dict[str, Any]], ts: str) -> Counter[tuple[Any, ...]]:
    """Count versions by when they began, or ended, and by their values."""
    return Counter(
        (row[ts], list_values({k: v for k, v in row.items() if k not in _OWN})) for row in versions
    )


def compare_with_function(lake: LakeSession, name: str, start: int, end: int) -> int:
    """Compare changes with `changes()`, in a span in which the columns stay as they are."""
    expected = changes(lake, name, start, end).toArrow()
    (id,) = (
        id
        for id, table in read_last_snapshot(lake).state.incarnations.items()
        if table.created_ts <= end and (table.dropped_ts is None or table.dropped_ts > end)
    )
    stored = read_rows(ChangesTable(lake, id))
    ts = stored["commit_ts"]
    stored = stored.filter(pc.and_(pc.greater(ts, start), pc.less_equal(ts, end)))
    assert stored.column_names == expected.column_names
    both = [Counter(map(_list_change, rows.to_pylist())) for rows in (stored, expected)]
    assert both[0] == both[1]
    return both[0].total()


def _list_change(row: Any) -> tuple[Any, ...]:
    values = dict(row)
    images = (list_values(values.pop(name)) for name in ("before", "after"))
    return (*images, *values.items())


def compare_readers(lake: LakeSession, id: str) -> int:
    """Read the changes of a table with readers other than Spark."""
    table = ChangesTable(lake, id)
    assert table.version is not None
    expected = Counter(map(_plain, read_rows(table).to_pylist()))
    for name, read in READERS.items():
        rows = read(lake.path(table.name), table.version).to_pylist()
        assert Counter(map(_plain, rows)) == expected, name
    return expected.total()


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what all readers return for a row; each has its own zone for times."""
    parts = {name: value for name, value in row.items() if name != "time"}
    return tuple(
        (name, _list_parts(value) if isinstance(value, dict) else value)
        for name, value in parts.items()
    )


def _list_parts(image: dict[str, Any]) -> tuple[Any, ...] | None:
    """List the values of an image: ClickHouse has no NULL of one, but one of NULLs."""
    return list_values({name: value for name, value in image.items() if value != []}) or None
