"""Recognise the protocol of a changefeed's output whose declared protocol decodes nothing.

A protocol is recognised only if it decodes every input that is tried, and no other one does.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.declaration import LARGE_COMPRESSIONS
from ticdc_assets.errors import MissingPayload
from ticdc_assets.events import Quarantined, TopicPosition
from ticdc_assets.protocols.message import Message
from ticdc_assets.protocols.registry import PROTOCOLS, make_topic_decoder
from ticdc_assets.stream.folder_files import is_named_like_data
from ticdc_assets.stream.reading import decode_safely

_TRIED = 100


def describe_protocol(feed: Changefeed) -> str:
    """Return the settings that declare a changefeed's protocol."""
    settings = [f"protocol={feed.protocol}"]
    if feed.protocol == "simple":
        settings.append(f"encoding-format={feed.encoding_format}")
    if feed.large_message_handle_compression != "none":
        name = "large-message-handle-compression"
        settings.append(f"{name}={feed.large_message_handle_compression}")
    return ", ".join(settings)


def recognize_topic(feed: Changefeed, records: Iterable[Message | Quarantined]) -> str | None:
    """Return the settings that declare the protocol of a topic's records, if it is recognised."""
    messages = list(islice((r for r in records if isinstance(r, Message)), _TRIED))
    fitting = [other for other in _list_variants(feed) if messages and _decodes(other, messages)]
    return describe_protocol(fitting[0]) if len(fitting) == 1 else None


def recognize_folder(paths: Iterable[str]) -> str | None:
    """Return the setting that declares the protocol of a folder's files, if it is recognised."""
    extensions = {path[path.rindex(".") :] for path in paths if is_named_like_data(path)}
    fitting = [
        name
        for name, traits in PROTOCOLS.items()
        if traits.make_file_decoder is not None and extensions == {traits.file_extension}
    ]
    return f"protocol={fitting[0]}" if len(fitting) == 1 else None


def _list_variants(feed: Changefeed) -> Iterator[Changefeed]:
    for compression in LARGE_COMPRESSIONS:
        feed = replace(feed, large_message_handle_compression=compression)
        for name, traits in PROTOCOLS.items():
            if traits.make_topic_decoder is not None:
                yield replace(feed, protocol=name, encoding_format="json")
        yield replace(feed, protocol="simple", encoding_format="avro")


def _decodes(feed: Changefeed, messages: Iterable[Message]) -> bool:
    decoder = make_topic_decoder(feed)
    return not any(
        isinstance(event, Quarantined) and event.error != MissingPayload.__name__
        for message in messages
        for event in decode_safely(
            decoder.decode, message, TopicPosition(message.topic, message.partition, message.offset)
        )
    )
