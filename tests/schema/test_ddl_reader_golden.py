"""Every recorded DDL is read, and matches the schema that TiCDC states for the table."""

import base64
import gzip
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.golden import GOLDEN, find_folder, open_lines, records, storage_tree
from ticdc_assets.events import Column
from ticdc_assets.schema.ddl import statement as ddl
from ticdc_assets.schema.ddl.columns import resolve_column
from ticdc_assets.schema.ddl.reader import read_ddl

WORKLOADS = ("types", "lifecycle", "random_1")
SIMPLE = [f"{w}/{d}" for w in WORKLOADS for d in ("simple-json", "newarch-simple-json")]
# TiDB's own columns of what simple messages leave to the type.
WIDTHS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
BINARY = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}


@cache
def simple_ddl(dataset: str) -> tuple[dict[str, Any], ...]:
    """The DDL messages of a Simple dataset, each once."""
    found = {}
    for record in records(dataset):
        assert record.value is not None
        if b'"sql":"' in record.value:
            message = json.loads(record.value)
            found[message["commitTs"], message["sql"]] = message
    return tuple(found.values())


def history(workload: str) -> Iterator[dict[str, Any]]:
    return open_lines(find_folder(workload) / "ddl_history.jsonl")


def canal_sql(dataset: str) -> Iterator[str]:
    for record in records(dataset):
        assert record.value is not None
        if b'"isDdl":true' in record.value:
            yield json.loads(record.value)["sql"]


def open_sql(dataset: str) -> Iterator[str]:
    for record in records(dataset):
        assert record.value is not None
        if record.value[8:].startswith(b'{"q":'):
            yield json.loads(record.value[8:])["q"]


def storage_sql(dataset: str) -> Iterator[str]:
    for path, data in storage_tree(dataset).items():
        if "/meta/schema_" in path:
            yield json.loads(data)["Query"]


def sql_texts(workload: str) -> set[str]:
    texts = {line["query"] for line in history(workload)}
    for generation in ("", "newarch-"):
        prefix = f"{workload}/{generation}"
        texts |= {message["sql"] for message in simple_ddl(f"{prefix}simple-json")}
        texts |= set(canal_sql(f"{prefix}canal-json-ext"))
        texts |= set(open_sql(f"{prefix}open-protocol"))
        texts |= set(storage_sql(f"{prefix}storage-csv-default"))
    return texts


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_recorded_ddl_is_one_statement(workload: str) -> None:
    texts = sql_texts(workload)
    assert len(texts) > 50
    for text in texts:
        assert len(read_ddl(text)) == (1 if text else 0), text


@pytest.mark.parametrize("workload", WORKLOADS)
def test_user_sql_and_the_sql_that_tidb_prints_are_equivalent(workload: str) -> None:
    printed: dict[int, list[dict[str, Any]]] = {}
    for message in simple_ddl(f"{workload}/newarch-simple-json"):
        printed.setdefault(message["commitTs"], []).append(message)
    compared = 0
    for line in history(workload):
        messages = printed.get(line["commit_ts"])
        if messages is None:
            continue
        meant = read_ddl("; ".join(message["sql"] for message in messages))
        typed = read_ddl(line["query"])
        if isinstance(meant[0], ddl.RenameTables):
            assert_same_renames(typed[0], meant)
            continue
        assert plain(typed, line["schema"]) == plain(meant, line["schema"]), line["query"]
        compared += 1
    assert compared > 30


def assert_same_renames(typed: ddl.Statement, meant: tuple[ddl.Statement, ...]) -> None:
    """TiCDC makes a message of each table and fills in the databases."""
    if isinstance(typed, ddl.AlterTable):
        (action,) = typed.actions
        assert isinstance(action, ddl.RenameTo)
        pairs: tuple[tuple[ddl.Name, ddl.Name], ...] = ((typed.name, action.name),)
    else:
        assert isinstance(typed, ddl.RenameTables)
        pairs = typed.pairs
    for pair, statement in zip(pairs, meant, strict=True):
        assert isinstance(statement, ddl.RenameTables)
        for name, full in zip(pair, statement.pairs[0], strict=True):
            assert name.table == full.table
            assert name.database in (None, full.database)


def plain(value: Any, database: str) -> Any:
    """A statement as nested tuples: names qualified, expressions without regard to spelling."""
    if isinstance(value, ddl.Name):
        return (value.database or database, value.table)
    if isinstance(value, ddl.DeclaredColumn):
        value = resolve_column(value, None)
    if isinstance(value, Column) and value.default_is_expression:
        return ("column", value.name, value.type, loose(value.default))
    if isinstance(value, tuple):
        return tuple(plain(item, database) for item in value)
    if hasattr(value, "__struct_fields__"):
        fields = ((f, getattr(value, f)) for f in value.__struct_fields__)
        return (
            type(value).__name__,
            *(loose(v) if f == "expression" else plain(v, database) for f, v in fields),
        )
    return value


def loose(expression: str | None) -> str | None:
    if expression is None:
        return None
    return expression.replace("`", "").replace(" ", "").casefold()


@pytest.mark.parametrize("dataset", SIMPLE)
def test_created_tables_match_the_schemas_of_simple_messages(dataset: str) -> None:
    checked = 0
    for message in simple_ddl(dataset):
        (statement,) = read_ddl(message["sql"])
        if not isinstance(statement, ddl.CreateTable):
            continue
        stated = message["tableSchema"]
        assert statement.name.table == stated["table"]
        assert [c.name for c in statement.columns] == [c["name"] for c in stated["columns"]]
        for column, said in zip(statement.columns, stated["columns"], strict=True):
            assert_agrees(resolve_column(column, statement.charset), said)
        assert_same_indexes(statement, stated["indexes"])
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize("dataset", SIMPLE)
def test_altered_columns_match_the_schemas_of_simple_messages(dataset: str) -> None:
    checked = 0
    for message in simple_ddl(dataset):
        (statement,) = read_ddl(message["sql"])
        if not isinstance(statement, ddl.AlterTable):
            continue
        stated = {c["name"]: c for c in message["tableSchema"]["columns"]}
        indexes = {i["name"]: i for i in message["tableSchema"]["indexes"]}
        for action in statement.actions:
            match action:
                case ddl.AddColumn(column) | ddl.ModifyColumn(_, column):
                    assert_agrees(resolve_column(column, None), stated[column.name])
                case ddl.DropColumn(name):
                    assert name not in stated
                case ddl.RenameColumn(old, new):
                    assert old not in stated
                    assert new in stated
                case ddl.SetDefault(name, default):
                    assert stated[name]["default"] == default.text
                case ddl.AddIndex(index):
                    assert tuple(indexes[index.name]["columns"]) == index.columns
                    assert indexes[index.name]["unique"] == index.unique
                case ddl.DropIndex(name):
                    assert name not in indexes
                case ddl.RenameIndex(old, new):
                    assert old not in indexes
                    assert new in indexes
                case _:
                    continue
            checked += 1
    assert checked > 5


def assert_agrees(column: Column, said: dict[str, Any]) -> None:
    type = column.type
    data_type = said["dataType"]
    where = f"{column} {said}"
    assert type.name == data_type["mysqlType"], where
    # TiDB flags BIT and YEAR as unsigned, which follows from the type.
    if type.name not in ("bit", "year"):
        assert type.unsigned == data_type.get("unsigned", False), where
        assert type.zerofill == data_type.get("zerofill", False), where
    if type.length is not None:
        assert type.length == data_type["length"], where
    else:
        # TiDB works these out; a vector without a dimension has none.
        assert type.name in {
            *WIDTHS,
            *BINARY,
            *("float", "double", "tinytext", "text", "mediumtext", "longtext", "json", "vector"),
            *("date", "datetime", "timestamp", "time", "enum", "set"),
        }, where
    if type.name not in ("float", "double"):
        assert (type.decimals or 0) == data_type.get("decimal", 0), where
    assert list(type.elements or ()) == data_type.get("elements", []), where
    if type.charset is not None:
        assert type.charset == data_type["charset"], where
    if type.collation is not None:
        assert type.collation == data_type["collate"], where
    assert column.nullable == said["nullable"], where
    assert_default_agrees(column, said["default"])


def assert_default_agrees(column: Column, said: Any) -> None:
    if column.default_is_expression:
        # TiDB leaves out the digits of CURRENT_TIMESTAMP.
        assert (column.default or "").partition("(6)")[0].casefold() == said.casefold()
    elif column.type.name in BINARY and column.default is not None:
        assert base64.b64decode(column.default).decode() == said
    elif column.type.name == "bit" and column.default is not None:
        assert column.default == str(said)
    else:
        assert column.default == said


def assert_same_indexes(statement: ddl.CreateTable, said: list[dict[str, Any]]) -> None:
    stated = {
        (i["name"].upper() if i["primary"] else i["name"], tuple(i["columns"]), i["unique"])
        for i in said
    }
    read = {(i.name, i.columns, i.unique) for i in statement.indexes}
    # A lone integer unique key is stated a second time, as if it were the primary key.
    invented = stated - read
    assert read <= stated
    assert all(
        name == "PRIMARY" and any(columns == c and unique for _, c, unique in read)
        for name, columns, _ in invented
    )
    assert len(invented) <= 1


def test_recorded_rows_hold_the_parsed_defaults() -> None:
    with gzip.open(GOLDEN / "types" / "truth.jsonl.gz", "rt") as lines:
        tables = [t for line in lines if (t := json.loads(line))["table"] == "t_cpk"]
    names = [c["name"] for c in tables[-1]["columns"]]
    row = dict(zip(names, tables[-1]["rows"][0], strict=True))
    filled = {
        action.column.name: resolve_column(action.column, None)
        for message in simple_ddl("types/newarch-simple-json")
        for statement in read_ddl(message["sql"])
        if isinstance(statement, ddl.AlterTable)
        for action in statement.actions
        if isinstance(action, ddl.AddColumn)
    }
    assert len(filled) > 8
    for name, column in filled.items():
        default = column.default
        if default is None:
            continue
        if column.type.name in BINARY:
            default = base64.b64decode(default).hex()
        if column.type.name == "decimal":
            default = default.ljust(default.index(".") + 1 + (column.type.decimals or 0), "0")
        assert row[name] == default, name
