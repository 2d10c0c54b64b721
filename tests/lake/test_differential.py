"""The lake and the reference model make the same tables of streams that no server sends."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.ddl_streams import FEED
from tests.fuzz.hostile import END, STREAMS, stream_messages
from tests.lake.canal import placed, watermark
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.events import TableSchema, TopicPosition
from ticdc_assets.lake.advance import RecordSource, advance
from ticdc_assets.protocols.message import Message
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.schema.types.either_moment import EITHER_MOMENT
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.small_tables import read_table
from ticdc_assets.stream.reading import read_topic_events
from ticdc_assets.views.asof import AsOfView, as_of

_THREADS = 4
# The end of the first window: most tables have a row by then.
MIDDLE = 3

# Streams that insert a key again which nothing has deleted.  The lake trusts that upstream had no
# such row, unless the changefeed is declared to leave changes out.
REPEATED_KEYS = [
    "with a key with zeros",
    "two inserts of a key",
    "a key that changes",
    "keys of decimals",
    "keys of timestamps",
]
OTHERS = [name for name in STREAMS if name not in REPEATED_KEYS]
# One of each kind; `-m all_golden` runs all of them.
USUAL = [
    "with another type of the key",
    "first types in another case",
    "an update with a null key before",
    "an insert after a delete that cannot be read",
    "no key and nulls",
    "no key and more deletes than rows",
    "no key and a delete before the insert",
    "a conversion that fails",
]
CHUNKS = 5


class Shown(NamedTuple):
    """What a table shows; a column that rows never sent is NULL."""

    status: str
    rows: Sequence[str] = ()


# What tables show by name, and why rows are in the quarantine by place.
_Contents = tuple[dict[str, Shown], dict[tuple[int, int], str]]


def test_the_lake_and_the_model_agree(spark: SparkSession, tmp_path: Path) -> None:
    compare(spark, tmp_path, USUAL, FEED)


def test_a_key_is_never_there_twice_if_deletes_may_be_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    compare(spark, tmp_path, REPEATED_KEYS, replace(FEED, may_lack_deletes=True))


def test_the_hour_that_a_zone_repeats_identifies_no_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = ["keys of timestamps", "values of timestamp", "values of an inferred timestamp"]
    feed = replace(FEED, tz=ZoneInfo("America/New_York"), may_lack_deletes=True)
    compare(spark, tmp_path, names, feed)
    lake = LakeSession(spark, Lake(str(tmp_path), "hostile"), feed)
    reasons = [row["reason"] for row in read_table(lake, "quarantine").select("reason").collect()]
    # Three rows of the first stream: two inserts and a delete.
    assert sum(EITHER_MOMENT in reason for reason in reasons) == 3


@pytest.mark.all_golden
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_lake_and_the_model_agree_on_all(
    spark: SparkSession, tmp_path: Path, chunk: int
) -> None:
    compare(spark, tmp_path, OTHERS[chunk::CHUNKS], FEED)


def compare(spark: SparkSession, root: Path, names: list[str], feed: Changefeed) -> None:
    """Take streams through the model and the lake in two windows, and compare after each."""
    lake = LakeSession(spark, Lake(str(root), "hostile"), feed)
    model = ModelReplay(feed)
    sent = stream_messages(names)
    early = [message for message in sent if _commit_ts(message) <= MIDDLE]
    late = [message for message in sent if _commit_ts(message) > MIDDLE]
    messages = placed([*early, watermark(MIDDLE), *late])
    done = 0
    for ts, count in ((MIDDLE, len(early) + 1), (END, len(messages))):
        came = messages[:count]
        model.add(read_topic_events(feed, messages[done:count], None))
        model.advance(ts)
        result = advance(lake, RecordSource(lambda _, came=came: iter(came)))
        assert result.applied.resolved_ts == ts
        ours, theirs = read_lake(lake, as_of(lake, ts)), read_model(model)
        for found, expected in zip(ours, theirs, strict=True):
            assert found == expected, f"at {ts}, of {dict(enumerate(names))}"
        done = count


def _commit_ts(message: Message) -> int:
    assert message.value is not None
    stated = json.loads(message.value.decode("utf-8", "surrogatepass"))["_tidb"]
    # The watermark is the last record.
    return int(stated.get("commitTs", END))


def read_lake(lake: LakeSession, view: AsOfView) -> _Contents:
    tables = view.tables()
    with ThreadPoolExecutor(_THREADS) as pool:
        lines = list(pool.map(lambda table: list(view.lines(table)), tables))
    shown = {
        table.schema.table: Shown(table.shown_status, _complete(found, table.schema))
        for table, found in zip(tables, lines, strict=True)
    }
    for unknown in view.state.unknown_tables:
        shown[unknown.table] = Shown("waiting")
    rows = read_table(lake, "quarantine").select("number", "index", "error", "reason").collect()
    return shown, {(row["number"], row["index"]): row["reason"] for row in rows}


def read_model(model: ModelReplay) -> _Contents:
    shown = {}
    for table in list(model.model.tables):
        lines = model.encode_table(table)
        if lines is None:
            shown[table.schema.table] = Shown("paused")
        else:
            status = "partial" if table.partial_reason else "live"
            shown[table.schema.table] = Shown(status, _complete(lines, table.schema))
    for problem in model.model.waiting_rows():
        shown[problem.table] = Shown("waiting")
    quarantined = {}
    for problem in model.problems():
        if problem.kind == "quarantined":
            assert isinstance(problem.position, TopicPosition)
            place = problem.position.offset, problem.position.index
            # What could not be decoded states the class of its error too.
            quarantined[place] = problem.reason.removeprefix("MalformedMessage: ")
    return shown, quarantined


def _complete(lines: Sequence[bytes], schema: TableSchema) -> tuple[str, ...]:
    names = [column.name for column in schema.columns if column.generated != "virtual"]
    rows = map(json.loads, lines)
    return tuple(sorted(json.dumps([row.get(name) for name in names]) for row in rows))
