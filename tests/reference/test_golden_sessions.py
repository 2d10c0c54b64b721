"""DDLs that a session in Tokyo ran, recorded with a released server, by the declared time zone."""

from dataclasses import replace
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tests.golden import RELEASED
from tests.reference.golden_feeds import feed_of, replayed
from tests.truth import Row, truth
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.stream.problem import ZONE_OF_DDL

WORKLOAD = "v6.5.12_life"

# Like all golden data, it is not part of the project.
pytestmark = pytest.mark.skipif(
    not (RELEASED / WORKLOAD).is_dir(), reason="there is no data of released servers"
)


@pytest.mark.parametrize(
    "dataset", ["canal-json-ext", "open-protocol", "storage-csv-full", "storage-canal-json"]
)
def test_rows_are_converted_as_in_the_session(dataset: str) -> None:
    points = truth(WORKLOAD)
    true = points[max(points)]["life_old", "session_tz"]
    expected = [dict(zip(true.names, row, strict=True)) for row in true.rows]
    rows, claims = read_session(dataset, ZoneInfo("Asia/Tokyo"))
    assert (without_time(rows), claims) == (without_time(expected), [])
    rows, claims = read_session(dataset, None)
    assert without_time(rows) != without_time(expected)
    assert claims


def read_session(dataset: str, zone: ZoneInfo | None) -> tuple[list[Row], list[str]]:
    """Return the rows of the session's table, and the problems that report an unknown zone."""
    name = f"{WORKLOAD}/{dataset}"
    replay = replayed(name, replace(feed_of(name), ddl_time_zone=zone))
    replay.advance(replay.default_ts)
    table = replay.find_table("life_old.session_tz")
    reasons = [p.reason for p in replay.problems() if p.table == "session_tz"]
    rows = [msgspec.json.decode(line) for line in encode_rows(table)]
    return rows, [reason for reason in reasons if reason.startswith(ZONE_OF_DDL)]


def without_time(rows: list[Row]) -> list[Row]:
    """Leave out the column that a DDL filled with its own time, which the stream does not hold."""
    kept = [{name: text for name, text in row.items() if name != "nowd"} for row in rows]
    return sorted(kept, key=lambda row: str(row["id"]))
