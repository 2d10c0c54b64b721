"""Anything at all is a declaration or an error of ours."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ticdc_assets.changefeed import changefeed_from_uri, load_changefeeds
from ticdc_assets.changefeed.known_settings import FOREIGN, KNOWN
from ticdc_assets.errors import ConfigError


@given(st.text() | st.text("kafs3://:@?&=%#gzipdumfle.[]1-_;\0").map("s3://".__add__))
@example("s3://[bucket/x?protocol=csv")
@example("kafka://a:1/t?protocol=simple&partition-num=" + "9" * 5000)
@example("file:///%ff?protocol=csv")
@example("file:///%00?protocol=csv")
@example("s3://bücket℀/x?protocol=csv")
def test_any_text_is_a_changefeed_or_a_config_error(uri: str) -> None:
    try:
        changefeed_from_uri(uri)
    except ConfigError as error:
        assert error.setting  # noqa: PT017


@given(st.binary() | st.just(b"a = " + b"[" * 100_000) | st.just(b"a = " + b"1" * 5_000))
def test_any_bytes_are_changefeeds_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"any\.toml"):
        load_changefeeds(path)


def test_the_tables_of_other_sinks_are_known_by_name() -> None:
    for place in FOREIGN:
        table, _, name = place.rpartition(".")
        assert name in KNOWN[table]
