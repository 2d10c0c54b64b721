"""A lake of every format, made of the first of some messages, as the code of its time made it.

`python -m tests.lake.older_lakes FOLDER` makes the one of the present format: whoever changes the
format runs it at the end, and leaves the others as they are.  The one of format 0 is from the time
when Spark did all work on rows.  All tables counted as large, so that they have deletion vectors
and clustering.
"""

import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.lake.canal import FEED as PLAIN
from tests.lake.canal import change, ddl, placed, row, watermark
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.format import FORMAT
from ticdc_assets.store.lake import Lake, LakeSession

ARCHIVES = {
    number: Path(__file__).with_name(f"lake_of_format_{number}.tar.xz")
    for number in range(FORMAT + 1)
}
FEED = replace(PLAIN, history=("d.t",), changes=("d.t",))
KEYED = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` VARCHAR(20), `born` DATE)"
KEYLESS = "CREATE TABLE `k` (`v` VARCHAR(20))"
# One of its columns needs column mapping.
SPACED = "CREATE TABLE `s` (`id` INT PRIMARY KEY, `a b` VARCHAR(20))"


def _born(kind: str, ts: int, values: dict[str, str], old: dict[str, str] | None = None) -> Message:
    return change(kind, "d", "t", ts, values, old, born="date")


# By the ts of their watermark.
WINDOWS: Mapping[int, Sequence[Message]] = {
    20: [
        ddl("d", "t", 10, "CREATE", KEYED),
        ddl("d", "k", 10, "CREATE", KEYLESS),
        ddl("d", "s", 10, "CREATE", SPACED),
        _born("INSERT", 11, {"id": "1", "v": "x", "born": "2024-02-29"}),
        _born("INSERT", 12, {"id": "2", "v": "y", "born": "0000-00-00"}),
        row("d", "s", 13, id="1", **{"a b": "p"}),
        *(change("INSERT", "d", "k", ts, {"v": "twice"}) for ts in (14, 15)),
        _born("INSERT", 16, {"id": "none", "v": "z", "born": "2024-02-29"}),
    ],
    40: [
        _born(
            "UPDATE",
            31,
            {"id": "1", "v": "xx", "born": "2024-02-29"},
            {"id": "1", "v": "x", "born": "2024-02-29"},
        ),
        change("DELETE", "d", "k", 32, {"v": "twice"}),
        ddl("d", "t", 33, "ALTER", "ALTER TABLE `t` ADD COLUMN `n` INT DEFAULT 7"),
    ],
    60: [
        change("DELETE", "d", "t", 51, {"id": "2", "n": "7"}, n="int"),
        change("INSERT", "d", "t", 52, {"id": "3", "v": "w", "n": "8"}, n="int"),
        row("d", "s", 53, id="2", **{"a b": "q"}),
        change("INSERT", "d", "k", 54, {"v": "once"}),
    ],
    80: [
        ddl("d", "t", 70, "ALTER", "ALTER TABLE `t` RENAME COLUMN `v` TO `w x`"),
        change(
            "UPDATE",
            "d",
            "t",
            71,
            {"id": "3", "w x": "ww", "born": None, "n": "8"},  # type: ignore[dict-item]
            {"id": "3", "w x": "w", "born": None, "n": "8"},  # type: ignore[dict-item]
            born="date",
            n="int",
        ),
        change("DELETE", "d", "k", 72, {"v": "once"}),
    ],
}
# Up to this window, the older lakes have the messages.
LAST = 40


def send(through: int) -> RecordSource:
    """Return what the topic has up to a window."""
    sent = [
        message
        for ts, window in WINDOWS.items()
        if ts <= through
        for message in (*window, watermark(ts))
    ]
    return RecordSource(lambda _: placed(sent))


def unpack(folder: Path, number: int) -> str:
    """Unpack the lake of a format; return its root."""
    with tarfile.open(ARCHIVES[number]) as archive:
        archive.extractall(folder, filter="data")
    return str(folder / "lake")


def main() -> None:
    from ticdc_assets.lake.apply import table_features
    from ticdc_assets.resources.spark import get_session

    table_features.LARGE_TABLE = -1
    root = Path(sys.argv[1], "lake")
    lake = LakeSession(get_session(), Lake(str(root), FEED.id), FEED)
    for ts in WINDOWS:
        if ts <= LAST:
            advance(lake, send(ts))
    with tarfile.open(ARCHIVES[FORMAT], "w:xz") as archive:
        archive.add(root, "lake")


if __name__ == "__main__":
    main()
