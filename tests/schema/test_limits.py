"""No source gets a type or a table past TiDB's limits, so none can exhaust memory or time."""

import json
import time
from collections.abc import Callable

import pytest

from tests.schema.reading import columns
from ticdc_assets.errors import InvalidValue, MalformedMessage, UnreadableDdl, UnsupportedDdl
from ticdc_assets.events import (
    Column,
    ColumnType,
    FilePosition,
    Op,
    RowChange,
    SchemaChange,
    TableSchema,
    row_image,
)
from ticdc_assets.protocols.simple.schema import DataType, column_type
from ticdc_assets.schema.alteration import apply_action
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.effect import TablePaused
from ticdc_assets.schema.inference import (
    adopt_observed_columns,
    find_contradiction,
    infer_schema,
)
from ticdc_assets.schema.types.limits import MAX_COLUMNS
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.storage_sink.schema_file import read_schema_file

# As a declaration states it, and as a schema file or a Simple message does: length and decimals.
TOO_LARGE = {
    "bit(65)": (65, None),
    "bit(9999999999)": (9999999999, None),
    "decimal(66,2)": (66, 2),
    "decimal(9999999999,2)": (9999999999, 2),
    "decimal(65,31)": (65, 31),
    "decimal(5,6)": (5, 6),
    "double(500,400)": (500, 400),
    "double(256,2)": (256, 2),
    "float(255,31)": (255, 31),
    "char(256)": (256, None),
    "binary(4294967296)": (4294967296, None),
    "varbinary(4294967296)": (4294967296, None),
    "varchar(9999999999)": (9999999999, None),
    "vector(16384)": (16384, None),
    "bigint(256)": (256, None),
    "datetime(7)": (None, 7),
    "timestamp(4294967296)": (None, 4294967296),
    "time(9999999999)": (None, 9999999999),
}
LARGEST = {
    "bit(64)": (64, None),
    "decimal(65,30)": (65, 30),
    "double(255,30)": (255, 30),
    "char(255)": (255, None),
    "binary(255)": (255, None),
    "vector(16383)": (16383, None),
    "bigint(255)": (255, None),
    "datetime(6)": (None, 6),
}


def schema_file(type: str, length: int | None, decimals: int | None, **keys: object) -> bytes:
    column: dict[str, object] = {"ColumnName": "a", "ColumnType": type.partition("(")[0], **keys}
    if length is not None:
        column["ColumnPrecision"] = str(length)
    if decimals is not None:
        column["ColumnScale"] = str(decimals)
    content = {"Table": "t", "Schema": "d", "Version": 1, "TableVersion": 5, "Query": ""}
    return json.dumps({**content, "TableColumns": [column], "TableColumnsTotal": 1}).encode()


def parse(text: str, size: tuple[int | None, int | None]) -> None:
    parse_type(text)


def read_column(text: str, size: tuple[int | None, int | None]) -> None:
    read_ddl(f"CREATE TABLE t (a {text})")


def read_file(text: str, size: tuple[int | None, int | None]) -> None:
    read_schema_file(schema_file(text, *size))


def read_message(text: str, size: tuple[int | None, int | None]) -> None:
    length, decimals = size
    column_type(DataType(text.partition("(")[0], length=length or 0, decimal=decimals))


SOURCES: dict[Callable[[str, tuple[int | None, int | None]], None], type[Exception]] = {
    parse: InvalidValue,
    read_column: UnreadableDdl,
    read_file: MalformedMessage,
    read_message: MalformedMessage,
}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
@pytest.mark.parametrize("text", TOO_LARGE)
def test_a_type_beyond_the_limits_is_an_error(source: Callable[..., None], text: str) -> None:
    with pytest.raises(SOURCES[source], match=r"but the maximum is|decimals of only"):
        source(text, TOO_LARGE[text])


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
@pytest.mark.parametrize("text", LARGEST)
def test_the_largest_types_are_read(source: Callable[..., None], text: str) -> None:
    source(text, LARGEST[text])


@pytest.mark.parametrize(("kind", "most"), [("set", 64), ("enum", 65_535)])
def test_the_members_of_a_type_are_limited(kind: str, most: int) -> None:
    def declare(count: int) -> str:
        members = ",".join(f"'{n}'" for n in range(count))
        return f"{kind}({members})"

    read_ddl(f"CREATE TABLE t (a {declare(most)})")
    assert len(parse_type(declare(most)).elements or ()) == most
    with pytest.raises(UnreadableDdl, match=f"{most + 1} members"):
        read_ddl(f"CREATE TABLE t (a {declare(most + 1)})")
    elements = [str(n) for n in range(most + 1)]
    with pytest.raises(MalformedMessage, match=f"{most + 1} members"):
        read_schema_file(schema_file(kind, None, None, ColumnElems=elements))


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("varchar(16383)", "varchar"),
        ("varchar(16384)", "mediumtext"),
        ("varchar(65535) charset latin1", "varchar"),
        ("varchar(65536) charset latin1", "mediumtext"),
        ("varbinary(65535)", "varbinary"),
        ("varbinary(65536)", "mediumblob"),
        ("varchar(16777216) charset binary", "longblob"),
    ],
)
def test_a_varchar_that_is_too_long_is_a_text_as_without_strict_mode(
    declared: str, name: str
) -> None:
    (column,) = columns(f"a {declared}")
    assert column.type.name == name


def columns_of(count: int) -> tuple[Column, ...]:
    return tuple(Column(f"c{n}", ColumnType("int")) for n in range(count))


def row_of(count: int) -> RowChange:
    names = [f"c{n}" for n in range(count)]
    return RowChange(
        op=Op.INSERT,
        commit_ts=1,
        database="d",
        table="t",
        position=FilePosition("f"),
        after=row_image.dump(dict.fromkeys(names, "1")),
        observed=row_image.dump(dict.fromkeys(names, "int")),
    )


def test_a_table_has_at_most_4096_columns() -> None:
    too_many = MAX_COLUMNS + 1
    declared = ",".join(f"c{n} int" for n in range(too_many))
    with pytest.raises(UnreadableDdl, match="4096 columns"):
        read_ddl(f"CREATE TABLE t ({declared})")
    added = ddl.AddColumn(ddl.DeclaredColumn("x", ColumnType("int")))
    widest = TableSchema("d", "t", columns_of(MAX_COLUMNS))
    with pytest.raises(UnsupportedDdl, match="4096 columns"):
        apply_action(added, widest)
    with pytest.raises(InvalidValue, match="4096 columns"):
        infer_schema(row_of(too_many))
    content = json.loads(schema_file("int", None, None))
    content["TableColumns"] *= too_many
    content["TableColumnsTotal"] = too_many
    with pytest.raises(MalformedMessage, match="4096 columns"):
        read_schema_file(json.dumps(content).encode())


def test_the_work_for_a_wide_row_grows_with_its_columns_only() -> None:
    row = row_of(MAX_COLUMNS)
    known = TableSchema("d", "t", columns_of(MAX_COLUMNS), origin="inferred")
    start = time.process_time()
    assert adopt_observed_columns(known, row) is known
    assert find_contradiction(known, row) is None
    assert len(RowReader(known)(row.after or "")) == MAX_COLUMNS
    assert time.process_time() - start < 1


@pytest.mark.parametrize("text", [";" * 5_000_000, "a," * 2_500_000, "((" * 1_000_000])
def test_a_statement_of_too_many_words_is_unreadable_at_once(text: str) -> None:
    start = time.process_time()
    for _ in range(5):
        with pytest.raises(UnreadableDdl, match="200,000 words"):
            read_ddl(text)
    assert time.process_time() - start < 3


@pytest.mark.parametrize("stated", ["1" * 200_000 + "x", "." + "1" * 200_000 + "x", "1e" * 100_000])
def test_a_default_of_many_digits_takes_little_time(stated: str) -> None:
    start = time.process_time()
    read_schema_file(schema_file("int", None, None, ColumnDefault=stated))
    assert time.process_time() - start < 1


PARTITIONED = "CREATE TABLE t (a int) PARTITION BY RANGE (a) ({})"


def partitions(count: int) -> str:
    return ",".join(f"PARTITION p{n} VALUES LESS THAN ({n})" for n in range(count))


def seconds_for(count: int, run: int) -> float:
    """The processor time of a table's first COUNT partitions, of truncating and dropping them.

    Texts that were parsed are remembered, so those of each run differ.
    """
    start = time.process_time()
    catalog = SchemaCatalog()
    names = ",".join(f"p{n}" for n in range(count - 1))
    for sql in (
        PARTITIONED.format(partitions(count)),
        f"ALTER TABLE t TRUNCATE PARTITION {names}",
        f"ALTER TABLE t DROP PARTITION {names}",
    ):
        change = SchemaChange(
            commit_ts=1,
            database="d",
            table="t",
            sql=f"/* {run} */ {sql}",
            position=FilePosition("f"),
        )
        assert not [e for e in apply_ddl(change, catalog) if isinstance(e, TablePaused)]
    return time.process_time() - start


def test_the_work_for_partitions_grows_with_their_number_only() -> None:
    # 16 times as many, in a process whose speed varies: work that grows with the square takes 256.
    few, many = (min(seconds_for(count, run) for run in range(3)) for count in (256, 4096))
    assert many < 48 * few


def test_a_statement_has_no_more_partitions_and_actions_than_a_table_can_take() -> None:
    start = time.process_time()
    for sql, reason in (
        (PARTITIONED.format(partitions(8193)), "8193 partitions"),
        ("ALTER TABLE t " + "ADD INDEX (a)," * 5001, "5,000 actions"),
    ):
        with pytest.raises(UnreadableDdl, match=reason):
            read_ddl(sql)
    assert time.process_time() - start < 5
