"""Find out whether a source holds more for a lake than watermarks, where that is quick.

A changefeed without changes goes on sending watermarks.  Applying each of them would cost runs, and
commits, that change nothing but the resolved ts.
"""

from collections.abc import Iterator
from contextlib import closing

import pyarrow.compute as pc

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Event, Quarantined, TopicPosition, Watermark
from ticdc_assets.lake.raw.ingest_folder import may_have_new_files
from ticdc_assets.protocols.registry import make_topic_decoder
from ticdc_assets.resources.catalog import read_last_ingest
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.offsets import ReadOffsets
from ticdc_assets.stream.reading import decode_safely

# A sensor reads no more records than this to find out that all are watermarks.
_MANY_RECORDS = 5_000


def may_have_input(feed: Changefeed, lake: Lake, applied_ts: int) -> bool:
    """Return whether a source, or the lake itself, has events that are not applied yet.

    True where it would take long to tell, and where the source cannot be read: the run says why.
    """
    try:
        if _may_have_pending_events(lake, applied_ts):
            return True
        match feed.transport:
            case "storage":
                return may_have_new_files(lake, open_sink_folder(feed))
            case "kafka":
                events = _read_new_events(feed, lake)
                return any(not isinstance(event, Watermark) for event in events)
            case _:
                return True
    except ConfigError:
        return True


def _may_have_pending_events(lake: Lake, applied_ts: int) -> bool:
    """Return whether decoded events wait for a watermark that covers them."""
    reader = LakeReader(lake)
    events = reader.open("events")
    if not reader.is_small(events, {"commit_ts": applied_ts}):
        return True
    is_pending = (pc.field("commit_ts") > applied_ts) & pc.field("kind").isin(["row", "ddl"])
    return bool(reader.read(events, ["kind"], is_pending).num_rows)


def _read_new_events(feed: Changefeed, lake: Lake) -> Iterator[Event]:
    """Decode the records of topics that were not ingested; too many of them end as one event."""
    ingested = read_last_ingest(lake)
    known = ReadOffsets(ingested.get("offsets"), ingested.get("topics"))
    decoder = make_topic_decoder(feed)
    # Who reads folders has not installed Kafka's client.
    from ticdc_assets.resources.kafka import read_topics

    with closing(read_topics(feed, known)) as records:
        for count, record in enumerate(records):
            if isinstance(record, Quarantined):
                yield record
                continue
            position = TopicPosition(record.topic, record.partition, record.offset)
            if count == _MANY_RECORDS:
                yield Quarantined(position=position, error="", reason="too many records")
            yield from decode_safely(decoder.decode, record, position)
