"""Open Protocol by hand: framing, every type code, and input that means no good."""

import pytest

from tests.protocols.open_protocol_messages import ID, ROW_KEY, TS, column, decode, error_of, row
from ticdc_assets.events import (
    Column,
    ColumnType,
    Op,
    Quarantined,
    RowChange,
    SchemaChange,
    TableSchema,
    TopicPosition,
    Watermark,
    row_image,
)
from ticdc_assets.protocols.open_protocol.flags import redecode


def test_a_batch_yields_its_events_in_order_with_their_index() -> None:
    ddl = {"ts": TS, "scm": "test", "tbl": "t1", "t": 2}, {"q": "CREATE …", "t": 3}
    resolved = {"ts": TS + 1, "t": 3}, b""
    update = ROW_KEY | {"rid": 1, "ptn": 77}, {"u": {"id": ID}, "p": {"id": ID | {"v": 2}}}
    places = [TopicPosition("topic", 2, 11, index) for index in range(3)]
    assert decode(ddl, resolved, update) == [
        SchemaChange(
            commit_ts=TS,
            database="test",
            table="t1",
            sql="CREATE …",
            position=places[0],
            ddl_type="3",
        ),
        Watermark(ts=TS + 1, position=places[1]),
        RowChange(
            op=Op.UPDATE,
            commit_ts=TS,
            database="test",
            table="t",
            position=places[2],
            before='{"id":"2"}',
            after='{"id":"1"}',
            table_id=77,
            observed='{"id":"int not null"}',
            key_columns=("id",),
        ),
    ]


def test_a_broken_event_does_not_affect_the_rest_of_its_batch() -> None:
    good = ROW_KEY, {"d": {"id": ID}}
    events = decode(good, (ROW_KEY, b"{"), (b"\xff", {}), good)
    assert [type(event) for event in events] == [RowChange, Quarantined, Quarantined, RowChange]
    assert [event.position for event in events] == [
        TopicPosition("topic", 2, 11, index) for index in range(4)
    ]


def test_the_operation_follows_from_the_images_and_the_settings() -> None:
    new, both = {"u": {"id": ID}}, {"u": {"id": ID}, "p": {}}
    assert row({"d": {"id": ID}}).op is Op.DELETE
    assert row(new).op is Op.INSERT
    assert row(new, old_values=False).op is Op.UPSERT
    assert row(new, updated_columns_only=True).op is Op.UPSERT
    assert (row(both).op, row(both).before) == (Op.UPDATE, "{}")


@pytest.mark.parametrize(
    ("code", "flags", "value", "text", "observed"),
    [
        (1, 65, "-128", "-128", "tinyint"),
        (2, 193, "65535", "65535", "smallint unsigned"),
        (9, 1, "7", "7", "mediumint not null"),
        (3, 193, "4294967295", "4294967295", "int unsigned"),
        (8, 129, "18446744073709551615", "18446744073709551615", "bigint unsigned not null"),
        (8, 65, "-9223372036854775808", "-9223372036854775808", "bigint"),
        (4, 65, "3.14", "3.14", "float"),
        (5, 193, "1e-07", "1e-07", "double unsigned"),
        (5, 65, "100000000000000000000", "100000000000000000000", "double"),
        (5, 65, "-0", "-0.0", "double"),
        (7, 65, '"1973-12-30 15:30:00"', "1973-12-30 15:30:00", "timestamp"),
        (10, 65, '"2000-01-01"', "2000-01-01", "date"),
        (14, 65, '"2000-01-01"', "2000-01-01", "date"),
        (11, 65, '"-838:59:59"', "-838:59:59", "time"),
        (12, 65, '"2015-12-20 23:58:58.1"', "2015-12-20 23:58:58.1", "datetime"),
        (13, 193, "1970", "1970", "year"),
        (16, 193, "18446744073709551615", "18446744073709551615", "bit"),
        (245, 65, r'"{\"key1\": \"value1\"}"', '{"key1": "value1"}', "json"),
        (246, 65, '"129012.1230000"', "129012.1230000", "decimal"),
        (246, 129, '"1"', "1", "decimal unsigned not null"),
        (247, 64, "1", "1", "enum"),
        (247, 65, "0", "0", "enum"),
        (248, 64, "9223372036854775808", "9223372036854775808", "set"),
        (225, 65, '"[1,2.5]"', "[1,2.5]", "vector"),
        (15, 64, '"测试"', "测试", "varchar"),
        (253, 64, r'"\\n"', r"\n", "varchar"),
        (254, 10, '""', "", "char not null"),
        (15, 65, r'"\\x89PNG\\r\\n\\x1a\\n"', "iVBORw0KGgo=", "varbinary"),
        (253, 1, r'"\""', '"', "varchar"),
        (254, 65, r'"\\x00\\\"\\\\é"', "ACJcw6k=", "binary"),
        (249, 64, '"5rWL6K+VdGV4dA=="', "测试text", "tinytext"),
        (250, 65, '"5rWL"', "5rWL", "mediumblob"),
        (251, 64, '"/w=="', "\udcff", "longtext"),
        (252, 65, '"/w=="', "/w==", "blob"),
        # No flags are no statement: the server did not know the column yet.
        (8, 0, "1", "1", "bigint"),
        (15, 65, "null", None, "varbinary"),
    ],
)
def test_every_type_code_has_its_type_text(
    code: int, flags: int, value: str, text: str | None, observed: str
) -> None:
    assert column(code, flags, value) == (text, observed)


def test_a_column_of_type_null_says_nothing_of_its_column() -> None:
    change = row({"u": {"id": ID, "c": {"t": 6, "f": 0, "v": None}}})
    assert (change.after, change.observed) == ('{"id":"1","c":null}', '{"id":"int not null"}')


def test_columns_without_flags_are_read() -> None:
    assert row(b'{"u":{"c":{"t":3,"h":true,"v":1}}}').key_columns == ("c",)


@pytest.mark.parametrize(
    ("code", "flags", "value"),
    [
        *((3, 1, value) for value in ("1.5", '"1"', "1e3", "true", "[]", "{}")),
        *((5, 1, value) for value in ('"1.5"', "1e999", "NaN")),
        *((12, 1, value) for value in ("1", "1.5")),
        *((15, 64, value) for value in ("1", "[1]")),
        *((252, flags, value) for flags in (64, 65) for value in ('"x"', '"AA="', '"A A="', '"é"')),
        (6, 0, "1"),
        (6, 0, "null"),
        (3, -1, "1"),
        (256, 0, "1"),
        (-1, 0, "1"),
    ],
)
def test_a_value_of_the_wrong_kind_is_malformed(code: int, flags: int, value: str) -> None:
    content = b'{"u":{"c":{"t":%d,"f":%d,"v":%s}}}' % (code, flags, value.encode())
    assert error_of(content) == "MalformedMessage"


def test_an_undocumented_type_code_is_unknown() -> None:
    assert error_of({"u": {"c": {"t": 255, "f": 0, "v": "x"}}}) == "UnknownMessage"


def test_timestamps_are_converted_to_utc() -> None:
    assert column(7, 65, '"2024-01-01 08:00:00.5"', "Asia/Shanghai")[0] == "2024-01-01 00:00:00.5"
    assert column(7, 65, '"0000-00-00 00:00:00"', "Asia/Shanghai")[0] == "0000-00-00 00:00:00"
    assert column(12, 65, '"2024-01-01 08:00:00"', "Asia/Shanghai")[0] == "2024-01-01 08:00:00"
    content = {"u": {"c": {"t": 7, "f": 65, "v": "x"}}}
    assert error_of(content, tz="Asia/Shanghai") == "MalformedMessage"


def test_text_that_is_not_utf8_keeps_its_bytes() -> None:
    event = row(b'{"u":{"c":{"t":15,"f":64,"v":"a\xff\xe4\xb8"},"n":{"t":8,"f":129,"v":1}}}')
    assert event.after is not None
    assert row_image.load(event.after) == {"c": "a\udcff\udce4\udcb8", "n": "1"}
    # The image itself can be written anywhere.
    assert event.after.encode()


def test_a_name_that_is_not_utf8_is_malformed() -> None:
    content = b'{"u":{"c":{"t":15,"f":64,"v":"\xff"},"\xff":{"t":3,"f":0,"v":1}}}'
    assert error_of(content) == "MalformedMessage"


def test_a_value_flagged_binary_but_not_quoted_is_text() -> None:
    stale = {"t": 15, "f": 65, "v": 'a "word"'}
    content = {"u": {"c": stale, "b": stale | {"v": r"\x00"}}, "p": {"c": stale | {"v": "a"}}}
    event = row(content)
    assert (event.before, event.after) == ('{"c":"a"}', '{"c":"a \\"word\\"","b":"AA=="}')
    assert event.observed == '{"c":"varchar","b":"varbinary"}'


@pytest.mark.parametrize(
    ("code", "value", "text_type", "bytes_type"),
    [
        (15, r"C:\new\u0041 é", "varchar", "varbinary"),
        (15, "plain", "varchar", "varbinary"),
        (254, r"\x00\n", "char", "binary"),
        (252, "YWL/", "text", "blob"),
        (249, "", "tinytext", "tinyblob"),
    ],
)
def test_stale_flags_are_corrected_by_the_schema(
    code: int, value: str, text_type: str, bytes_type: str
) -> None:
    def schema(of: str) -> TableSchema:
        return TableSchema("test", "t", (Column("c", ColumnType(of)), Column("d", ColumnType("x"))))

    flagged = row({"u": {"c": {"t": code, "f": 65, "v": value}}})
    plain = row({"u": {"c": {"t": code, "f": 64, "v": value}}})
    # What only looks like an escape is text already.
    if flagged.observed != plain.observed:
        assert redecode(plain, schema(bytes_type)) == flagged
        assert redecode(flagged, schema(bytes_type)) is flagged
    assert redecode(flagged, schema(text_type)) == plain
    assert redecode(plain, schema(text_type)) is plain
