"""The table of protocols: every declarable protocol has its row, and the row its decoders."""

from dataclasses import replace
from typing import get_args

import pytest

from ticdc_assets.changefeed import CsvDialect, ProtocolName, changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Ordering
from ticdc_assets.protocols.registry import (
    PROTOCOLS,
    get_ordering,
    make_file_decoder,
    make_topic_decoder,
)


def test_every_protocol_has_one_row() -> None:
    assert set(PROTOCOLS) == set(get_args(ProtocolName))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_changefeed_can_be_declared_exactly_where_its_protocol_has_a_decoder(
    protocol: ProtocolName,
) -> None:
    traits = PROTOCOLS[protocol]
    for uri, make, has_decoder in (
        ("kafka://h:9092/t", make_topic_decoder, traits.make_topic_decoder is not None),
        ("file:///data", make_file_decoder, traits.make_file_decoder is not None),
    ):
        sink_uri = f"{uri}?protocol={protocol}"
        if has_decoder:
            assert make(changefeed_from_uri(sink_uri)) is not None
        else:
            with pytest.raises(ConfigError, match="is not supported"):
                changefeed_from_uri(sink_uri)


def test_a_decoder_that_a_protocol_lacks_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="csv is not written to topics"):
        make_topic_decoder(changefeed_from_uri("file:///data?protocol=csv"))
    with pytest.raises(ConfigError, match="simple is not written to files"):
        make_file_decoder(changefeed_from_uri("kafka://h:9092/t?protocol=simple"))


@pytest.mark.parametrize(
    ("sink_uri", "ordering"),
    [
        ("kafka://h:9092/t?protocol=simple", "commit_ts"),
        ("kafka://h:9092/t?protocol=open-protocol", "commit_ts"),
        ("kafka://h:9092/t?protocol=canal-json", "milliseconds"),
        ("kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=true", "commit_ts"),
        ("file:///data?protocol=canal-json", "milliseconds"),
        ("file:///data?protocol=csv", "table_version"),
    ],
)
def test_the_ordering_follows_from_protocol_and_settings(sink_uri: str, ordering: Ordering) -> None:
    assert get_ordering(changefeed_from_uri(sink_uri)) == ordering


def test_csv_files_with_commit_ts_are_ordered_by_it() -> None:
    feed = replace(
        changefeed_from_uri("file:///data?protocol=csv"), csv=CsvDialect(include_commit_ts=True)
    )
    assert get_ordering(feed) == "commit_ts"
