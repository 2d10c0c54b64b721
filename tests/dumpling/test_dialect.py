"""The options of an export: what contradicts another is an error, and a time zone is TiDB's."""

import pytest

from tests.dumpling.test_hostile import STAMPED, read_all
from ticdc_assets.dumpling.dialect import Dialect, find_zone, make_dialect
from ticdc_assets.errors import ConfigError, MalformedMessage


@pytest.mark.parametrize(
    ("zone", "utc"),
    [
        ("Asia/Tokyo", "2024-01-01 00:00:00"),
        ("+09:00", "2024-01-01 00:00:00"),
        ("-9:00", "2024-01-01 18:00:00"),
        ("+05:30", "2024-01-01 03:30:00"),
        ("+14:00", "2023-12-31 19:00:00"),
        ("-12:59", "2024-01-01 21:59:00"),
        ("-00:00", "2024-01-01 09:00:00"),
    ],
)
@pytest.mark.parametrize("is_stated", [True, False])
def test_a_timestamp_is_read_in_the_zone_of_the_session(
    zone: str, utc: str, is_stated: bool
) -> None:
    head = f"/*!40103 SET TIME_ZONE='{zone}' */;\n".encode() if is_stated else b""
    rows = b"INSERT INTO t VALUES\n('2024-01-01 09:00:00'),\n('0000-00-00 00:00:00'),\n(NULL);\n"
    dialect = Dialect(time_zone="Europe/Rome" if is_stated else find_zone(zone))

    found, problems = read_all(head + rows, "sql", dialect, STAMPED)

    assert problems == []
    assert found == [(utc,), ("0000-00-00 00:00:00",), (None,)]


@pytest.mark.parametrize(
    "name",
    ["+14:01", "-13:00", "+08", "08:00", "+08:60", "+008:00", "SYSTEM", "", "../UTC", "x" * 999],
)
def test_a_time_zone_that_tidb_does_not_take_is_an_error(name: str) -> None:
    with pytest.raises(MalformedMessage, match="unknown time zone"):
        find_zone(name)


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ({"separator": ""}, "--csv-separator"),
        ({"separator": '"'}, "--csv-delimiter"),
        ({"terminator": ";"}, "--csv-line-terminator"),
        ({"null": '"'}, "--csv-null-value"),
        ({"output_dialect": "oracle"}, "--csv-output-dialect"),
    ],
)
def test_options_that_contradict_each_other_are_errors(
    changed: dict[str, str], setting: str
) -> None:
    given = {
        "escape_backslash": True,
        "separator": ",",
        "quote": '"',
        "null": "\\N",
        "terminator": None,
        "has_header": True,
        "output_dialect": "",
        "time_zone": None,
    }
    with pytest.raises(ConfigError, match=setting):
        make_dialect(**{**given, **changed})  # type: ignore[arg-type]
