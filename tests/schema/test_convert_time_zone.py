"""Conversion in the time zone of a DDL's session, and what depends on a zone that is unknown."""

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column
from ticdc_assets.events.tso import to_datetime
from ticdc_assets.schema.conversion.convert import backfill, convert_value
from ticdc_assets.schema.effect import ColumnAdded, ColumnConverted
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.value_reader import read_value
from ticdc_assets.schema.types.value_writer import write_value

# Text, old type, zone, new type, converted text.
CONVERSIONS = [
    ("2024-05-31 15:00:00", "timestamp", "Asia/Tokyo", "datetime", "2024-06-01 00:00:00"),
    ("2024-06-01 00:00:00", "datetime", "Asia/Tokyo", "timestamp", "2024-05-31 15:00:00"),
    ("2024-05-31 15:00:00.5", "timestamp(1)", "Asia/Tokyo", "date", "2024-06-01"),
    ("2024-05-31 15:00:00.5", "timestamp(1)", "Asia/Tokyo", "time(1)", "00:00:00.5"),
    ("2024-05-31 15:00:00", "timestamp", "Asia/Tokyo", "varchar(30)", "2024-06-01 00:00:00"),
    ("2024-05-31 15:00:00", "timestamp", "Asia/Tokyo", "bigint", "20240601000000"),
    ("2024-05-31 15:00:00", "timestamp", "Asia/Tokyo", "timestamp", "2024-05-31 15:00:00"),
    ("2024-06-01", "date", "America/New_York", "timestamp(3)", "2024-06-01 04:00:00.000"),
    ("20240101000000", "bigint", "America/New_York", "timestamp", "2024-01-01 05:00:00"),
    ("2024-6-1 1:2:3.4", "varchar(30)", "Asia/Tokyo", "timestamp(1)", "2024-05-31 16:02:03.4"),
    ("2024-06-01 00:00:00+02:00", "varchar(30)", "Asia/Tokyo", "datetime", "2024-06-01 07:00:00"),
    ("2024-06-01 00:00:00+02:00", "varchar(30)", "Asia/Tokyo", "timestamp", "2024-05-31 22:00:00"),
    ("0000-00-00 00:00:00", "timestamp", "Asia/Tokyo", "datetime", "0000-00-00 00:00:00"),
    # The first second of TIMESTAMP is one of UTC.
    ("1970-01-01 09:00:00", "datetime", "Asia/Tokyo", "timestamp", "0000-00-00 00:00:00"),
    ("1970-01-01 09:00:01", "datetime", "Asia/Tokyo", "timestamp", "1970-01-01 00:00:01"),
    # The hour that repeats: Go takes daylight saving time west of Greenwich, standard time east.
    ("2024-11-03 01:30:00", "datetime", "America/New_York", "timestamp", "2024-11-03 05:30:00"),
    ("2024-10-27 02:30:00", "datetime", "Europe/Berlin", "timestamp", "2024-10-27 01:30:00"),
]


@pytest.mark.parametrize(("text", "old", "zone", "new", "expected"), CONVERSIONS)
def test_timestamps_are_converted_in_the_time_zone_of_the_session(
    text: str, old: str, zone: str, new: str, expected: str
) -> None:
    source, target = parse_type(old), parse_type(new)
    value = convert_value(read_value(text, source), source, target, ZoneInfo(zone))
    assert write_value(value, target) == expected


@pytest.mark.parametrize(
    ("text", "old", "new", "zone", "reason"),
    [
        # A text with an offset becomes a local time, whatever its own zone.
        ("2024-06-01 00:00:00+02:00", "varchar(30)", "datetime", None, "ddl-time-zone"),
        ("2024-06-01T00:00:00Z", "varchar(30)", "time", None, "ddl-time-zone"),
        # The hour that is skipped.
        ("2024-03-10 02:30:00", "datetime", "timestamp", "America/New_York", "does not exist"),
        ("9999-12-31 23:59:59", "datetime", "timestamp", "America/New_York", "no equivalent"),
    ],
)
def test_a_moment_that_is_not_certain_raises(
    text: str, old: str, new: str, zone: str | None, reason: str
) -> None:
    source = parse_type(old)
    known = None if zone is None else ZoneInfo(zone)
    with pytest.raises(InvalidValue, match=reason):
        convert_value(read_value(text, source), source, parse_type(new), known)


DEFAULTS = [
    ("timestamp", "2020-02-02 09:00:00", "2020-02-02 00:00:00"),
    ("timestamp", "2020-02-02 09:00:00+01:00", "2020-02-02 08:00:00"),
    ("timestamp", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
    ("datetime", "2020-02-02 09:00:00", "2020-02-02 09:00:00"),
    ("timestamp", "CURRENT_TIMESTAMP", "2024-05-01 20:00:00"),
    ("datetime", "CURRENT_TIMESTAMP", "2024-05-02 05:00:00"),
    ("date", "(CURRENT_DATE)", "2024-05-02"),
]


@pytest.mark.parametrize(("type_text", "default", "expected"), DEFAULTS)
def test_defaults_are_evaluated_in_the_time_zone_of_the_session(
    type_text: str, default: str, expected: str
) -> None:
    commit_ts = 1714593600000 << 18
    assert to_datetime(commit_ts).isoformat() == "2024-05-01T20:00:00+00:00"
    column = Column("c", parse_type(type_text), True, default, "CURRENT" in default)
    value = backfill(column, commit_ts, ZoneInfo("Asia/Tokyo"))
    assert write_value(value, column.type) == expected


def test_a_change_assumes_utc_if_its_values_depend_on_an_unknown_zone() -> None:
    timestamp, datetime, text = map(parse_type, ("timestamp", "datetime", "varchar(9)"))
    assert ColumnConverted("c", timestamp, datetime).assumes_utc
    assert ColumnConverted("c", text, timestamp).assumes_utc
    assert not ColumnConverted("c", timestamp, datetime, UTC).assumes_utc
    assert not ColumnConverted("c", timestamp, parse_type("timestamp(3)")).assumes_utc
    assert not ColumnConverted("c", text, datetime).assumes_utc
    literal = Column("c", timestamp, default="2020-02-02 09:00:00")
    assert ColumnAdded(literal).assumes_utc
    assert not ColumnAdded(literal, UTC).assumes_utc
    assert not ColumnAdded(Column("c", datetime, default="2020-02-02 09:00:00")).assumes_utc
    assert not ColumnAdded(Column("c", timestamp, default="0000-00-00 00:00:00")).assumes_utc
    assert not ColumnAdded(Column("c", timestamp)).assumes_utc


@pytest.mark.parametrize(("kind", "new"), [("enum", "enum('b','a')"), ("set", "set('b','a')")])
def test_numbers_of_unknown_members_are_not_converted(kind: str, new: str) -> None:
    unknown = parse_type(kind)
    assert convert_value(None, unknown, parse_type(new)) is None
    for target in (new, "varchar(9)"):
        with pytest.raises(InvalidValue, match=f"members that the {kind} had before"):
            convert_value("1", unknown, parse_type(target))
    assert convert_value("1", unknown, parse_type("int")) == 1
