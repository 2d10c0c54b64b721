"""What real servers sent to topics, encoded again: the same bytes."""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.demo.golden_tables import (
    canal_invalid,
    canal_row,
    canonical,
    has_invalid_member,
    mysql_text,
    of_simple,
    only,
)
from tests.golden import records
from tests.protocols import simple_avro_messages as avro
from ticdc_assets.demo.canal_json import CanalJson
from ticdc_assets.demo.change import ChangedRow, Ddl, DdlKind
from ticdc_assets.demo.open_protocol import OpenProtocol
from ticdc_assets.demo.send_order import SentRow
from ticdc_assets.demo.simple_avro import SimpleAvro
from ticdc_assets.demo.simple_json import SimpleJson
from ticdc_assets.demo.topic import Codec, Dispatch, PartitionDispatcher, Record
from ticdc_assets.events import ColumnType, TableSchema
from ticdc_assets.protocols.open_protocol.go_quote import unquote

WORKLOADS = ("types", "lifecycle", "random_1")
Schemas = dict[tuple[str, str, int], TableSchema]


def row_change(
    schema: TableSchema, old: dict[str, Any] | None, new: dict[str, Any] | None
) -> ChangedRow:
    def texts(row: dict[str, Any] | None) -> tuple[str | None, ...] | None:
        if row is None:
            return None
        return tuple(mysql_text(row[c.name], c.type) for c in schema.columns)

    return ChangedRow(schema, texts(old), texts(new))


def rows_again(
    codec: Codec, schema: TableSchema, message: dict[str, Any], build_ms: int
) -> Record | None:
    """The record of a row of Simple; None for rows that no upstream here has."""
    old, new = message.get("old"), message.get("data")
    row = new or old
    if has_invalid_member(row, schema):
        return None
    travelling = only(schema, list(row), table_id=message["tableID"])
    change = row_change(travelling, old, new)
    return codec.rows([SentRow(message["commitTs"], change)], build_ms)


def ddl_of(message: dict[str, Any], code: int = 0) -> Ddl:
    stated = message.get("tableSchema")
    schema = of_simple(stated) if stated else None
    kind = DdlKind(code, message["type"])
    return Ddl(message["commitTs"], kind, message["sql"], "", None, schema)


def differing(stated: dict[str, Any] | None) -> bool:
    """Shapes that the upstream here never has: views, odd defaults, what TiCDC numbers itself."""
    if stated is None:
        return False
    views = any(c["dataType"]["mysqlType"] in ("unspecified", "vector") for c in stated["columns"])
    made_up = [i for i in stated["indexes"] if i["name"] == "primary"]
    return views or (bool(made_up) and stated["indexes"][-1]["name"] != "primary")


@pytest.mark.parametrize("workload", WORKLOADS)
def test_simple_json(workload: str) -> None:
    codec, schemas, checked = SimpleJson(), {}, 0
    for record in records(f"{workload}/newarch-simple-json"):
        assert record.value is not None
        message = json.loads(record.value)
        build_ms = message["buildTs"]
        again: Record | None
        match message["type"]:
            case "WATERMARK":
                again = codec.watermark(message["commitTs"], build_ms)
            case "BOOTSTRAP":
                schema = of_simple(message["tableSchema"])
                again = codec.bootstrap(schema, build_ms)
            case "INSERT" | "UPDATE" | "DELETE":
                name = message["database"], message["table"], message["schemaVersion"]
                again = rows_again(codec, schemas[name], message, build_ms)
            case _ if "preTableSchema" in message or differing(message.get("tableSchema")):
                again = None
            case _:
                again = codec.ddl(ddl_of(message), build_ms)
        if (stated := message.get("tableSchema")) is not None:
            schemas[stated["schema"], stated["table"], stated["version"]] = of_simple(stated)
        if again is not None:
            assert again.value.decode() == record.value.decode()
            checked += 1
    assert checked > 600


@pytest.mark.parametrize("workload", WORKLOADS)
def test_simple_avro(workload: str) -> None:
    codec, schemas, checked = SimpleAvro(), {}, 0
    for record in records(f"{workload}/newarch-simple-avro"):
        assert record.value is not None
        try:
            message = avro.read(record.value)
        except UnicodeDecodeError:
            # Text that is no UTF-8: the oracle cannot read it.
            continue
        build_ms = message["buildTs"]
        again: Record | None
        if "data" in message:
            name = message["database"], message["table"], message["schemaVersion"]
            again = avro_row(codec, schemas[name], message)
        elif "sql" in message:
            skipped = message["preTableSchema"] or differing(message["tableSchema"])
            again = None if skipped else codec.ddl(ddl_of(message), build_ms)
        elif "tableSchema" in message:
            again = codec.bootstrap(of_simple(message["tableSchema"]), build_ms)
        else:
            again = codec.watermark(message["commitTs"], build_ms)
        if (stated := message.get("tableSchema")) is not None:
            schemas[stated["database"], stated["table"], stated["version"]] = of_simple(stated)
        if again is not None:
            assert again.value == record.value, message
            checked += 1
    assert checked > 600


def avro_row(codec: Codec, schema: TableSchema, message: dict[str, Any]) -> Record | None:
    """The record of a row, its columns in the order in which the server's map gave them."""
    old, new = (plain(message[name], schema) for name in ("old", "data"))
    if new is not None and old is not None and list(new) != list(old):
        return None
    return rows_again(codec, schema, {**message, "old": old, "data": new}, message["buildTs"])


def plain(row: dict[str, Any] | None, schema: TableSchema) -> dict[str, Any] | None:
    """Values of Avro as those of JSON."""
    if row is None:
        return None
    found: dict[str, Any] = {}
    for name, value in row.items():
        column = schema.column(name)
        assert column is not None
        if isinstance(value, bytes):
            found[name] = base64.b64encode(value).decode()
        elif isinstance(value, dict) and list(value) == ["value"]:
            found[name] = value["value"] % (1 << 64)
        elif isinstance(value, float):
            found[name] = repr(value)
        else:
            found[name] = value
    return found


@pytest.mark.parametrize("workload", WORKLOADS)
def test_canal_json(workload: str) -> None:
    codec, checked = CanalJson(), 0
    for record in records(f"{workload}/newarch-canal-json-ext"):
        assert record.value is not None
        message = json.loads(record.value)
        build_ms, extension = message["ts"], message["_tidb"]
        if message["isDdl"]:
            schema = TableSchema(message["database"], message["table"], ())
            kind = DdlKind(0, message["type"])
            stated = schema if schema.table else None
            ddl = Ddl(extension["commitTs"], kind, message["sql"], schema.database, None, stated)
            again = codec.ddl(ddl, build_ms)
        elif message["type"] == "TIDB_WATERMARK":
            again = codec.watermark(extension["watermarkTs"], build_ms)
        elif canal_invalid(message):
            continue
        else:
            change = canal_row(message)
            again = codec.rows([SentRow(extension["commitTs"], change)], build_ms)
        assert canonical(again.value) == canonical(record.value)
        checked += 1
    assert checked > 600


@pytest.mark.parametrize("workload", ["types", "lifecycle"])
def test_open_protocol(workload: str) -> None:
    """Rows of tables that were not altered: the server keeps the flags of before an ALTER."""
    schemas, altered = created(f"{workload}/newarch-simple-json")
    codec, checked, in_partitions = OpenProtocol(), 0, 0
    for record in records(f"{workload}/newarch-open-protocol"):
        assert record.key is not None
        assert record.value is not None
        for key, value in zip(parts(record.key[8:]), parts(record.value), strict=True):
            about = json.loads(key)
            if about["t"] == 3:
                again = codec.watermark(about["ts"], 0)
                assert again == (record.key, record.value)
            elif about["t"] == 2:
                said = json.loads(value)
                stated = TableSchema(about["scm"], about["tbl"], ()) if about["tbl"] else None
                kind = DdlKind(said["t"], "")
                ddl = Ddl(about["ts"], kind, said["q"], about["scm"], None, stated)
                assert codec.ddl(ddl, 0) == (record.key, record.value)
            elif (name := (about["scm"], about["tbl"])) not in altered or "ptn" in about:
                row = json.loads(value, parse_int=str, parse_float=str)
                schema, partition = with_generated(schemas[name]), about.get("ptn")
                if not {c.name for c in schema.columns}.issuperset(next(iter(row.values()))):
                    continue
                again = open_row(codec, schema, row, about["ts"], partition)
                in_partitions += partition is not None
                if again is None:
                    continue
                assert again.key[8:] == struct.pack(">Q", len(key)) + key
                assert again.value[8:].decode() == value.decode() or name in altered
            checked += 1
    assert checked > 300
    assert in_partitions > 0 or workload == "types"


def with_generated(schema: TableSchema) -> TableSchema:
    """No message says which columns are generated, but for the flags that are tested here."""
    if schema.table != "t_gen":
        return schema
    columns = (replace(c, generated="stored" if c.name in "s up" else None) for c in schema.columns)
    return replace(schema, columns=tuple(columns))


def created(dataset: str) -> tuple[dict[tuple[str, str], TableSchema], set[tuple[str, str]]]:
    schemas, altered = {}, set()
    for record in records(dataset):
        assert record.value is not None
        message = json.loads(record.value)
        if "sql" in message and (stated := message.get("tableSchema")):
            name = stated["schema"], stated["table"]
            if message["type"] == "CREATE":
                schemas[name] = of_simple(stated)
            else:
                altered.add(name)
    return schemas, altered


def parts(framed: bytes) -> Iterator[bytes]:
    while framed:
        (length,) = struct.unpack(">Q", framed[:8])
        yield framed[8 : 8 + length]
        framed = framed[8 + length :]


def open_row(
    codec: Codec, schema: TableSchema, row: dict[str, Any], ts: int, partition: int | None
) -> Record | None:
    first = next(iter(row.values()))
    travelling = only(schema, list(first))
    if has_invalid_member({name: column["v"] for name, column in first.items()}, schema):
        return None

    def texts(image: dict[str, Any] | None) -> tuple[str | None, ...] | None:
        if image is None:
            return None
        return tuple(open_text(image[c.name]["v"], c.type) for c in travelling.columns)

    new = texts(row.get("u"))
    old = texts(row.get("d") or row.get("p"))
    return codec.rows([SentRow(ts, ChangedRow(travelling, old, new, partition))], 0)


def open_text(value: Any, kind: ColumnType) -> str | None:
    if value is not None and kind.name in ("binary", "varbinary"):
        return unquote(value).hex()
    if value is not None and kind.name.endswith("text"):
        return base64.b64decode(value).decode("utf-8", "surrogateescape")
    return mysql_text(value, kind)


@pytest.mark.parametrize(
    ("dataset", "dispatch"),
    [
        ("lifecycle/newarch-simple-json", "index-value"),
        ("types/newarch-simple-json", "index-value"),
        ("lifecycle/simple-json-default-dispatch", "table"),
    ],
)
def test_rows_go_to_the_partition_they_went_to(dataset: str, dispatch: Dispatch) -> None:
    """By table, or by key where the key is numbers and texts."""
    schemas: Schemas = {}
    checked = 0
    for record in records(dataset):
        assert record.value is not None
        message = json.loads(record.value)
        if (stated := message.get("tableSchema")) is not None:
            schemas[stated["schema"], stated["table"], stated["version"]] = of_simple(stated)
        if message["type"] not in ("INSERT", "UPDATE", "DELETE"):
            continue
        schema = schemas[message["database"], message["table"], message["schemaVersion"]]
        row = message.get("data") or message["old"]
        kinds = {column.name: column.type.name for column in schema.columns}
        if all(kinds[name].endswith(("int", "char")) for name in schema.key):
            schema = only(schema, [c.name for c in schema.columns if c.name in row])
            change = row_change(schema, None, row)
            assert PartitionDispatcher(schema, 3, dispatch)(change) == record.partition
            checked += 1
    assert checked > 200
