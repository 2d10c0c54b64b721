"""What a changefeed's settings leave open, and what the bytes show of it."""

import pytest

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.events import Ordering
from ticdc_assets.stream.limits import describe_limits

CANAL = "kafka://h:9092/t?protocol=canal-json"
CSV = "file:///data?protocol=csv"
SEEN: list[tuple[set[Ordering], str]] = [
    (set(), "rows carry"),
    ({"milliseconds"}, "rows carry"),
    ({"milliseconds", "table_version"}, "rows carry"),
    ({"commit_ts", "milliseconds"}, "some rows carry"),
    ({"commit_ts", "table_version"}, "some rows carry"),
    ({"commit_ts"}, "every row has its commit ts"),
]


@pytest.mark.parametrize(
    ("uri", "line", "flaw"),
    [
        (CANAL, "enable-tidb-extension=true in the sink URI", "their order is certain only"),
        (CSV, "include-commit-ts = true in [sink.csv]", "only the end state is exact"),
    ],
)
@pytest.mark.parametrize(("seen", "said"), SEEN)
def test_a_note_about_the_order_of_rows_is_about_those_that_were_read(
    uri: str, line: str, flaw: str, seen: set[Ordering], said: str
) -> None:
    feed = changefeed_from_uri(uri, server_version="8.5.0")
    (note,) = describe_limits(feed, seen)
    assert said in note
    assert (line in note) is (seen == {"commit_ts"})
    assert (flaw in note) is (seen != {"commit_ts"})
    assert ("some" in note) is ("some" in said)


def test_a_changefeed_that_declares_its_commit_ts_has_no_note() -> None:
    feed = changefeed_from_uri(f"{CANAL}&enable-tidb-extension=true")
    assert describe_limits(feed) == describe_limits(feed, {"milliseconds"}) == []
