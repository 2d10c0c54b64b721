"""Take events to tables, by the reference model and by the plan, and find what went missing.

A row event must end in a table or be superseded there, or its table waits or is paused, or a
problem names its position.  `find_losses` computes that anew, from the events alone;
`find_disagreements` compares the tables of the model with those of the plan.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.plan.engine import Engine
from tests.plan.work_in_memory import StoredTable, store
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import DecodeError, InvalidValue
from ticdc_assets.events import Event, Op, Quarantined, RowChange, SchemaChange
from ticdc_assets.protocols.registry import Redecode, get_traits
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.reference.table import ModelRow, ModelTable
from ticdc_assets.schema.catalog import TableKey, key_of, table_key
from ticdc_assets.schema.name_resolution import affected_names
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.store.event_rows import Arrival, to_arrow

# How `describe_content_error` begins.
_UNFORESEEN = re.compile(r"unexpected [A-Z]\w+: ")
END = (1 << 63) - 1
# Problems of rows that are applied all the same.
_APPLIED = ("incomplete", "approximate", "checksum", "corrupted")


def run_stream(feed: Changefeed, events: list[Event], middle: int | None = None) -> list[str]:
    """Take a whole stream to its tables; return every fault.

    The plan makes two windows of it if `middle` is a ts.
    """
    events = leave_out_unstorable(events)
    replay = ModelReplay(feed)
    replay.add(events)
    replay.advance(END)
    lines = {table.schema: replay.encode_table(table) for table in list(replay.model.tables)}
    del lines
    engine = Engine.of(feed)
    engine.take(events)
    if middle is not None:
        engine.advance(middle, more_may_come=False)
    engine.advance(END, more_may_come=False)
    return [
        *find_unexpected(replay, engine),
        *find_losses(feed, events, replay),
        *find_disagreements(replay, engine),
    ]


def leave_out_unstorable(events: list[Event]) -> list[Event]:
    """Leave out events with a value that no column holds: decoding quarantines them."""

    def count_quarantined(some: Iterable[Event]) -> int:
        batches = to_arrow([Arrival(1, seq, 0, event) for seq, event in enumerate(some)])
        return sum(batch.column("kind").to_pylist().count("quarantined") for batch in batches)

    known = sum(isinstance(event, Quarantined) for event in events)
    if count_quarantined(events) == known:
        return events
    return [e for e in events if isinstance(e, Quarantined) or not count_quarantined([e])]


def find_unexpected(replay: ModelReplay, engine: Engine) -> Iterator[str]:
    """Yield the errors that nobody foresaw: they paused a table instead of ending the run."""
    reasons = [problem.reason for problem in (*replay.problems(), *engine.problems)]
    yield from (f"traceback: {reason}" for reason in reasons if _UNFORESEEN.search(reason))


# Losses


def find_losses(feed: Changefeed, events: Iterable[Event], replay: ModelReplay) -> Iterator[str]:
    """Yield the rows that are neither in their table nor superseded nor reported."""
    by_table: dict[TableKey, list[RowChange]] = defaultdict(list)
    changed_ts: dict[TableKey, int] = defaultdict(int)
    changed_all = 0
    for event in events:
        if isinstance(event, RowChange):
            by_table[table_key(event.database, event.table)].append(event)
        elif isinstance(event, SchemaChange):
            names = affected_names(event)
            # Other statements count for the message's own table, whatever they name.
            if not names or not event.sql.lower().startswith("alter"):
                changed_all = max(changed_all, event.commit_ts)
            for name in names:
                changed_ts[name] = max(changed_ts[name], event.commit_ts)
    problems = replay.problems()
    reported = {p.position for p in problems if p.position and p.kind not in _APPLIED}
    waiting = {table_key(p.database, p.table) for p in problems if p.kind == "waiting"}
    all_paused = any(p.kind == "paused" and not p.table for p in problems)
    for key, rows in by_table.items():
        table = replay.model.tables.get(*key)
        since = max(changed_all, changed_ts[key])
        recent = [row for row in rows if row.commit_ts > since and row.position not in reported]
        if key in waiting or all_paused or not recent:
            continue
        if table is None:
            yield f"silent loss: {len(recent)} rows of {key}, of which there is no table"
        elif table.pause_reason is None and key_of(table.schema) == key:
            redecode = get_traits(feed).redecode
            yield from _compare_rows(table, recent, len(recent) == len(rows), redecode)


def _compare_rows(
    table: ModelTable, rows: list[RowChange], is_whole: bool, redecode: Redecode | None
) -> Iterator[str]:
    """Compare a table with what its rows amount to, by the schema it has at the end."""
    typed = []
    readers = {names: RowReader(table.schema, member_names=names) for names in (True, False)}
    for row in rows:
        if row.schema_version not in (None, table.schema.version):
            return
        read = readers[row.member_names]
        try:
            change = row if redecode is None else redecode(row, table.schema)
            old = read(change.before) if change.before is not None else None
            new = read(change.after) if change.after is not None else None
        except (InvalidValue, DecodeError):
            # Written under another schema; the stream itself tells the types.
            return
        if row.op is Op.UPDATE and old is not None and new is not None:
            old = {**new, **old}
        typed.append((row, old, new))
    by_transaction = all(row.ordering == "commit_ts" for row in rows)
    if table.key:
        yield from _compare_keyed(table, typed)
    elif is_whole and by_transaction and not _goes_back(rows):
        yield from _compare_multiset(table, typed)


def _goes_back(rows: list[RowChange]) -> bool:
    """Whether the sender may have repeated itself, which a table without a key counts once."""
    times = [row.commit_ts for row in rows]
    return times != sorted(times)


_Typed = tuple[RowChange, ModelRow | None, ModelRow | None]


def _compare_keyed(table: ModelTable, typed: list[_Typed]) -> Iterator[str]:
    expected: dict[Any, ModelRow | None] = {}
    for group in _transactions(typed):
        expected.update({table.identity(old): None for _, old, _ in group if old is not None})
        expected.update(
            {table.identity(new): _whole(row, new) for row, _, new in group if new is not None}
        )
    found = {table.identity(row): row for row in table}
    for key, row in expected.items():
        name = f"{table.schema.database}.{table.schema.table} {key!r}"[:300]
        if row is None:
            if key in found:
                yield f"silent loss: the delete of {name}"
        elif key not in found and key not in table.incomplete:
            yield f"silent loss: the row {name}"
        elif key in found and not row.items() <= found[key].items():
            yield f"wrong values: {name} is {found[key]!r}, not {row!r}"[:1000]


def _whole(row: RowChange, new: ModelRow) -> ModelRow:
    return {} if row.handle_key_only else new


def _transactions(typed: list[_Typed]) -> Iterator[list[_Typed]]:
    """Yield what applies at once: the rows of one commit ts, then each row that has none."""
    groups: dict[tuple[int, int], list[_Typed]] = defaultdict(list)
    for number, item in enumerate(typed, 1):
        row = item[0]
        groups[row.commit_ts, 0 if row.ordering == "commit_ts" else number].append(item)
    yield from (groups[place] for place in sorted(groups))


def _compare_multiset(table: ModelTable, typed: list[_Typed]) -> Iterator[str]:
    if any(row.op is Op.UPSERT or (row.op is Op.UPDATE and not row.before) for row, _, _ in typed):
        return
    if any(row.table_id != typed[0][0].table_id for row, _, _ in typed):
        return
    expected: Counter[Any] = Counter()
    for group in _transactions(typed):
        removed = Counter(table.identity(old) for _, old, _ in group if old is not None)
        expected = Counter({k: n for k, n in (expected - removed).items() if n > 0})
        expected += Counter(table.identity(new) for _, _, new in group if new is not None)
    found = Counter(table.identity(row) for row in table)
    # Equal rows may be repetitions, so there may be fewer copies, but never none.
    lost = set(expected) - set(found)
    if lost:
        name = f"{table.schema.database}.{table.schema.table}"
        yield f"silent loss: {len(lost)} rows of {name}, which has no key"


# Disagreements


def find_disagreements(replay: ModelReplay, engine: Engine) -> Iterator[str]:
    """Yield the tables in which the model and the plan differ.

    Both must have a table, with the same columns and rows, or both must have stopped it.
    """
    model = {key_of(table.schema): _describe(table) for table in replay.model.tables}
    model |= dict.fromkeys(replay.model.tables.waiting_names(), "waiting")
    planned: dict[TableKey, _Contents] = {
        table_key(*name): reason for name, reason in engine.stopped().items()
    }
    for unknown in engine.now.unknown_tables:
        planned[table_key(unknown.database, unknown.table)] = "waiting"
    for name, table in engine.live_tables().items():
        planned[table_key(*name)] = _describe(table)
    for key in sorted(model.keys() | planned.keys()):
        one, other = model.get(key, _ABSENT), planned.get(key, _ABSENT)
        if isinstance(one, str) and isinstance(other, str) and _ABSENT not in (one, other):
            continue
        if one != other:
            if isinstance(one, Counter) and isinstance(other, Counter):
                one, other = one - other, other - one
            yield f"disagreement: {key}: the model has {_shorten(one)}, the plan {_shorten(other)}"


# The columns and rows of a table, or why it has stopped.
_Contents = Counter[bytes] | str
_ABSENT = "absent"


def _describe(table: ModelTable | StoredTable) -> _Contents:
    if isinstance(table, ModelTable):
        if table.pause_reason is not None:
            return table.pause_reason
        try:
            table = store(table)
        except InvalidValue as error:
            return str(error)
    columns = [c.name for c in table.schema.columns if c.generated != "virtual"]
    try:
        lines = encode_rows(table)
    except InvalidValue as error:
        return str(error)
    if table.schema.origin == "inferred":
        # Rows alone state no order.
        columns.sort()
    # The model's rows lack a column that no event stated; a Delta table has NULL there.
    rows = [{name: row.get(name) for name in columns} for row in map(json.loads, lines)]
    return Counter([repr(columns).encode(), *(json.dumps(row).encode() for row in rows)])


def _shorten(contents: _Contents) -> str:
    return (contents if isinstance(contents, str) else repr(list(contents)[:4]))[:600]
