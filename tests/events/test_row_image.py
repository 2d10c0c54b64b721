"""Row images: every text survives a round trip, and any other value is malformed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.events.row_image import dump, load

TEXT = st.text(st.characters(exclude_categories=[]), max_size=20).filter(
    # Pairs of surrogates would be read as one character.
    lambda text: not any("\ud800" <= c <= "\udbff" for c in text)
)


@given(st.dictionaries(TEXT, st.none() | TEXT, max_size=5))
def test_a_row_survives_a_round_trip_through_its_image(row: dict[str, str | None]) -> None:
    image = dump(row)
    assert load(image) == row
    assert json.loads(image) == row


def test_bytes_that_are_not_utf8_survive_a_round_trip() -> None:
    text = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
    back = load(dump({"c": text}))["c"]
    assert back is not None
    assert back.encode("utf-8", "surrogateescape") == b"caf\xe9 \xff"


@pytest.mark.parametrize(
    "image",
    [
        *("", "[]", '"a"', "{", "[" * 100_000, '{"a":1}', '{"a":true}', '{"a":["x"]}'),
        *('{"a":"\\ud8', '{"a":"\\udcff","b":1}', '["\\udcff"]', '{"a":"\\udcff"}{}'),
    ],
)
def test_an_invalid_row_image_is_malformed(image: str) -> None:
    with pytest.raises(MalformedMessage):
        load(image)
