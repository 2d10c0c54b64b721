"""TSOs as people write them, compared with what TiDB makes of the same texts."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.events import tso
from ticdc_assets.events.tso_text import (
    describe_unix_time,
    find_unix_time,
    format_exact_time,
    format_time,
    parse_tso,
)

NOW = datetime(2026, 11, 27, 3, 23, 46, 123456, tzinfo=UTC)
MS = 1795749826123


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-27 03:23:46.123", MS),
        ("2026-11-27 03:23:46.123 UTC", MS),
        ("2026-11-27T03:23:46.123Z", MS),
        ("2026-11-27t03:23:46.123000z", MS),
        ("2026-11-27T11:23:46.123+08:00", MS),
        ("2026-11-26T22:53:46.123-0430", MS),
        ("2026-11-27 11:23:46.123 +08:00", MS),
        (" 2026-11-27 03:23:46.1 ", MS - 23),
        ("2026-11-27 03:23:46", MS - 123),
        ("2026-11-27T03:23Z", MS - 46_123),
        ("now", MS),
        ("-10m", MS - 600_000),
        ("-1d2h3m4s", MS - 93_784_000),
        ("-0s", MS),
    ],
)
def test_a_time_is_its_milliseconds_without_a_counter(text: str, ms: int) -> None:
    assert parse_tso(text, NOW) == ms << 18


@pytest.mark.parametrize(
    ("text", "ts"),
    [
        ("2026-11-27 05:08:06", 470746683408384000),
        ("2026-11-27 05:08:06.1", 470746683434598400),
        ("2026-11-27 05:08:06.123", 470746683440627712),
        ("2026-11-27 05:08:06.999", 470746683670265856),
    ],
)
def test_a_time_is_what_a_real_tidb_reads_as_of_timestamp(text: str, ts: int) -> None:
    """Recorded: START TRANSACTION READ ONLY AS OF TIMESTAMP …, SELECT @@tidb_current_ts."""
    assert parse_tso(text, NOW) == ts


@pytest.mark.parametrize("number", [0, 5, 470745042511724545, (1 << 63) - 1])
def test_a_number_is_itself(number: int) -> None:
    assert parse_tso(str(number), NOW) == number


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be a TSO, a time such as"),
        ("-", "must be a TSO"),
        ("-10", "must be a TSO"),
        ("-10m5h", "must be a TSO"),
        ("10m", "must be a TSO"),
        ("yesterday", "must be a TSO"),
        ("2026-11-27", "must be a TSO"),
        ("２026-11-27 03:23:46", "must be a TSO"),
        ("4٣", "must be a TSO"),
        ("2026-11-27T03:23:46", "has no zone: add Z for UTC"),
        ("2026-11-27 03:23:46.1234", "at most 3 digits of a second"),
        ("2026-13-27 03:23:46", "is no time: month must be in"),
        ("2026-11-27 03:23:60", "is no time: second must be in"),
        ("2026-11-27 03:23:46+99:00", "is no time: "),
        ("1969-12-31 23:59:59", "must be 1970 or later"),
        ("-99999d", "must be 1970 or later"),
        ("-99999999999999d", "must be 1970 or later"),
        (str(1 << 63), r"must be below 2\^63"),
        ("9" * 20, "must be a TSO"),
    ],
)
def test_anything_else_is_an_error_that_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_tso(text, NOW)


@given(st.integers(0, 253402300799999), st.integers(0, (1 << 18) - 1))
def test_a_time_that_was_printed_is_read_as_its_millisecond(ms: int, counter: int) -> None:
    ts = tso.compose(ms, counter)
    assert parse_tso(format_exact_time(ts), NOW) == ms << 18
    assert parse_tso(format_time(ts), NOW) == ms // 1000 * 1000 << 18


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2099, 12, 31)), st.sampled_from([1, 10**3, 10**6])
)
def test_unix_time_is_recognized_and_no_tso_of_tidb_is(moment: datetime, per_second: int) -> None:
    seconds = int(moment.replace(tzinfo=UTC).timestamp())
    found = find_unix_time(seconds * per_second)
    assert found is not None
    assert found[1] == moment.replace(tzinfo=UTC, microsecond=0)
    if per_second > 1:
        number = (seconds * 1000 + 7) * (per_second // 1000)
        assert (find_unix_time(number) or found)[1] == found[1] + timedelta(milliseconds=7)
    assert find_unix_time(seconds * 1000 << 18) is None


def test_unix_time_is_said_to_be_that_with_the_tso_that_is_meant() -> None:
    said = describe_unix_time(1795749826)
    assert said is not None
    assert "1795749826 is no TSO but Unix time in seconds" in said
    (time, ts) = re.findall(r"time, (\S+),.* TSO, (\d+)", said)[0]
    assert parse_tso(time, NOW) == int(ts) == (MS - 123) << 18
    assert describe_unix_time(MS << 18) is None
    assert describe_unix_time(5) is None
