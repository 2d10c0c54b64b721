"""Order is by commit ts: however made-up changefeeds arrive, the tables are as upstream."""

from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from tests.reference.arriving import SEEDS, cut, delivered, earlier, said
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import (
    Bootstrap,
    Column,
    ColumnType,
    Event,
    FilePosition,
    Index,
    Op,
    Ordering,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
    row_image,
)
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows

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


def make_partitions(
    transactions: list[Transaction], random: Random, *, raw: bool
) -> list[list[Event]]:
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
    replay = ModelReplay(FEED)
    for piece in cut(arriving, random):
        replay.add(piece)
        replay.advance(replay.default_ts)
        found = {table: Counter() for table in KEYS}
        for table in replay.model.tables:
            lines = [json.decode(line) for line in encode_rows(table)]
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
    partitions = make_partitions(transactions, random, raw=raw)
    arriving = list(delivered(partitions, random, twice=True))
    follow(transactions, arriving, random)


@settings(max_examples=150)
@given(length=st.integers(1, 12), seed=SEEDS)
def test_tables_without_a_key_count_their_rows(length: int, seed: int) -> None:
    random = Random(seed)
    transactions = list(keyless_transactions(length, random))
    partitions = make_partitions(transactions, random, raw=True)
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
        replay = ModelReplay(changefeed_from_uri("file:///data?protocol=csv"))
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
        replay = ModelReplay(FEED)
        replay.add(created)
        for change in order:
            replay.advance(7)
            replay.add([change])
        replay.advance(7)
        columns = {t.schema.table: len(t.schema.columns) for t in replay.model.tables}
        assert columns == {"a": 2, "b": 1}
        assert said(replay) == set()


@pytest.mark.parametrize(
    ("ordering", "left"), [("commit_ts", 0), ("milliseconds", 0), ("table_version", 1)]
)
@pytest.mark.parametrize("row_first", [True, False])
def test_rows_of_a_ddls_commit_ts_come_before_it_but_those_dated_by_its_version_after(
    ordering: Ordering, left: int, row_first: bool
) -> None:
    emptied = SchemaChange(
        commit_ts=20,
        database="d",
        table="none",
        sql="TRUNCATE TABLE `none`",
        position=FilePosition("d/none/meta/schema_20_1.json"),
    )
    row = replace(none_row(20, "d/none/20/CDC000001.csv", "a"), ordering=ordering)
    replay = ModelReplay(changefeed_from_uri("file:///data?protocol=csv"))
    stated = Bootstrap(schema=schema("none"), position=FilePosition("d/none/meta/schema_1_1.json"))
    replay.add([stated, *([row, emptied] if row_first else [emptied, row])])
    replay.advance(20)
    (table,) = replay.model.tables
    assert len(table) == left
