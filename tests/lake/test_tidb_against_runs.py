"""Copies compared with a real TiDB at a TSO, while clients write; killed, sampled, lost."""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.lake.copies import (
    compare,
    list_found,
    make_table,
    write_delta,
    write_parquet,
)
from tests.lake.tidb_copies import against, know
from tests.lake.upstream_copy import FEED, UpstreamCopy
from tests.mariadb_server import MariaDb
from tests.tidb_server import Tidb
from ticdc_assets.changefeed.privacy import Privacy, TablePrivacy
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.copy_progress import CopyProgress
from ticdc_assets.log.verifications import Results
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.upstream.snapshot import Row, SnapshotTooOld, UpstreamError, UpstreamSnapshot
from ticdc_assets.verify import upstream_original

ORDERS = (
    "CREATE TABLE orders (id bigint unsigned NOT NULL PRIMARY KEY, v varchar(20), d decimal(8,2))"
)
LINES = (
    "CREATE TABLE `lines` (name varchar(9) NOT NULL, n int NOT NULL, v int, PRIMARY KEY (name, n))"
)
NOTES = "CREATE TABLE notes (id int NOT NULL PRIMARY KEY, j json)"
KEYLESS = "CREATE TABLE keyless (v int, part varchar(9))"
TABLES = {"orders": ORDERS, "lines": LINES, "notes": NOTES, "keyless": KEYLESS}


class Killed(BaseException):
    """What ends a run at once."""


@pytest.fixture
def lake(tmp_path: Path, tidb: Tidb) -> UpstreamCopy:
    tidb.run("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    return UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]


def fill(lake: UpstreamCopy, tidb: Tidb, count: int = 3000) -> int:
    """Fill tables, and return a TSO at which they have these rows."""
    names = "abc"
    know(lake, *TABLES.values())
    tidb.run(
        *("USE shop", *TABLES.values()),
        "INSERT INTO orders VALUES " + ", ".join(map(str, list_orders(count))),
        "INSERT INTO `lines` VALUES "
        + ", ".join(f"('{names[n % 3]}', {n}, {n})" for n in range(300)),
        "INSERT INTO notes VALUES "
        + ", ".join(f"""({n}, '{{"b": {n}, "a": [1.5, "x"]}}')""" for n in range(300)),
        "INSERT INTO keyless VALUES " + ", ".join(f"({n % 4}, 'x')" for n in range(50)),
        *(f"ANALYZE TABLE `{name}`" for name in TABLES),
    )
    return tidb.now()


def list_orders(count: int) -> list[tuple[int, str, float]]:
    # Over all of its type.
    return [(n * ((1 << 64) // count), f"order {n}", n + 0.25) for n in range(count)]


def write_copies(tidb: Tidb, folder: Path, ts: int, wrong: bool = False) -> str:
    """Write what TiDB has at a TSO as another pipeline would, with rows that differ or not."""
    orders = tidb.read_at(ts, "SELECT id, v, d FROM shop.orders ORDER BY id")
    lines = tidb.read_at(ts, "SELECT name, n, v FROM shop.`lines`")
    notes = [
        (n, json.dumps(json.loads(text), indent=1, sort_keys=True))
        for n, text in tidb.read_at(ts, "SELECT id, j FROM shop.notes ORDER BY id")
    ]
    keyless = tidb.read_at(ts, "SELECT v, part FROM shop.keyless")
    if wrong:
        orders[7] = (orders[7][0], "other", orders[7][2])
        orders[9:10] = []
        orders.append((5, "extra", "1.00"))
        lines.remove(("a", 3, 3))
        lines.append(("é", 3, 3))
        notes[4] = (4, '{"a": [1.5, "y"], "b": 4}')
        keyless.remove((2, "x"))
        keyless += [(1, "x"), (1, "x")]
    numbers = {"orders": pa.decimal128(20), "lines": pa.int32(), "keyless": pa.int64()}
    tables = {
        "orders": make_table(
            [(n, v, str(d)) for n, v, d in orders],
            id=numbers["orders"],
            v=pa.string(),
            d=pa.string(),
        ),
        "lines": make_table(lines, name=pa.string(), n=pa.int32(), v=pa.int64()),
        "notes": make_table(notes, id=pa.int16(), j=pa.string()),
        "keyless": make_table(keyless, v=pa.int64(), part=pa.string()),
    }
    uris = {write_parquet(folder, "shop", name, rows) for name, rows in tables.items()}
    (uri,) = uris
    return uri


FOUND: dict[str, set[Any]] = {
    "orders": {
        ("differs", str(7 * ((1 << 64) // 3000)), ("v",)),
        ("missing", str(9 * ((1 << 64) // 3000)), ()),
        ("extra", "5", ()),
    },
    "lines": {("missing", ("a", "3"), ()), ("extra", ("é", "3"), ())},
    "notes": {("differs", "4", ("j",))},
}
KEYS = {"orders": ("id",), "lines": ("name", "n"), "notes": ("id",)}
# What clients do while it is compared, and before it is.
CHANGES = (
    "UPDATE shop.orders SET v = 'later' WHERE id < 10000000000000000000",
    "DELETE FROM shop.`lines` WHERE n > 100",
    "ALTER TABLE shop.orders ADD COLUMN w int DEFAULT 3",
    "DELETE FROM shop.keyless",
    "TRUNCATE TABLE shop.notes",
    "ALTER TABLE shop.`lines` DROP COLUMN v",
)


@pytest.mark.parametrize("rows_per_unit", [1_000_000, 400])
def test_each_difference_at_the_tso_is_found_while_clients_write_and_alter(
    lake: UpstreamCopy,
    tidb: Tidb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows_per_unit: int,
) -> None:
    monkeypatch.setattr(upstream_original, "_ROWS_PER_UNIT", rows_per_unit)
    ts = fill(lake, tidb)
    changes = list(CHANGES)

    def change(number: int) -> None:
        if number > 1 and changes:
            tidb.run(changes.pop(0))

    right = write_copies(tidb, tmp_path / "right", ts)
    wrong = write_copies(tidb, tmp_path / "wrong", ts, wrong=True)
    equal = against(lake, tidb, right, ts=ts, act=change)
    found = {each.table: each for each in against(lake, tidb, wrong, ts=ts)}

    assert changes == []
    for each in equal:
        assert (each.verdict, each.reason, each.left_out) == ("equal", None, ()), each.table
        assert (each.resolved_ts, each.compared_with) == (ts, "upstream")
        # Every row was read once, and of tables without JSON none was sent.
        read = each.rows_sent if each.table == "notes" else each.rows_summed
        assert read == each.lake_rows == each.upstream_rows
        assert each.rows_sent == (300 if each.table == "notes" else 0)
    for name, expected in FOUND.items():
        assert list_found(found[name], *KEYS[name]) == expected
        assert (found[name].verdict, found[name].reason) == ("differs", None)
    copies = {(d.what, d.copies, d.lake or d.upstream) for d in found["keyless"].differences}
    assert copies == {
        ("missing", 1, '{"v": "2", "part": "x"}'),
        ("extra", 2, '{"v": "1", "part": "x"}'),
    }
    (shown,) = (d for d in found["orders"].differences if d.what == "differs")
    assert (shown.lake, shown.upstream) == ('{"v": "order 7"}', '{"v": "other"}')
    # It says nothing of the lake.
    results = Results(lake.lake.location)
    assert results.read_newest() == results.read_newest_of_copies() == results.read_equal() == {}


def test_the_newest_tso_is_taken_by_default_and_a_sample_finds_its_share(
    lake: UpstreamCopy, tidb: Tidb, tmp_path: Path
) -> None:
    before = fill(lake, tidb)
    rows = [(id, "other", str(d)) for id, _, d in list_orders(3000)]
    table = make_table(rows, id=pa.decimal128(20), v=pa.string(), d=pa.string())
    uri = write_delta(tmp_path, "shop", "orders", table)
    random.seed(5)
    (found,) = against(lake, tidb, uri, "shop.orders", share=0.25)
    assert before < found.resolved_ts < tidb.now()
    # The keys of 256 of 1024 ranges of hashes: 750 rows, give or take five deviations.
    assert abs(found.different_rows - 750) < 125
    assert found.lake_rows == found.upstream_rows == found.different_rows


def test_a_run_that_was_killed_goes_on_at_its_tso_and_reads_no_unit_again(
    lake: UpstreamCopy, tidb: Tidb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ticdc_assets.verify.copy_table._SECONDS_BETWEEN_SAVES", 0)
    monkeypatch.setattr(upstream_original, "_ROWS_PER_UNIT", 400)
    ts = fill(lake, tidb)
    uri = write_copies(tidb, tmp_path, ts, wrong=True)
    one = partial(UpstreamDatabase, "f", tidb.upstream, 1)
    summed: list[int] = []

    @contextmanager
    def open_dying(most: int, given: int | None) -> Iterator[UpstreamSnapshot]:
        with one().open_snapshot(given) as snapshot:
            query = snapshot.query

            def count_and_query(sql: str) -> Sequence[Row]:
                if "SUM(" in sql:
                    if len(summed) == most:
                        raise Killed
                    rows = query(sql)
                    summed.append(sum(int(row[1] or 0) for row in rows))
                    return rows
                return query(sql)

            snapshot.query = count_and_query  # type: ignore[method-assign]
            yield snapshot

    with pytest.raises(Killed):
        compare(lake, uri, "shop.orders", open_upstream=partial(open_dying, 5))
    run, known = CopyProgress(lake.lake.location).read()
    assert run is not None
    assert [table.ours.units for table in known.values()] == [5]
    tidb.run(*CHANGES)
    killed = list(summed)
    summed.clear()

    (found,) = compare(lake, uri, "shop.orders", open_upstream=partial(open_dying, 100))

    assert found.resolved_ts == run.ts
    assert list_found(found, "id") == FOUND["orders"]
    # Eight units have all rows; the others after them narrow down what differs.
    assert (len(killed), sum(killed) + sum(summed[:3])) == (5, 3000)
    assert found.lake_rows == 3000
    assert CopyProgress(lake.lake.location).read() == (None, {})

    # Begun anew where TiDB no longer has its TSO.
    summed.clear()
    with pytest.raises(Killed):
        compare(lake, uri, "shop.orders", open_upstream=partial(open_dying, 2))
    with tidb.collect_garbage(tidb.now()):
        (again,) = compare(lake, uri, "shop.orders", open_upstream=partial(open_dying, 100))
    assert again.resolved_ts > found.resolved_ts
    assert again.different_rows > 1000


def test_what_is_lost_ends_the_run_and_what_is_gone_is_a_difference(
    lake: UpstreamCopy, tidb: Tidb, mariadb: MariaDb, tmp_path: Path
) -> None:
    ts = fill(lake, tidb)
    uri = write_copies(tidb, tmp_path, ts)

    def lose(number: int) -> None:
        if number > 2:
            raise UpstreamError("the connection is lost", setting="changefeed f.upstream: host")

    with pytest.raises(UpstreamError, match=r"f\.upstream: host: the connection is lost"):
        against(lake, tidb, uri, ts=ts, act=lose)
    tidb.run("DROP TABLE shop.notes")
    # The run that goes on has its own TSO, at which the table was there.
    assert {each.verdict for each in against(lake, tidb, uri)} == {"equal"}
    found = {each.table: each for each in against(lake, tidb, uri)}
    gone = found.pop("notes")
    assert (gone.verdict, gone.reason) == (
        "differs",
        "upstream has no such table at this TSO, or the user may not read it",
    )
    assert {each.verdict for each in found.values()} == {"equal"}
    with tidb.collect_garbage(tidb.now()), pytest.raises(SnapshotTooOld) as raised:
        against(lake, tidb, uri, ts=ts)
    assert "raise tidb_gc_life_time" in str(raised.value)
    with pytest.raises(ConfigError, match="--upstream: only TiDB reads rows as of a TSO"):
        against(lake, mariadb, uri)


def test_columns_whose_values_the_lake_must_not_have_are_not_compared(
    lake: UpstreamCopy, tidb: Tidb, tmp_path: Path
) -> None:
    ts = fill(lake, tidb)
    uri = write_copies(tidb, tmp_path, ts, wrong=True)
    privacy = Privacy((TablePrivacy(("shop.*",), (("v", "hash"),), keeps_others=True),), "KEY")
    lake.lake = LakeSession(lake.spark, lake.lake.location, replace(FEED, privacy=privacy))
    (found,) = against(lake, tidb, uri, "shop.orders", ts=ts)
    assert found.left_out == ("v: [changefeed.privacy] has the rule hash for it",)
    assert {each.what for each in found.differences} == {"missing", "extra"}
    assert not any('"v"' in (d.lake or "") + (d.upstream or "") for d in found.differences)
