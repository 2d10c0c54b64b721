"""TSO arithmetic, compared with the numbers in TiDB's documentation."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.events import tso


def test_a_documented_canal_json_tso_is_its_es_field_shifted() -> None:
    # TiCDC documents a watermark with "es":1640007049196 and "watermarkTs":429918007904436226.
    assert tso.physical_ms(429918007904436226) == 1640007049196
    assert tso.logical(429918007904436226) == 2
    assert tso.to_datetime(429918007904436226) == datetime(
        2021, 12, 20, 13, 30, 49, 196000, tzinfo=UTC
    )


@given(st.integers(0, (1 << 45) - 1), st.integers(0, (1 << 18) - 1))
def test_a_tso_is_composed_of_its_milliseconds_and_counter(ms: int, counter: int) -> None:
    ts = tso.compose(ms, counter)
    assert (tso.physical_ms(ts), tso.logical(ts)) == (ms, counter)
    if ms < 32503680000000:  # the year 3000
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        assert tso.to_datetime(ts) == epoch + timedelta(milliseconds=ms)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: tso.compose(-1),
        lambda: tso.compose(0, 1 << 18),
    ],
)
def test_invalid_parts_of_a_tso_raise(wrong) -> None:
    with pytest.raises(ValueError, match="TSO"):
        wrong()
