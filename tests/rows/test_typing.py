"""What Arrow types is what the definition of a value says, text by text."""

import struct
from datetime import date, datetime
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rows import texts as texts_of
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import ColumnType
from ticdc_assets.events.escaped_text import is_utf8
from ticdc_assets.events.row_image import EITHER
from ticdc_assets.rows.columns import get_arrow_type
from ticdc_assets.rows.stored import read_stored
from ticdc_assets.rows.typing import TextTyper
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.value_reader import make_reader

TYPES = [
    *(
        ColumnType(name, unsigned=unsigned)
        for name in ("tinyint", "smallint", "mediumint", "int", "bigint")
        for unsigned in (False, True)
    ),
    *(ColumnType("bit", length=n) for n in (1, 63, 64)),
    *(ColumnType(name) for name in ("year", "float", "double", "date", "time", "text", "blob")),
    *(ColumnType("decimal", length=p, decimals=s) for p, s in ((5, 2), (38, 1), (38, 30), (65, 9))),
    ColumnType("decimal"),
    *(ColumnType(name, decimals=d) for name in ("datetime", "timestamp") for d in (None, 3, 6)),
    *(ColumnType(name, elements=("a", "b c", "")) for name in ("enum", "set")),
    *(ColumnType(name) for name in ("enum", "set", "json", "vector")),
]
MOMENTS = st.datetimes().map(lambda moment: moment.isoformat(" "))
ALIKE = (
    st.text("0123456789-+.eE", max_size=8),
    st.integers(-300, 300).map(str),
    st.integers(-(1 << 64), 1 << 65).map(str),
    MOMENTS,
    MOMENTS.map(lambda text: text[:10]),
    MOMENTS.map(lambda text: text[:19]),
    MOMENTS.map(lambda text: text[11:]),
    st.tuples(MOMENTS, MOMENTS).map(EITHER.join),
    st.sampled_from(["1." + "0" * 41, "12." + "0" * 39, "0" * 45 + "7", "-0." + "0" * 60]),
    st.sampled_from(["340282367", "-340282367", "3402823669209384634633746074317682114.6"]),
    st.floats(allow_nan=False).map(str),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: format(number, "f")),
    st.binary(max_size=6).map(lambda b: b.hex()),
    st.text(max_size=4),
    st.sampled_from(
        ["", "a", "b c", "a,b c", "AA==", "AAE=", "A===", "0x1F", "nan", "inf", "1e400"]
    ),
    st.sampled_from(
        ["0000-00-00", "2024-02-30", "0001-01-01", "0000-02-29", "2024-01-01T00:00:00"]
    ),
    st.sampled_from(["0000-00-00 00:00:00", "2024-02-30 00:00:00", "2024-01-01 24:00:00"]),
    st.sampled_from(
        ["2024-01-01 10:00-05:00", "2024-01-01 10:00:00.", "2024-01-01 10:00:00.1234567"]
    ),
    st.sampled_from(
        ["-838:59:59", "839:00:00", "2155", "1900", "0", "-0", "+1", "٣", "1_0", " 1", "1 "]
    ),
    st.sampled_from(
        ["[1,2]", "[ 1 , 2.5e3 ]", "[]", "[", "[1,]", "0.0000000000", "-0.00", "007", "5."]
    ),
)
TEXTS = st.one_of(ALIKE)
# Of texts that are alike, whole columns are typed in one cast.
COLUMNS = st.one_of(st.lists(st.none() | texts, max_size=12) for texts in (TEXTS, *ALIKE))


def check(texts: list[str | None], type: ColumnType, *, member_names: bool) -> None:
    """Compare the values of texts, typed at once, with the definition."""
    typed = TextTyper(type, member_names=member_names).type_array(pa.array(texts, pa.string()))
    values, exact = typed.stored
    assert values.type == get_arrow_type(type)
    invalid = [False] * len(texts) if typed.invalid is None else typed.invalid.to_pylist()
    exact_texts = [None] * len(texts) if exact is None else exact.to_pylist()
    read_back = read_stored(typed.stored, type)
    read = make_reader(type, member_names)
    for text, value, is_invalid, exact_text, back in zip(
        texts,
        values.to_pylist() if _in_python(values) else values,
        invalid,
        exact_texts,
        read_back,
        strict=True,
    ):
        try:
            expected = read(text)
        except InvalidValue:
            assert is_invalid, text
            assert exact_text is None
            continue
        assert not is_invalid, text
        _check_value(text, value, exact_text, type)
        if type.name == "vector" and text is not None:
            continue
        if type.name in ("datetime", "timestamp") and text is not None:
            back, expected = _pad(str(back)), _pad(str(expected))
        assert (back, str(back)) == (expected, str(expected)), text


def _pad(moment: str) -> str:
    whole, _, fraction = moment.partition(".")
    return f"{whole}.{fraction:0<6}"


def _in_python(values: pa.Array) -> bool:
    """Whether Python has all values: it has no year 0."""
    return not pa.types.is_temporal(values.type)


def _check_value(text: str | None, value: object, exact_text: str | None, type: ColumnType) -> None:
    """Compare what a Delta column holds with the text, by other means than the definition's."""
    if text is None:
        assert value is None or not value.is_valid
        return
    if not isinstance(value, pa.Scalar):
        match type.name:
            case "float":
                assert struct.pack("<f", value) == struct.pack("<f", float(text))
            case "double":
                assert struct.pack("<d", value) == struct.pack("<d", float(text))
            case "decimal":
                assert Decimal(value) == Decimal(text)
            case "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year":
                assert value == int(text)
            case "vector":
                numbers = [float(part.strip()) for part in text[1:-1].split(",") if part.strip()]
                assert value == [struct.unpack("<f", struct.pack("<f", n))[0] for n in numbers]
        return
    first = text.partition(EITHER)[0]
    try:
        moment = date.fromisoformat(first) if type.name == "date" else datetime.fromisoformat(first)
    except ValueError:
        if not first.startswith("0000-") or not value.is_valid:
            assert (value.is_valid, exact_text) == (False, text)
        return
    found = value.cast(pa.timestamp("us")) if type.name != "date" else value
    assert found.as_py() == moment
    assert exact_text == (text if EITHER in text else None)


@pytest.mark.parametrize("type", TYPES, ids=str)
@settings(max_examples=40)
@given(data=st.data(), member_names=st.booleans())
def test_texts_typed_at_once_are_what_the_definition_reads(type, data, member_names):
    texts = data.draw(COLUMNS)
    check(texts, type, member_names=member_names)


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_bytes_that_are_not_utf8_stay_in_the_exact_text(type):
    texts = ["a\udcff\\", "plain", None]
    typed = TextTyper(type, member_names=False).type_list(texts)
    if type.name not in ("text", "json"):
        assert typed.invalid.to_pylist()[0]
        return
    assert typed.stored.values.to_pylist() == ["a?\\", "plain", None]
    assert typed.stored.exact.to_pylist() == ["a\\xff\\x5c", None, None]
    assert read_stored(typed.stored, type) == texts


CASES = [
    *((parse_type(name), texts) for name, texts in texts_of.CASES.items()),
    *((ColumnType(name), texts) for name, texts in texts_of.UNKNOWN.items()),
]
ALPHABET = "0123456789+-.eE: \n,=abAB[]/xnf\t\u00a0é１\\"


@pytest.mark.parametrize(("type", "texts"), CASES, ids=lambda each: str(each)[:40])
@pytest.mark.parametrize("member_names", [False, True])
def test_odd_texts_of_every_type_are_what_the_definition_reads(type, texts, member_names):
    plain = [text for text in texts if is_utf8(text)]
    check(plain, type, member_names=member_names)
    random = Random(len(texts))
    check([mutate(random, plain) for _ in range(300)], type, member_names=member_names)


def mutate(random: Random, texts: list[str]) -> str:
    """Insert, delete or replace a few letters of a text."""
    letters = list(random.choice(texts))
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        at = random.randrange(len(letters) + 1)
        letters[at : at + random.randrange(2)] = random.choice(("", random.choice(ALPHABET)))
    return "".join(letters)
