"""Run the reference model over events, and read its tables."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tests.reference.changefeeds import DATABASE
from ticdc_assets.events import Event, RowChange, TopicPosition
from ticdc_assets.reference.model import Model
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.stream.rules import StreamRules


def played(events: Sequence[Event], into: Model | None = None) -> Model:
    """A model that has taken in all events and applied them."""
    model = into or Model()
    model.add(events)
    model.advance(_last(events))
    return model


# Some tables of scenarios have no key for a while.
RULES = StreamRules(force_replicate=True)


def replays(events: Sequence[Event]) -> Iterator[Model]:
    """Models that have applied all events: at once, one by one, and with everything said again."""
    yield played(events, Model(RULES))
    one_by_one = Model(RULES)
    for event in events:
        one_by_one.add([event])
        one_by_one.advance(_last([event]) - 1)
    one_by_one.advance(_last(events))
    yield one_by_one
    # Before it is applied, and after; but a file is read once.
    again = [e for e in events if not isinstance(e, RowChange) or _in_topic(e)]
    yield played([*events, *again], played([*events, *again], Model(RULES)))


def _last(events: Iterable[Event]) -> int:
    return max(getattr(event, "commit_ts", 0) for event in events)


def _in_topic(row: RowChange) -> bool:
    return isinstance(row.position, TopicPosition)


def tables(model: Model) -> dict[str, list[tuple[str | None, ...]]]:
    """Every table that is neither paused nor waiting, as `{"t(column, …)": rows}`."""
    found = {}
    for table in model.tables:
        if table.pause_reason is None and not table.is_waiting:
            columns = [c.name for c in table.schema.columns if c.generated != "virtual"]
            name = (table.schema.database, table.schema.table)
            shown = name[1] if name[0] == DATABASE else "/".join(name)
            rows = [msgspec.json.decode(line) for line in encode_rows(table)]
            assert all(set(row) == set(columns) for row in rows), (rows, columns)
            found[f"{shown}({', '.join(columns)})"] = [
                tuple(row[c] for c in columns) for row in rows
            ]
    return found


def paused(model: Model) -> dict[str, str]:
    """The reasons of paused tables."""
    return {
        t.schema.table
        if t.schema.database == DATABASE
        else f"{t.schema.database}/{t.schema.table}": (t.pause_reason)
        for t in model.tables
        if t.pause_reason is not None
    }
