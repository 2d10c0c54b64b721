"""Order is by commit ts: however the events arrive, the tables are those that upstream had.

Real changefeeds and made-up ones are delivered in pieces, a piece at a time carried out as far as
it is resolved: cut anywhere, partitions ahead of each other, records twice, senders that go back.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import permutations
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from resources.storage import claim_check_folder
from tests.golden import GOLDEN, meta, open_lines, records, storage_tree
from tests.reference.test_golden_replay import feed_of
from tests.truth import truth
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import (
    Bootstrap,
    Column,
    ColumnType,
    Event,
    FilePosition,
    Index,
    Op,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    TsKind,
    Watermark,
    row_image,
)
from ticdc_assets.reference.output import row_lines
from ticdc_assets.reference.reading import folder_events, topic_events
from ticdc_assets.reference.replay import Replay

# Rows of every table; None for a paused one.
Picture = dict[tuple[str, str], tuple[bytes, ...] | None]
SEEDS = st.integers(0, 1 << 32)


def picture(replay: Replay) -> Picture:
    return {
        (table.schema.database, table.schema.table): (
            tuple(row_lines(table)) if table.paused is None else None
        )
        for table in replay.model.tables
    }


def said(replay: Replay) -> set[str]:
    return {p.line() for p in replay.model.problems + replay.model.waiting()}


# Real changefeeds


@cache
def events_of(dataset: str) -> list[Event]:
    feed = feed_of(dataset)
    return list(topic_events(feed, records(dataset), claim_check_folder(feed)))


@cache
def points(dataset: str) -> list[int]:
    started = meta(dataset)["changefeed_start_ts"]
    return [ts for ts in sorted(truth(dataset.split("/")[0])) if ts >= started]


@cache
def at_once(dataset: str) -> tuple[dict[int, Picture], set[str]]:
    """The tables at every truth point, and what is said, when everything is there at once."""
    replay = Replay(feed_of(dataset))
    replay.add(events_of(dataset))
    pictures = {}
    for ts in points(dataset):
        replay.advance(ts)
        pictures[ts] = picture(replay)
    assert replay.default_ts == points(dataset)[-1]
    return pictures, said(replay)


def in_pieces(dataset: str, events: list[Event], random: Random) -> tuple[dict, set[str]]:
    """The same, when the model goes along with what arrives."""
    replay = Replay(feed_of(dataset))
    pictures = {}
    for piece in cut(events, random):
        replay.add(piece)
        resolved = replay.default_ts
        for ts in points(dataset):
            if replay.model.applied_ts < ts <= resolved:
                replay.advance(ts)
                pictures[ts] = picture(replay)
        replay.advance(resolved)
    return pictures, said(replay)


def cut(events: list[Event], random: Random) -> Iterator[list[Event]]:
    sizes = random.choice([[1], [1, 2, 5], [20, 100], [1, 3, 50, 400]])
    start = 0
    while start < len(events):
        size = random.choice(sizes)
        yield events[start : start + size]
        start += size


@pytest.mark.parametrize(
    "dataset",
    [
        "lifecycle/simple-json",
        "lifecycle/newarch-open-protocol",
        "lifecycle/canal-json-ext-replayed",
        "lifecycle/simple-json-topic-per-table",
        "lifecycle/canal-json-ext-topic-per-table",
        "lifecycle/open-protocol-restart",
        "lifecycle/simple-avro-bootstrap-p0",
        "types/open-protocol-force-replicate",
    ],
)
@settings(max_examples=4)
@given(seed=SEEDS)
def test_a_stream_may_be_cut_anywhere(dataset: str, seed: int) -> None:
    assert in_pieces(dataset, events_of(dataset), Random(seed)) == at_once(dataset)


@pytest.mark.parametrize(
    "dataset",
    [
        "lifecycle/newarch-simple-json",
        "lifecycle/canal-json-ext-raw-change",
        "lifecycle/open-protocol-only-updated",
        "types/simple-avro",
    ],
)
@settings(max_examples=4)
@given(seed=SEEDS)
def test_partitions_may_run_ahead_and_back_and_say_things_twice(dataset: str, seed: int) -> None:
    random = Random(seed)
    arriving = list(delivered(by_partition(events_of(dataset)), random, twice=True))
    assert in_pieces(dataset, arriving, random) == at_once(dataset)


@settings(max_examples=4)
@given(seed=SEEDS)
def test_partitions_of_tables_without_a_key_may_run_ahead_and_back(seed: int) -> None:
    random = Random(seed)
    dataset = "types/simple-json-force-replicate"
    arriving = list(delivered(by_partition(events_of(dataset)), random, back_to=earlier))
    assert in_pieces(dataset, arriving, random) == at_once(dataset)


def by_partition(events: list[Event]) -> list[list[Event]]:
    partitions: dict[int, list[Event]] = {}
    for event in events:
        assert isinstance(event.position, TopicPosition)
        partitions.setdefault(event.position.partition, []).append(event)
    return list(partitions.values())


def anywhere(sent: Sequence[Event], random: Random) -> int:
    return random.randrange(len(sent))


def earlier(sent: Sequence[Event], random: Random) -> int:
    """Somewhere from where the first row of each table is older than its last one was."""
    last = {event.table: event.commit_ts for event in sent if isinstance(event, RowChange)}
    for start in range(random.randrange(len(sent)), -1, -1):
        again = [event for event in sent[start:] if isinstance(event, RowChange)]
        first = {event.table: event.commit_ts for event in reversed(again)}
        if all(ts < last[table] for table, ts in first.items()):
            return start
    return len(sent)


def delivered(
    partitions: list[list[Event]],
    random: Random,
    *,
    twice: bool = False,
    back_to: Callable[[Sequence[Event], Random], int] = anywhere,
) -> Iterator[Event]:
    """Each partition in its own order, now and then going back; whose turn it is is chance."""
    next_ones = dict.fromkeys(range(len(partitions)), 0)
    returns = random.randrange(6)
    while next_ones:
        number = random.choice(sorted(next_ones))
        events, position = partitions[number], next_ones[number]
        if returns and position and random.random() < 0.1:
            position = back_to(events[:position], random)
            returns -= 1
        for event in events[position : position + random.choice([1, 1, 2, 10, 40])]:
            position += 1
            yield event
            if twice and random.random() < 0.05:
                yield event
        next_ones[number] = position
        if position == len(events):
            del next_ones[number]


@pytest.mark.parametrize(
    "dataset", ["lifecycle/storage-csv-full", "types/newarch-storage-canal-json"]
)
def test_a_folder_may_be_read_while_it_grows(dataset: str) -> None:
    tree, there = storage_tree(dataset), dict[str, bytes]()
    compared = 0
    whole = Replay(feed_of(dataset))
    whole.add(folder_events(feed_of(dataset), tree, tree.__getitem__))
    for step in open_lines(GOLDEN / dataset / "manifest.jsonl"):
        for file in step["files"] or ():
            there[file["path"]] = tree[file["path"]]
        if step["ts"] in points(dataset) and "truth" in step["after"]:
            # Data of what comes next may be there already.
            ahead = {path: tree[path] for path in sorted(tree)[:: 2 + compared]}
            grown = {**ahead, **there, "metadata": json.encode({"checkpoint-ts": step["ts"]})}
            replay = Replay(feed_of(dataset))
            replay.add(folder_events(feed_of(dataset), grown, grown.__getitem__))
            replay.check([step["ts"]])
            for side in (replay, whole):
                side.advance(step["ts"])
            assert picture(replay) == picture(whole)
            compared += 1
    assert compared == len(points(dataset))


# Made-up changefeeds

FEED = changefeed_from_uri("kafka://h:9092/t?protocol=simple&partition-num=2")
Row = dict[str, str | None]
Value = int | str | None
KEYS: dict[str, tuple[str, ...]] = {"one": ("id",), "two": ("a", "b"), "none": ()}
COLUMNS = {"one": ("id", "v", "w"), "two": ("b", "v", "a"), "none": ("v", "w")}


class Change(NamedTuple):
    """One row that a transaction changed: what it was, and what it is."""

    table: str
    old: Row | None
    new: Row | None
    # Deleted and inserted, where an update could have done.
    replaced: bool = False


class Transaction(NamedTuple):
    ts: int
    changes: list[Change]


def schema(table: str) -> TableSchema:
    key = Index("primary", KEYS[table], unique=True, primary=True)
    columns = tuple(
        Column(n, ColumnType("int" if n in KEYS[table] else "varchar"), n not in KEYS[table])
        for n in COLUMNS[table]
    )
    return TableSchema("d", table, columns, (key,) if KEYS[table] else (), version=1)


def key_of(table: str, row: Row) -> tuple[str | None, ...]:
    return tuple(row[name] for name in KEYS[table])


def some_value(random: Random) -> str | None:
    return random.choice([None, "", "x", "y", "é"])


def keyed_transactions(length: int, random: Random) -> Iterator[Transaction]:
    """Transactions over two keyed tables, of which every one is possible after those before it."""
    tables: dict[str, dict[tuple[str | None, ...], Row]] = {"one": {}, "two": {}}
    ts = 10
    for _ in range(length):
        ts += random.choice([1, 1, 7])
        changes = []
        for table in random.sample(["one", "two"], random.choice([1, 2])):
            rows = tables[table]
            touched = random.sample(sorted(rows), min(len(rows), random.randrange(4)))
            for key in touched:
                old = rows.pop(key)
                what = random.choice(["delete", "edit", "edit", "replace", "move", "move"])
                new = None
                if what != "delete":
                    new = old | {n: some_value(random) for n in ("v", "w") if n in old}
                    if random.random() < 0.2:
                        new = dict(old)
                changes.append(Change(table, old, new, replaced=what == "replace"))
                if what == "move":
                    # To be chosen when all rows that go have gone: it may be a key of theirs.
                    changes[-1] = changes[-1]._replace(new={**new, **dict.fromkeys(KEYS[table])})
            fresh = [
                Change(table, None, {n: some_value(random) for n in COLUMNS[table]})
                for _ in range(random.randrange(3))
            ]
            for change in fresh:
                change.new.update(dict.fromkeys(KEYS[table]))
            changes += fresh
            kept = {key_of(c.table, c.new) for c in changes if c.table == table and c.new}
            space = [k for k in all_keys(table) if k not in rows and k not in kept]
            random.shuffle(space)
            for change in [c for c in changes if c.table == table and c.new]:
                if None in key_of(table, change.new):
                    change.new.update(zip(KEYS[table], space.pop(), strict=True))
                rows[key_of(table, change.new)] = change.new
        yield Transaction(ts, changes)


def all_keys(table: str) -> list[tuple[str, ...]]:
    if len(KEYS[table]) == 1:
        return [(str(i),) for i in range(40)]
    return [(str(i), str(j)) for i in range(8) for j in range(5)]


def keyless_transactions(length: int, random: Random) -> Iterator[Transaction]:
    """Transactions over a table without a key, in which rows may be there several times."""
    rows: list[Row] = []
    ts = 10
    for _ in range(length):
        ts += random.choice([1, 1, 7])
        changes = []
        random.shuffle(rows)
        for _ in range(min(len(rows), random.randrange(4))):
            old = rows.pop()
            new = random.choice([None, {"v": some_value(random), "w": "w"}])
            changes.append(Change("none", old, new))
        row = {"v": some_value(random), "w": "w"}
        changes += [Change("none", None, dict(row)) for _ in range(random.randrange(4))]
        rows += [change.new for change in changes if change.new is not None]
        yield Transaction(ts, changes)


def expected(transactions: list[Transaction], ts: int) -> dict[str, Counter[str]]:
    """The tables after all transactions up to a ts: rows taken away, rows put in, that is all."""
    tables: dict[str, Counter[str]] = {table: Counter() for table in KEYS}
    for transaction in transactions:
        if transaction.ts <= ts:
            for change in transaction.changes:
                tables[change.table][text(change.old)] -= change.old is not None
            for change in transaction.changes:
                tables[change.table][text(change.new)] += change.new is not None
    return {table: +rows for table, rows in tables.items()}


def text(row: Row | None) -> str:
    return "" if row is None else str(sorted(row.items()))


def told(transactions: list[Transaction], random: Random, *, raw: bool) -> list[list[Event]]:
    """What the two partitions hear of it: rows of a stretch of time in any order, a watermark."""
    partitions: list[list[Event]] = [[], []]
    for number, partition in enumerate(partitions):
        for table in KEYS:
            position = TopicPosition("t", number, 0)
            partition.append(Bootstrap(schema=schema(table), position=position))
    ends = [*(t.ts for t in transactions[1:]), transactions[-1].ts + 10]
    stretch: list[list[RowChange]] = [[], []]
    for transaction, end in zip(transactions, ends, strict=True):
        for change in transaction.changes:
            for event in events_for(change, transaction.ts, random, raw=raw):
                stretch[event.position.partition].append(event)
        if random.random() < 0.5 or transaction is transactions[-1]:
            ts = random.choice([transaction.ts, end - 1])
            for number, partition in enumerate(partitions):
                if transaction.changes and "none" not in {c.table for c in transaction.changes}:
                    random.shuffle(stretch[number])
                partition += stretch[number]
                partition.append(Watermark(ts=ts, position=TopicPosition("t", number, 0)))
                stretch[number] = []
    return partitions


def events_for(change: Change, ts: int, random: Random, *, raw: bool) -> Iterator[RowChange]:
    table, old, new, replaced = change
    key_stays = None not in (old, new) and key_of(table, old) == key_of(table, new)
    whole = not KEYS[table]

    def event(op: Op, before: Row | None, after: Row | None) -> RowChange:
        # Equal rows of a table without a key go the same way.
        number = len(text(after or before)) % 2 if whole else random.randrange(2)
        return RowChange(
            op=op,
            commit_ts=ts,
            database="d",
            table=table,
            position=TopicPosition("t", number, 0),
            before=None if before is None else row_image.dump(before),
            after=None if after is None else row_image.dump(after),
            schema_version=1,
        )

    if old is not None and new is not None and not replaced and (whole or key_stays or raw):
        befores: list[Row | None] = [old]
        if not whole:
            befores.append({n: v for n, v in old.items() if v != new[n]})
        if key_stays and not whole:
            befores.append(None)
        yield event(Op.UPDATE, random.choice(befores), new)
        return
    if old is not None:
        only_key = {n: old[n] for n in KEYS[table]}
        yield event(Op.DELETE, old if whole else random.choice([old, only_key]), None)
    if new is not None:
        yield event(random.choice([Op.INSERT, Op.UPSERT]), None, new)


def follow(transactions: list[Transaction], arriving: list[Event], random: Random) -> None:
    """Go along with what arrives; the tables are right at whatever is resolved."""
    replay = Replay(FEED)
    for piece in cut(arriving, random):
        replay.add(piece)
        replay.advance(replay.default_ts)
        found = {table: Counter() for table in KEYS}
        for table in replay.model.tables:
            lines = [json.decode(line) for line in row_lines(table)]
            found[table.schema.table] = Counter(map(text, lines))
        assert found == expected(transactions, replay.default_ts)
    assert replay.default_ts >= transactions[-1].ts
    assert replay.model.problems == []


@settings(max_examples=150)
@given(length=st.integers(1, 12), raw=st.booleans(), seed=SEEDS)
def test_tables_with_a_key_are_as_upstream_at_whatever_is_resolved(
    length: int, raw: bool, seed: int
) -> None:
    random = Random(seed)
    transactions = list(keyed_transactions(length, random))
    partitions = told(transactions, random, raw=raw)
    arriving = list(delivered(partitions, random, twice=True))
    follow(transactions, arriving, random)


@settings(max_examples=150)
@given(length=st.integers(1, 12), seed=SEEDS)
def test_tables_without_a_key_count_their_rows(length: int, seed: int) -> None:
    random = Random(seed)
    transactions = list(keyless_transactions(length, random))
    partitions = told(transactions, random, raw=True)
    arriving = list(delivered(partitions, random, back_to=earlier))
    follow(transactions, arriving, random)


def none_row(ts: int, path: str, value: str) -> RowChange:
    return RowChange(
        op=Op.INSERT,
        commit_ts=ts,
        database="d",
        table="none",
        position=FilePosition(path),
        after=row_image.dump({"v": value, "w": None}),
        schema_version=1,
    )


@pytest.mark.parametrize(
    "files",
    [
        ("d/none/1/CDC000001.csv", "d/none/1/CDC000002.csv"),
        ("d/none/1/2026-03-14/CDC000001.csv", "d/none/1/2026-03-15/CDC000001.csv"),
        ("d/none/1/CDC_7_000009.csv", "d/none/1/CDC_7_000010.csv"),
    ],
)
def test_a_writer_of_files_that_goes_back_repeats_itself_in_later_ones(
    files: tuple[str, str],
) -> None:
    """But the rows of one transaction may also go on in the next file."""
    first = [none_row(10, files[0], "a"), none_row(20, files[0], "b"), none_row(20, files[0], "b")]
    goes_on = [none_row(20, files[1], "b"), none_row(30, files[1], "c")]
    repeated = [none_row(10, files[1], "a"), none_row(20, files[1], "b"), *goes_on]
    stated = Bootstrap(schema=schema("none"), position=FilePosition("d/none/meta/schema_1_1.json"))
    for second, of_b in ((goes_on, 3), (repeated, 2)):
        replay = Replay(changefeed_from_uri("file:///data?protocol=csv"))
        replay.add([stated, *first, *second])
        replay.advance(100)
        (table,) = replay.model.tables
        assert Counter(row["v"] for row in table) == {"a": 1, "b": of_b, "c": 1}


def test_tables_that_swap_their_names_do_so_in_pieces_and_in_any_order() -> None:
    """The watermark of a DDL's commit ts may come before the DDL, in each of the topics."""

    def ddl(ts: int, sql: str, table: str) -> SchemaChange:
        return SchemaChange(
            commit_ts=ts, database="d", table=table, sql=sql, position=TopicPosition(table, 0, ts)
        )

    created = [
        ddl(2, "CREATE TABLE `a` (`id` INT PRIMARY KEY)", "a"),
        ddl(3, "CREATE TABLE `b` (`id` INT PRIMARY KEY, `x` INT)", "b"),
    ]
    pairs = (("a", "t"), ("b", "a"), ("t", "b"))
    swap = [ddl(7, f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`", new) for old, new in pairs]
    for order in permutations(swap):
        replay = Replay(FEED)
        replay.add(created)
        for change in order:
            replay.advance(7)
            replay.add([change])
        replay.advance(7)
        columns = {t.schema.table: len(t.schema.columns) for t in replay.model.tables}
        assert columns == {"a": 2, "b": 1}
        assert said(replay) == set()


@pytest.mark.parametrize(("kind", "left"), [("commit", 0), ("es", 0), ("version", 1)])
@pytest.mark.parametrize("row_first", [True, False])
def test_rows_of_a_ddls_commit_ts_come_before_it_but_those_dated_by_its_version_after(
    kind: TsKind, left: int, row_first: bool
) -> None:
    emptied = SchemaChange(
        commit_ts=20,
        database="d",
        table="none",
        sql="TRUNCATE TABLE `none`",
        position=FilePosition("d/none/meta/schema_20_1.json"),
    )
    row = replace(none_row(20, "d/none/20/CDC000001.csv", "a"), ts_kind=kind)
    replay = Replay(changefeed_from_uri("file:///data?protocol=csv"))
    stated = Bootstrap(schema=schema("none"), position=FilePosition("d/none/meta/schema_1_1.json"))
    replay.add([stated, *([row, emptied] if row_first else [emptied, row])])
    replay.advance(20)
    (table,) = replay.model.tables
    assert len(table) == left
