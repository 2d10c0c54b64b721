"""Go's quoting: bytes there and back, and what Go would never have written."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import MalformedMessage
from ticdc_assets.protocols.open_protocol.go_quote import is_quoted, quote, unquote


@pytest.mark.parametrize(
    ("text", "octets"),
    [
        (r"\x89PNG\r\n\x1a\n", "89504e470d0a1a0a"),
        (r"\a\b\f\n\r\t\v\\\"'", "07080c0a0d090b5c2227"),
        (r"\\x41\\u0041", "5c7834315c7530303431"),
        (r"\u00a0\ufeff\U000e0001", "c2a0efbbbff3a08081"),
        ("Böb 数\x7e", "42c3b66220e695b07e"),
        ("", ""),
    ],
)
def test_escapes_are_those_of_go(text: str, octets: str) -> None:
    assert unquote(text) == bytes.fromhex(octets)
    assert quote(bytes.fromhex(octets)) == text


@given(st.binary(max_size=200))
def test_any_bytes_survive_quoting(octets: bytes) -> None:
    assert unquote(quote(octets)) == octets


@given(st.text(max_size=50).filter(is_quoted))
def test_text_mistaken_for_quoted_is_restored_by_quoting_without_backslash(
    text: str,
) -> None:
    assert "\\" in text or quote(unquote(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *('"', "\\", r"\q", r"\x1", r"\x1G", r"\X41", r"\0", r"\N{DASH}", "\\\n"),
        *(r"\u12", r"\u0041", r"\ud800", r"\U00110000"),
        *("\n", "\x7f", "\xa0", "\u200b", "\udc80"),
    ],
)
def test_text_that_go_never_writes_is_malformed(text: str) -> None:
    assert not is_quoted(text)
    with pytest.raises(MalformedMessage):
        unquote(text)


def test_unquoting_takes_memory_in_proportion_to_the_text() -> None:
    text = r"\x80\u0080\n" * 50_000
    tracemalloc.start()
    try:
        assert len(unquote(text)) == 200_000
        assert tracemalloc.get_traced_memory()[1] < 12 * len(text)
    finally:
        tracemalloc.stop()
