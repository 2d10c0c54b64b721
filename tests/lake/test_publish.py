"""The address of a name always has the rows of the table that has the name."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.hostile_names import NAMES
from tests.lake.addresses import GONE, LIFE, Shown, create, open_lake, read_addresses, send
from tests.lake.canal import ddl, placed, row, watermark
from ticdc_assets.lake import advance as advancing
from ticdc_assets.lake import maintain as maintenance
from ticdc_assets.lake import publish as publishing
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.lake.publish import publish
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.plan.state import name_address
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.address_log import AddressCommit
from ticdc_assets.store.lake import Lake, LakeSession, find_folder


def watch_commits(monkeypatch: pytest.MonkeyPatch, look: Callable[[AddressCommit], None]) -> None:
    written = publishing.write_commit

    def write(location: Lake, commit: AddressCommit) -> None:
        written(location, commit)
        look(commit)

    monkeypatch.setattr(publishing, "write_commit", write)
    monkeypatch.setattr(publishing, "_AT_ONCE", 1)


def test_an_address_follows_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = open_lake(tmp_path)
    seen: list[Shown] = []
    watch_commits(monkeypatch, lambda _: seen.append(read_addresses(lake)))
    before: Shown = {}
    for number, (_, after) in enumerate(LIFE, 1):
        assert advance(lake, send(number)).applied.problems == []
        shown = read_addresses(lake)
        assert shown == after, number
        # In between, each name has what it had before or what it has after.
        for look in seen:
            for name, ids in look.items():
                assert ids in (before.get(name), after.get(name)), (number, name)
        # Only what changed is published.
        assert len(seen) == sum(before.get(name) != ids for name, ids in after.items())
        seen.clear()
        before = after
    assert check_stated_ts(lake) == len(before)


def check_stated_ts(lake: LakeSession) -> int:
    """Check that each commit at an address states its ts as its table does; count addresses."""
    addresses = list(Path(lake.path("current")).glob("*.*/_delta_log"))
    for log in addresses:
        for path in log.glob("*.json"):
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            (stated,) = (json.loads(a["commitInfo"]["userMetadata"]) for a in actions[:1])
            (about,) = (a["metaData"]["configuration"] for a in actions if "metaData" in a)
            assert str(stated["resolved_ts"]) == about["ticdc.resolved_ts"]
            assert stated["resolved_ts"] % 10 == 9
    return len(addresses)


class Killed(Exception):
    """The run was killed."""


@pytest.mark.parametrize("commits", range(3))
def test_a_run_that_is_killed_while_it_publishes_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send(4))
    left = commits

    def kill(_: AddressCommit) -> None:
        nonlocal left
        if not left:
            raise Killed
        left -= 1

    with monkeypatch.context() as patched:
        watch_commits(patched, kill)
        with pytest.raises(Killed):
            advance(lake, send(6))
    # Nothing new comes, and nothing is applied.
    assert advance(lake, send(6)).is_idle
    assert read_addresses(lake) == LIFE[5][1]
    assert publish(lake) == 0


def test_an_address_that_lags_has_the_rows_of_the_ts_that_it_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path)
    lags: list[int] = []

    def check() -> None:
        """Check every address; note by how many windows it lags."""
        for name, ids in read_addresses(lake).items():
            about = DeltaTable(lake.path(f"current/d.{name}")).metadata().configuration
            window = int(about["ticdc.resolved_ts"]) // 10
            assert ids == LIFE[window][1][name], (name, window)
            last = read_last_snapshot(lake).ts // 10
            lags.append(sum(LIFE[n][1].get(name) != ids for n in range(window + 1, last + 1)))

    left = 0

    def kill(_: AddressCommit) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    def publish_some(*arguments: Any) -> int:
        check()
        return publish(*arguments)

    watch_commits(monkeypatch, kill)
    monkeypatch.setattr(advancing, "publish", publish_some)
    monkeypatch.setattr(maintenance, "publish", publish_some)
    for number in range(1, len(LIFE) + 1):
        # Windows come with hardly any of what they changed published.
        left = number % 2
        with suppress(Killed):
            advance(lake, send(number))
        check()
        if number % 4 == 0:
            # It may end anywhere, and removes nothing that an address shows.
            for allowed in (1, 99):
                left = allowed
                with suppress(Killed):
                    maintain(lake, read_last_snapshot(lake), retain_days=0, min_files=1)
                check()
    assert max(lags) > 1
    left = 99
    advance(lake, send(len(LIFE)))
    check()
    assert read_addresses(lake) == LIFE[-1][1]


def test_a_lake_that_was_restored_or_knows_no_addresses_publishes_all(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    advance(lake, send(6))
    done = Path(lake.path("current"), "published.json")
    for content in ('{"snapshot_id":99}', '{"snapsh', None):
        done.unlink()
        if content is not None:
            done.write_text(content)
        # All is there as it should be.
        assert publish(lake) == 0
        assert read_addresses(lake) == LIFE[5][1]
    done.unlink()
    advance(lake, send(8))
    assert read_addresses(lake) == LIFE[7][1]


def test_a_table_that_was_renamed_takes_no_space_twice_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    lake = open_lake(tmp_path)
    advance(lake, send(4))
    (copy,) = Path(lake.path("current")).glob("d.c/copies-of-d.a-2/*.parquet")
    assert copy.stat().st_nlink == 2
    advance(lake, send(6))
    # Those that nobody shows any more are removed: a week later, the log names them no more.
    for path in Path(lake.path("current")).rglob("*.parquet"):
        os.utime(path, (0, 0))
    maintain(lake, read_last_snapshot(lake), retain_days=7)
    assert copy.exists()
    address = copy.parents[1]
    DeltaTable(address).create_checkpoint()
    for path in address.glob("_delta_log/*.json"):
        path.unlink()
    maintain(lake, read_last_snapshot(lake), retain_days=7)
    assert read_addresses(lake) == LIFE[5][1]
    assert not list(copy.parent.glob("*.parquet"))


def read_records(sent: Sequence[Message]) -> RecordSource:
    return RecordSource(lambda _: placed(sent))


def test_an_address_is_described_by_the_comment_of_its_table(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    statements = (
        ("CREATE", "CREATE TABLE a (id INT PRIMARY KEY COMMENT 'x') COMMENT='what \xe9 is'"),
        ("RENAME", "RENAME TABLE d.a TO d.b"),
        ("ALTER", "ALTER TABLE b COMMENT = ''"),
    )
    comments = ("d.a of TiDB, by changefeed f: what \xe9 is",)
    comments += ("d.b of TiDB, by changefeed f: what \xe9 is", "d.b of TiDB, by changefeed f")
    sent: list[Message] = []
    for number, ((kind, sql), comment) in enumerate(zip(statements, comments, strict=True), 1):
        sent += [ddl("d", comment[2], number * 10, kind, sql), watermark(number * 10 + 9)]
        advance(lake, read_records(sent))
        shown = DeltaTable(lake.path(f"current/d.{comment[2]}"))
        assert shown.metadata().description == comment
        assert shown.schema().fields[0].metadata["comment"] == "int NOT NULL: x"


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_an_address_is_safe_in_any_file_system(name: str) -> None:
    address = name_address(name, name)
    assert address.isascii()
    assert not {*address} & {*"/\\:*?\"'<>|% \n\0`"}
    assert not address.startswith((".", "-", "_delta"))
    assert len(address) <= 130
    assert name_address("shop", "orders") == "shop.orders"


def test_names_that_differ_have_different_addresses() -> None:
    names: Sequence[tuple[str, str]] = [
        *(("a.b", "c"), ("a", "b.c"), ("a_b", "c"), ("a", "b_c"), ("a-b", "c"), ("a b", "c")),
        *(("a" * 64, "b"), ("a", "a" * 64), ("", "a"), ("a", ""), ("é", "c"), ("表", "c")),
    ]
    assert len({name_address(*name) for name in names}) == len(names)
    # TiDB compares names without case.
    assert name_address("Shop", "ORDERS") == name_address("shop", "orders")


@pytest.mark.parametrize(
    ("table", "folder"),
    [
        ("current/shop.orders-447", "current/shop.orders/447"),
        # The second one of its name that nobody saw created.
        ("current/shop.orders-0-2", "current/shop.orders/0-2"),
        ("current/shop.orders-447-load-0a1b2c3d", "current/shop.orders/447-load-0a1b2c3d"),
        ("current/shop.orders-447-load-12345678", "current/shop.orders/447-load-12345678"),
        ("current/a_b.c.0123456789abcdef-5", "current/a_b.c.0123456789abcdef/5"),
        # What is no incarnation, or of a lake of before there were addresses.
        ("current/a_b.c.0123456789012345", "current/a_b.c.0123456789012345"),
        ("current/shop-orders-447-0a1b2c3d", "current/shop-orders-447-0a1b2c3d"),
        ("history/shop.orders-447", "history/shop.orders-447"),
    ],
)
def test_an_incarnation_lies_below_the_address_of_its_first_name(table: str, folder: str) -> None:
    assert find_folder(table) == folder


def test_what_a_killed_run_published_is_compared_again_even_if_all_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake(tmp_path)
    came = [create("a", 2), row("d", "a", 5, id="1"), watermark(9)]

    def go_on(*messages: Message) -> None:
        came.extend(messages)
        sent = placed(came)
        advance(lake, RecordSource(lambda _: sent))

    def kill(_: AddressCommit) -> None:
        raise Killed

    go_on()
    with monkeypatch.context() as patched:
        watch_commits(patched, kill)
        with pytest.raises(Killed):
            go_on(ddl("d", "a", 12, "ERASE", "DROP TABLE a"), watermark(19))
    assert read_addresses(lake) == {"a": GONE}
    go_on(ddl("d", "a", 22, "QUERY", "RECOVER TABLE a"), watermark(29))
    assert read_addresses(lake) == {"a": [1]}
