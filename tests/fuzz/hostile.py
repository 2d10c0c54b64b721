"""Hand-made hostile streams in Canal-JSON, one table each: what no server sends and anybody can.

Each is a list of steps on the table `t`: a statement as text, or rows as `Row`.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

from ticdc_assets.protocols.message import Message


class Row(NamedTuple):
    """A row message; the objects are JSON text, so that they may say anything."""

    data: str
    types: str = '{"id":"int","v":"varchar"}'
    kind: str = "INSERT"
    old: str = "null"
    key: str = '["id"]'
    # Commit ts after the step before.
    after: int = 1


Step = str | Row
CREATE = "CREATE TABLE `t` (id int primary key, v varchar(20))"
ONE = Row('{"id":"1","v":"abc"}')
TWO = Row('{"id":"2","v":"def"}')


def _declared(type: str, *values: str, create: bool = True) -> list[Step]:
    """Rows of one column with a type, which the statement or the rows alone declare."""
    types = json.dumps({"id": "int", "v": type.partition("(")[0]})
    steps: list[Step] = [f"CREATE TABLE `t` (id int primary key, v {type})"] if create else []
    rows = (json.dumps({"id": str(n), "v": value}) for n, value in enumerate(values))
    return [
        *steps,
        *(Row(row, types if create else json.dumps({"id": "int", "v": type})) for row in rows),
    ]


def _keyed(type: str, *keys: str | tuple[str, str]) -> list[Step]:
    """Rows whose keys have a type, inserted unless it is stated that they are deleted."""
    types = json.dumps({"id": type.partition("(")[0], "v": "varchar"})
    steps: list[Step] = [f"CREATE TABLE `t` (id {type} primary key, v varchar(20))"]
    for key in keys:
        text, kind = (key, "INSERT") if isinstance(key, str) else key
        steps.append(Row(json.dumps({"id": text, "v": text[:20]}), types, kind=kind))
    return steps


def _update(data: str, old: str, **other: str) -> Row:
    return Row(data, kind="UPDATE", old=old, **other)  # type: ignore[arg-type]


_BAD_IMAGES = {
    "a key that is missing": '{"v":"x"}',
    "a key that is null": '{"id":null,"v":"x"}',
    "an empty row": "{}",
    "a number for a text": '{"id":"3","v":5}',
    "a number for the key": '{"id":3,"v":"x"}',
    "an object for a text": '{"id":"3","v":{"a":"b"}}',
    "a list for a text": '{"id":"3","v":["x"]}',
    "true for a text": '{"id":"3","v":true}',
    "a doubled column": '{"id":"3","v":"one","v":"two"}',
    "a doubled key": '{"id":"3","id":"4","v":"x"}',
    "a doubled key whose last is null": '{"id":"3","id":null,"v":"x"}',
    "another case": '{"ID":"3","V":"x"}',
    "a second case": '{"id":"3","ID":"4","v":"x"}',
    "an unknown column": '{"id":"3","v":"x","w":"y"}',
    "a missing column": '{"id":"3"}',
    "a key too large": '{"id":"99999999999999999999","v":"x"}',
    "a key with a fraction": '{"id":"3.0","v":"x"}',
    "a key with blanks": '{"id":" 3 ","v":"x"}',
    "a key with a plus": '{"id":"+3","v":"x"}',
    "a key with zeros": '{"id":"0001","v":"x"}',
    "a key in other digits": '{"id":"٣","v":"x"}',
    "a NUL": '{"id":"3","v":"a\\u0000b"}',
    "a lone surrogate": '{"id":"3","v":"\\ud800"}',
    "a byte that is not UTF-8": '{"id":"3","v":"\\udcff"}',
    "blanks around": ' {\t"id" : "3" , "v" : "x" } ',
    "an escaped name": '{"\\u0069d":"3","v":"x"}',
    "a long text": json.dumps({"id": "3", "v": "x" * 70_000}),
}
_BAD_TYPES = {
    "another type": '{"id":"int","v":"int"}',
    "another type of the key": '{"id":"varchar","v":"varchar"}',
    "a type too large": '{"id":"int","v":"bit(9999999999)"}',
    "a type that is none": '{"id":"int","v":"nonsense"}',
    "a type that is null": '{"id":null,"v":"varchar"}',
    "a type that is a number": '{"id":4,"v":"varchar"}',
    "types that are a list": '["int"]',
    "types that are null": "null",
    "no types": "{}",
    "too few types": '{"id":"int"}',
    "too many types": '{"id":"int","v":"varchar","w":"int"}',
    "doubled types": '{"id":"int","v":"varchar","v":"int"}',
    "types in another case": '{"ID":"INT","v":"VARCHAR"}',
    "an unsigned key": '{"id":"int unsigned","v":"varchar"}',
}
_ODD_VALUES: dict[str, tuple[str, ...]] = {
    "int": ("0", "-0", "2147483647", "2147483648", "1e3", "", " 1", "0x10"),
    "bigint unsigned": ("18446744073709551615", "18446744073709551616", "-1"),
    "decimal(10,2)": (
        "1.5",
        "-0.00",
        "1.005",
        "99999999.99",
        "100000000",
        ".5",
        "5.",
        "1e2",
        "NaN",
    ),
    "decimal(65,30)": ("9" * 35 + "." + "9" * 30, "9" * 36, "0." + "0" * 29 + "1", "1" * 400),
    "double": ("1e308", "1e309", "-0", "nan", "Infinity", "1_000", ".5", "5.", "1e-400", "0x1p3"),
    "float": ("3.4028235e38", "3.5e38", "0.1", "1e-50"),
    "date": ("0000-00-00", "2024-02-30", "2024-13-01", "2024-2-3", "0001-01-01", "9999-12-31"),
    "datetime(3)": ("2024-01-02 03:04:05.6789", "2024-01-02 24:00:00", "0000-00-00 00:00:00"),
    "timestamp": (
        "2024-11-03 01:30:00",
        "1969-12-31 23:59:59",
        "2038-01-19 03:14:08",
        "2024-01-02 03:04:05+08:00",
    ),
    "time": ("838:59:59", "839:00:00", "-00:00:00", "1:2:3"),
    "year": ("0", "1900", "1901", "2155", "2156", "99"),
    "bit(8)": ("255", "256", "-1", "-9223372036854775808"),
    "enum('a','b')": ("0", "1", "2", "3", "-1", "a", "01"),
    "set('a','b')": ("0", "3", "4", "-1", "a,b", "9223372036854775808"),
    "json": ("{}", "not json", "", "null", '{"a":1,"a":2}'),
    "varbinary(4)": ("ab", "\u0100", "\x00\xff", "abcdefgh"),
    "char(3)": ("abcdef", "  x ", ""),
    "vector(2)": ("[1,2]", "[1]", "[1,x]", "[]", "1,2", "[1e400]"),
}
_KEYLESS = "CREATE TABLE `t` (id int, v varchar(20))"
_PLAIN = Row('{"id":"1","v":"abc"}', key="null")

STREAMS: dict[str, list[Step]] = {
    **{f"with {name}": [CREATE, ONE, Row(image), TWO] for name, image in _BAD_IMAGES.items()},
    **{f"first {name}": [Row(image), TWO] for name, image in _BAD_IMAGES.items()},
    **{
        f"with {name}": [CREATE, ONE, Row('{"id":"3","v":"7"}', types), TWO]
        for name, types in _BAD_TYPES.items()
    },
    **{
        f"first {name}": [Row('{"id":"3","v":"7"}', types), TWO]
        for name, types in _BAD_TYPES.items()
    },
    **{f"values of {type}": _declared(type, *values) for type, values in _ODD_VALUES.items()},
    **{
        f"values of an inferred {type}": _declared(type, *values, create=False)
        for type, values in _ODD_VALUES.items()
    },
    "updates without old rows": [
        CREATE,
        ONE,
        _update('{"id":"1","v":"x"}', "null"),
        _update('{"id":"9","v":"y"}', "null"),
    ],
    "an update with a null key before": [
        CREATE,
        ONE,
        _update('{"id":"1","v":"x"}', '[{"id":null,"v":"abc"}]'),
    ],
    "an update of a key": [CREATE, ONE, TWO, _update('{"id":"3","v":"x"}', '[{"id":"1"}]')],
    "an update of a key to an existing one": [
        CREATE,
        ONE,
        TWO,
        _update('{"id":"2","v":"x"}', '[{"id":"1"}]'),
    ],
    "an update with an unknown old column": [
        CREATE,
        ONE,
        _update('{"id":"1","v":"x"}', '[{"w":"1"}]'),
    ],
    "an update with a broken old row": [CREATE, ONE, _update('{"id":"1","v":"x"}', '[{"v":5}]')],
    "an update with two old rows": [CREATE, ONE, _update('{"id":"1","v":"x"}', "[{},{}]")],
    "a delete of no row": [CREATE, ONE, Row('{"id":"9","v":""}', kind="DELETE"), TWO],
    "a delete by a bad key": [CREATE, ONE, Row('{"id":null}', kind="DELETE"), TWO],
    "a delete by a key alone": [CREATE, ONE, TWO, Row('{"id":"1"}', kind="DELETE")],
    "an insert and a delete at once": [CREATE, ONE, Row(ONE.data, kind="DELETE", after=0)],
    "two inserts of a key at once": [CREATE, ONE, Row('{"id":"1","v":"x"}', after=0)],
    "two inserts of a key": [CREATE, ONE, Row('{"id":"1","v":"x"}')],
    "an insert after a delete that cannot be read": [
        CREATE,
        ONE,
        Row('{"id":"1","v":5}', kind="DELETE", after=0),
        Row('{"id":"1","v":"x"}'),
        TWO,
    ],
    "two rows in one message": [CREATE, Row('{"id":"1","v":"a"},{"id":"2","v":"b"},{"id":"x"}')],
    "a key that changes": [ONE, Row('{"id":"2","v":"b"}', key='["v"]'), TWO],
    "a key that is no column": [Row(ONE.data, key='["w"]'), TWO],
    "a key that is doubled": [Row(ONE.data, key='["id","id"]'), TWO],
    "a key that comes later": [_PLAIN, TWO, ONE],
    "a key that goes": [ONE, Row('{"id":"1","v":"x"}', key="null"), TWO],
    "keys of texts": [
        "CREATE TABLE `t` (id varchar(9) primary key, v varchar(20))",
        *(
            Row(json.dumps({"id": key, "v": key}), '{"id":"varchar","v":"varchar"}')
            for key in ("a", "A", "a ", "", "é", "é", "a\0")
        ),
    ],
    "keys of decimals": _keyed("decimal(10,2)", "1.0", "1.00", "01", "-0", "0.001"),
    "keys of dates": _keyed("date", "2024-01-01", "0000-00-00", "2024-00-01", "2024-02-30"),
    "keys of datetimes": _keyed(
        "datetime(3)",
        "2024-01-01 00:00:10.0000",
        "2024-01-01 00:00:20.5",
        ("2024-01-01 00:00:10", "DELETE"),
    ),
    # In America/New_York the first text is two moments, and the last is none.
    "keys of timestamps": _keyed(
        "timestamp",
        *["2024-11-03 01:30:00"] * 2,
        "2024-11-03 02:30:00",
        ("2024-11-03 01:30:00", "DELETE"),
        "2024-03-10 02:30:00",
    ),
    "no key": [_KEYLESS, _PLAIN, _PLAIN, Row(_PLAIN.data, kind="DELETE", key="null")],
    "no key and equal rows at once": [_KEYLESS, _PLAIN, _PLAIN._replace(after=0), TWO],
    "no key and more deletes than rows": [
        _KEYLESS,
        _PLAIN,
        Row(_PLAIN.data, kind="DELETE", key="null"),
        Row(_PLAIN.data, kind="DELETE", key="null"),
        _PLAIN,
    ],
    "no key and a delete before the insert": [
        _KEYLESS,
        Row(_PLAIN.data, kind="DELETE", key="null"),
        _PLAIN._replace(after=0),
        _PLAIN,
        _PLAIN,
        *[Row(_PLAIN.data, kind="DELETE", key="null")] * 5,
        TWO,
        _PLAIN,
    ],
    "no key and nulls": [_KEYLESS, Row('{"id":null,"v":null}', key="null"), Row("{}", key="null")],
    "no key and a delete that lacks a column": [
        _KEYLESS,
        _PLAIN,
        "ALTER TABLE `t` ADD n int",
        Row(_PLAIN.data, kind="DELETE", key="null"),
    ],
    "a statement that cannot be read": [CREATE, ONE, "ALTER TABLE `t` FROBNICATE", TWO],
    "a type that no table has": [CREATE, ONE, "ALTER TABLE `t` ADD b bit(9999999999)", TWO],
    "too many columns": [
        CREATE,
        ONE,
        f"ALTER TABLE `t` ADD ({','.join(f'x{n} int' for n in range(4096))})",
        TWO,
    ],
    "a second CREATE": [CREATE, ONE, CREATE, TWO],
    "DROP and rows after it": [CREATE, ONE, "DROP TABLE `t`", TWO],
    "RENAME and rows after it": [CREATE, ONE, "RENAME TABLE `t` TO `t_old`", TWO],
    "DROP, rows after it and a late CREATE": [
        CREATE,
        ONE,
        "DROP TABLE `t`",
        TWO,
        CREATE,
        Row('{"id":"3","v":"x"}'),
    ],
    "an exchange with itself": [
        f"{CREATE} PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9))",
        ONE,
        "ALTER TABLE `t` EXCHANGE PARTITION p0 WITH TABLE `t`",
        TWO,
    ],
    "DROP of no table": ["DROP TABLE `t`", ONE],
    "TRUNCATE of no table": ["TRUNCATE TABLE `t`", ONE],
    "TRUNCATE": [CREATE, ONE, "TRUNCATE TABLE `t`", TWO],
    "a column that is there already": [CREATE, ONE, "ALTER TABLE `t` ADD v int", TWO],
    "a column that is not there": [CREATE, ONE, "ALTER TABLE `t` DROP w", TWO],
    "a conversion that fails": [CREATE, ONE, "ALTER TABLE `t` MODIFY v int", TWO],
    "a conversion to JSON": [CREATE, ONE, "ALTER TABLE `t` MODIFY v json", TWO],
    "a default that does not fit": [CREATE, ONE, "ALTER TABLE `t` ADD n int DEFAULT 'abc'", TWO],
    "a default that is a call": [CREATE, ONE, "ALTER TABLE `t` ADD n int DEFAULT (uuid())", TWO],
    "an ENUM without members, then a statement": [
        Row('{"id":"1","v":"1"}', '{"id":"int","v":"enum"}'),
        "ALTER TABLE `t` MODIFY v enum('b','a')",
        Row('{"id":"2","v":"2"}', '{"id":"int","v":"enum"}'),
    ],
    "partitions that take no row": [
        f"{CREATE} PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (2))",
        ONE,
        TWO,
        "ALTER TABLE `t` TRUNCATE PARTITION p0",
    ],
    "partitions that nobody defined": [ONE, "ALTER TABLE `t` TRUNCATE PARTITION p0", TWO],
    "a deep default": [CREATE, ONE, f"ALTER TABLE `t` ADD n int DEFAULT {'(' * 999}1{')' * 999}"],
}
END = 1000


def stream_messages(names: list[str]) -> list[Message]:
    """Make the records of streams, each on a separate table named by its place."""
    contents: list[bytes] = []
    for number, name in enumerate(names):
        contents += _messages(f"t{number}", STREAMS[name])
    contents.append(
        b'{"database":"","table":"","isDdl":false,"type":"TIDB_WATERMARK","es":0,"ts":0,'
        b'"_tidb":{"watermarkTs":%d}}' % END
    )
    return [Message("t", 0, offset, None, value, None) for offset, value in enumerate(contents)]


def _messages(table: str, steps: list[Step]) -> Iterator[bytes]:
    ts = 1
    for step in steps:
        name = json.dumps(table)
        if isinstance(step, str):
            ts += 1
            sql = json.dumps(step.replace("`t`", f"`{table}`"))
            body = f'"isDdl":true,"type":"ALTER","sql":{sql}'
        else:
            ts += step.after
            body = (
                f'"isDdl":false,"type":"{step.kind}","mysqlType":{step.types},"sqlType":{{}},'
                f'"pkNames":{step.key},"data":[{step.data}],"old":{step.old}'
            )
        text = f'{{"database":"d","table":{name},"es":0,"ts":0,{body},"_tidb":{{"commitTs":{ts}}}}}'
        yield text.encode("utf-8", "surrogatepass")
