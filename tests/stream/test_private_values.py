"""What is stored in place of a value, compared with rules written in another way."""

import hashlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.changefeed.privacy import read_privacy
from ticdc_assets.events import Checksum, Column, ColumnType, Op, RowChange, TableSchema
from ticdc_assets.events.escaped_text import escape_text
from ticdc_assets.events.position import TopicPosition
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.stream.privacy import protect_schema, restore_schema
from ticdc_assets.stream.private_values import LoadedValues, PrivateValues, hide_values, mask

KEY = "a key of these tests that is long enough"
ENTRY = {"tables": ["d.t"], "keep": ["k"], "hash": ["h"], "mask": ["m"], "null": ["n"]}
PRIVACY = read_privacy({"key-env": "TESTS_PRIVACY", "table": [ENTRY]}, has_records=False)
# Bytes that are not UTF-8 are lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\udc80\udcff\\'\""))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS_PRIVACY", KEY)


def by_the_book(content: bytes) -> str:
    """HMAC as RFC 2104 states it."""
    key = KEY.encode().ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in key) + content).digest()
    return hashlib.sha256(bytes(b ^ 0x5C for b in key) + inner).hexdigest()[:32]


def make_change(row: dict[str, str | None]) -> RowChange:
    return RowChange(
        op=Op.INSERT,
        commit_ts=1,
        database="D",
        table="t",
        position=TopicPosition("t", 0, 0),
        after=dump(row),
        checksum=Checksum(0, False, 5, 5),
        claim_check_digest="ab",
    )


@given(text=TEXTS)
def test_images_and_loaded_texts_get_the_same_values(text: str) -> None:
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as patched:
        patched.setenv("TESTS_PRIVACY", KEY)
        row: dict[str, str | None] = {"K": text, "h": text, "m": text, "n": text, "other": text}
        change = PrivateValues(PRIVACY).protect_change(make_change(row))
        stored = load(change.after or "")
        assert (change.checksum, change.claim_check_digest) == (None, None)
        hashed = by_the_book(text.encode("utf-8", "surrogatepass"))
        shown = text[-4:] if len(text) >= 8 else ""
        masked = "*" * (len(text) - len(shown)) + shown
        assert stored == {"K": text, "h": hashed, "m": masked, "n": None}

        texts = ColumnType("varchar", length=80)
        schema = TableSchema("d", "t", tuple(Column(n, texts) for n in ("k", "h", "m", "n", "o")))
        values = LoadedValues(PRIVACY, protect_schema(PRIVACY, schema))
        loaded = values.protect([pa.array([escape_text(text)])] * 5, pa.array([True]))
        assert [column.to_pylist() for column in loaded] == [
            [escape_text(text)],
            [hashed],
            [escape_text(masked)],
            [None],
        ]


def test_null_stays_null_and_an_image_that_is_none_becomes_no_row() -> None:
    values = PrivateValues(PRIVACY)
    after = values.protect_change(make_change(dict.fromkeys("khmno"))).after
    assert load(after or "") == dict.fromkeys("khmn")
    broken = pa.array(['{"h": 5}', '{"h": "x"', None])
    images = values.protect_images(pa.array(["d"] * 3), pa.array(["t"] * 3), broken)
    assert images.to_pylist() == ["[]", "[]", None]


@pytest.mark.parametrize(
    ("type", "texts", "sent"),
    [
        (ColumnType("int", zerofill=True, unsigned=True, length=5), ["00042", "42"], "42"),
        (ColumnType("decimal", length=10, decimals=2), ["1.50", "1.5", "+1.50"], "1.50"),
        (ColumnType("year"), ["2024"], "2024"),
    ],
)
def test_the_texts_of_one_value_have_one_hash(
    type: ColumnType, texts: list[str], sent: str
) -> None:
    schema = protect_schema(PRIVACY, TableSchema("d", "t", (Column("h", type),)))
    values = LoadedValues(PRIVACY, schema)
    (loaded,) = values.protect([pa.array(texts)], pa.array([False] * len(texts)))
    assert set(loaded.to_pylist()) == {by_the_book(sent.encode())}


def test_a_schema_is_restored_exactly() -> None:
    types = ColumnType("varchar", length=9), ColumnType("int"), ColumnType("datetime")
    columns = [
        Column(name, type, nullable=False, default="1", generated=generated, comment="c")
        for name, type, generated in zip(
            ("k", "h", "m", "n", "x"),
            (*types, *types[:2]),
            (None, "stored", None, None, "virtual"),
            strict=True,
        )
    ]
    schema = TableSchema("d", "t", tuple(columns), version=7)  # type: ignore[arg-type]
    protected = protect_schema(PRIVACY, schema)
    assert [column.rule for column in protected.columns] == [None, "hash", "mask", "null", None]
    assert restore_schema(protected) == schema
    assert protect_schema(PRIVACY, restore_schema(protected)) == protected


def test_reasons_quote_nothing() -> None:
    reason = "column 'email': \"ann's mail\" is no date: 'it\\'s' at byte 5"
    assert hide_values(reason) == "column '…': '…' is no date: '…' at byte 5"
    assert mask("1234567") == "*******"
