"""TIMESTAMP texts of a server's time zone, in the hours in which its clocks change."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.protocols.timestamp import to_utc

NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2024-11-03 00:59:59", "2024-11-03 04:59:59"),
        ("2024-11-03 01:00:00", "2024-11-03 05:00:00|2024-11-03 06:00:00"),
        ("2024-11-03 01:59:59.5", "2024-11-03 05:59:59.5|2024-11-03 06:59:59.5"),
        ("2024-11-03 02:00:00", "2024-11-03 07:00:00"),
        ("2024-03-10 01:59:59", "2024-03-10 06:59:59"),
        ("2024-03-10 03:00:00", "2024-03-10 07:00:00"),
        ("0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        ("1000-01-01 00:00:00", "1000-01-01 04:56:02"),
        ("9999-12-31 12:00:00", "9999-12-31 17:00:00"),
    ],
)
def test_a_text_of_the_repeated_hour_means_two_moments(text: str, utc: str) -> None:
    assert to_utc(text, NEW_YORK) == utc


@pytest.mark.parametrize(
    "text",
    ["2024-03-10 02:00:00", "2024-03-10 02:59:59", "2024-11-03 01:00", "2024-02-30 00:00:00"],
)
def test_a_text_that_no_clock_showed_is_malformed(text: str) -> None:
    with pytest.raises(MalformedMessage):
        to_utc(text, NEW_YORK)


def changes(zone: ZoneInfo, year: int) -> Iterator[datetime]:
    """The days of a year on which the clocks of a zone change."""
    day = datetime(year, 1, 1, tzinfo=UTC)
    while day.year == year:
        following = day + timedelta(days=1)
        if day.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            yield day
        day = following


@pytest.mark.parametrize(
    ("name", "year"),
    [
        ("America/New_York", 2007),
        ("Asia/Shanghai", 1988),
        ("Australia/Lord_Howe", 2024),
        ("Antarctica/Troll", 2024),
        ("Europe/Dublin", 1971),
        ("Africa/Casablanca", 2023),
        # It left out a day.
        ("Pacific/Apia", 2011),
    ],
)
def test_every_moment_is_found_again(name: str, year: int) -> None:
    zone = ZoneInfo(name)
    days = list(changes(zone, year))
    assert days
    for day in days:
        moments = [day + timedelta(minutes=10 * n) for n in range(-144, 2 * 144)]
        by_text = defaultdict(list)
        for moment in moments:
            by_text[f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"].append(
                f"{moment:%Y-%m-%d %H:%M:%S}"
            )
        # Of the first and last hours, the other moment may be beyond the days.
        for text, shown in list(by_text.items())[24:-24]:
            assert to_utc(text, zone) == "|".join(shown), (text, shown)
