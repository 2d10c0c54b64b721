"""Row images read many at once are what the definition reads of each."""

from random import Random

import pyarrow as pa
import pytest

from tests.rows.texts import TEXTS
from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.events.row_image import dump
from ticdc_assets.rows.images import ImageReader, Images
from ticdc_assets.rows.lines import format_columns
from ticdc_assets.rows.stored import read_stored
from ticdc_assets.schema.types.row import RowReader

ODD_NAMES = (
    *("a", "B", "a b.c,d;e", "x`y", "select", 'q"uote', "日本", "_commit_ts", "σ", "ς", "İ"),
    "back\\slash",
)
ODD = TableSchema("d", "t", (
    *(Column(name, ColumnType("varchar")) for name in ODD_NAMES),
    Column("Virtual", ColumnType("int"), generated="virtual"),
))  # fmt: skip
PLAIN = TableSchema("d", "t", tuple(Column(name, ColumnType("text")) for name in ("a", "b")))


def check(texts: list[str | None], schema: TableSchema) -> int:
    """Compare images read together with the definition; return how many are invalid."""
    reader = ImageReader(schema, None, member_names=True)
    none = pa.nulls(len(texts), pa.string())
    _, new = reader.read(Images(none, pa.array(texts, pa.string())))
    types = {column.name: column.type for column in schema.columns}
    values = {name: read_stored(stored, types[name]) for name, stored in new.columns.items()}
    read = RowReader(schema, member_names=True)
    for place, (text, is_invalid) in enumerate(zip(texts, new.invalid.to_pylist(), strict=True)):
        if text is None:
            assert not is_invalid
            continue
        try:
            expected = read(text)
        except (MalformedMessage, InvalidValue):
            assert is_invalid, text
            continue
        assert not is_invalid, text
        assert {name: column[place] for name, column in values.items()} == {
            name: expected.get(name) for name in values
        }, text
    return sum(new.invalid.to_pylist())


@pytest.mark.parametrize("neighbour", ["{}", '{"a": [1]}', '{"no such column": "x"}'])
def test_an_old_row_that_states_nothing_is_the_new_one(neighbour: str) -> None:
    new = ['{"a": "1", "b": "2"}', '{"a": "\\udcff", "b": null}', '{"a": "3", "b": "4"}', None]
    old = ["{}", "{}", None, '{"a": "5", "b": "6"}']
    before = pa.array([*old, neighbour], pa.string())
    after = pa.array([*new, '{"a": "7", "b": "8"}'], pa.string())
    found, _ = ImageReader(PLAIN, None, member_names=True).read(Images(before, after))
    columns = [read_stored(found.columns[name], ColumnType("text")) for name in ("a", "b")]
    rows = list(zip(*columns, strict=True))
    # The third has no old row.
    assert [rows[place] for place in (0, 1, 3)] == [("1", "2"), ("\udcff", None), ("5", "6")]


def test_odd_names_are_found() -> None:
    row = {name: f"is {name}" for name in ODD_NAMES}
    some = {"日本": None, "İ": "x"}
    bytes_too = {**row, "back\\slash": "\udce9\\", "a": "\\"}
    images = [dump(row), dump(some), "{}", dump(bytes_too)]
    assert check([*images], ODD) == 0
    for image in images:
        assert check([image], ODD) == 0


@pytest.mark.parametrize(
    "image",
    [
        *("{}", '{"a": "1"}', '{"A": null, "Virtual": "1"}', '{"a": null, "Virtual": "1"}'),
        *('{"a": "1", "c": null}', '{"Σ": "1"}', '{"σ": "1"}', '{"\\u0061": "1"}', '{"": "1"}'),
        '{"ab": {"a": "1"}}',
    ],
)
def test_columns_that_the_schema_lacks_are_found(image: str) -> None:
    check([image], ODD)
    check([image, '{"a": "1"}', image], ODD)


BROKEN = [
    *("", " ", "null", "[]", "1", '"a"', "{", "}", "{}", " {} ", "{}x", "{}{}", "{} {}"),
    *("[{}]", "{{}}"),
    *('{"a":"1"}', '{ "a" : "1" , "b" : null }', '{"a":1}', '{"a":true}', '{"a":false}'),
    *('{"a":{}}',),
    *('{"a":[]}', '{"a": -1.5e3 }', '{"a":"1",}', '{"a":"1" "b":"2"}', '{"a":"1"}x', '{"a":null}]'),
    *('[{"a":"1"}]', "{'a':'1'}", '{a:"1"}', '{"a":nul}', '{"a":nan}', '{"a":NaN}', '{"a":"1'),
    *('{"a":"\n"}',),
    *('{"a":":5"}', '{"a":"\\":5"}', '{"a":"\\"}x"}', '{":5":"x"}', '{"a\\\\":5}', '{"a\\"":"5"}'),
    *('{"a":"{\\"x\\": 5}"}', '{"a":"1"}{"a":"1"}', '{"a":"1"} , null', '{"a":"1"}\n'),
    *('{"a":"1","a":2}',),
    *('{"a":"\\ud83d\\ude00"}', '{"a":"\\udc80"}', '{"a":"\\x"}', '{"a"}', '{:"1"}'),
    *('{"a"::"1"}', '{,}'),
    *('/* */{"a":"1"}', '{"a":"1"}//', '\ufeff{"a":"1"}', '{"a":"null}x"}', '{"zz":5}'),
    *('{"zz":null}', "{}}"),
    *('{"a":null,"b":"x\\\\"}', '{"a":"\\\\\\\\","b":1}', '{"a":"}"}', '{"a":"\x7f"}'),
    *('{"a":"\\u0000"}',),
]  # fmt: skip


def test_malformed_images_are_recognised_and_raise_nothing() -> None:
    random = Random(7)
    letters = '{}[]:," \\nul1atrue\n'
    texts = [*BROKEN, *(dump({"a": text, "b": None}) for text in TEXTS)]
    for _ in range(1500):
        text = list(random.choice(texts[:120]))
        at = random.randrange(len(text) + 1)
        text[at : at + random.randrange(2)] = random.choice((random.choice(letters), ""))
        texts.append("".join(text))
    count = check([*texts, None], PLAIN)
    assert 100 < count < len(texts) - 100
    for start in range(0, len(texts), 7):
        check([*texts[start : start + 7]], PLAIN)


def test_the_longest_texts_are_read() -> None:
    schema = TableSchema("d", "t", (Column("a", ColumnType("longtext")),))
    image = '{"a":"' + "x" * 21_000_000 + '"}'
    assert check([image], schema) == 0


def test_vectors_are_printed_as_tidb_prints_them() -> None:
    schema = TableSchema("d", "t", (Column("v", ColumnType("vector")),))
    images = [dump({"v": v}) for v in ("[1.0, 2.5]", "[0.10000000149011612,1E20,-0.0]", "[]", None)]
    reader = ImageReader(schema, None, member_names=True)
    _, new = reader.read(Images(pa.nulls(4, pa.string()), pa.array(images)))
    assert format_columns(new.columns, schema) == [
        b'{"v":"[1,2.5]"}\n',
        b'{"v":"[0.1,100000000000000000000,-0]"}\n',
        b'{"v":"[]"}\n',
        b'{"v":null}\n',
    ]
