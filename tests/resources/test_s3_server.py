"""A changefeed's folder and a lake on a real S3 server."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from pyiceberg.table import StaticTable

from tests.dumpling import exporter as dumpling
from tests.golden import GOLDEN, storage_tree
from tests.lake.addresses import LIFE, read_addresses, send
from tests.lake.addresses import open_lake as open_addressed
from tests.lake.iceberg_tables import open_lake as open_iceberg_lake
from tests.made_lake import schema, write_snapshot, write_tables
from tests.reading.made import make_lake
from tests.resources.s3_account import ACCOUNT, open_client, s3_account
from ticdc_assets import definitions
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.dumpling.reader import read_rows
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Column, ColumnType, TableSchema
from ticdc_assets.lake.advance import advance
from ticdc_assets.lake.iceberg import publish as publishing
from ticdc_assets.lake.iceberg.published import remove_old_iceberg
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.naming import identifier
from ticdc_assets.plan.state import Incarnation
from ticdc_assets.reading import open_lake
from ticdc_assets.resources.catalog import read_catalog, read_last_row
from ticdc_assets.resources.folder_sample import find_sample
from ticdc_assets.resources.inspect_source import inspect_source
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.load_source import open_export
from ticdc_assets.resources.source import read_checkpoint
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.store.delta_log import count_rows
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stage_commits import StageMark, commit_rows
from ticdc_assets.store.stored_rows import StoredRows
from ticdc_assets.store.writer import ConcurrentCommit, LakeWriter
from ticdc_assets.views.export import Exporter
from ticdc_assets.views.stored_sizes import measure_stored

DATASET = "types/storage-csv-full"


@pytest.fixture(scope="module")
def server(moto: str) -> Iterator[str]:
    """Name a server with two buckets by the environment; yield its URL."""
    with s3_account(moto) as url:
        client = open_client(url)
        for path, content in storage_tree(DATASET).items():
            client.put_object(Bucket="changes", Key=f"a b/表/{path}", Body=content)
        yield url


def declared(url: str, **options: str) -> Changefeed:
    stated = "".join(f"&{name.replace('_', '-')}={value}" for name, value in options.items())
    uri = f"s3://changes/a%20b/表/?protocol=csv&endpoint={url}&region=us-east-1{stated}"
    return changefeed_from_uri(uri, config=GOLDEN / DATASET / "changefeed.toml")


def test_a_folder_reads_as_on_disk(server: str) -> None:
    tree = storage_tree(DATASET)
    folder = open_sink_folder(declared(server))
    assert folder.exists()
    assert {path: folder.read(path) for path in folder.paths()} == tree
    sizes = {entry.path: entry.size for entry in folder.entries()}
    assert sizes == {path: len(content) for path, content in tree.items()}
    assert folder.head("metadata", 3) == tree["metadata"][:3]
    *schemas, data = find_sample(folder)
    assert data in tree
    assert {data, *schemas} <= tree.keys()
    assert inspect_source(declared(server))[-1].result == "ok"
    with pytest.raises(FileNotFoundError):
        folder.read("no such/file")
    # Hadoop's name for the same.
    uri = f"s3a://changes/a%20b/表?protocol=csv&endpoint={server}&region=us-east-1"
    assert open_sink_folder(changefeed_from_uri(uri)).read("metadata") == tree["metadata"]


@pytest.mark.parametrize("ending", ["sql", "csv.gz", "csv.zst", "sql.snappy", "parquet"])
def test_an_export_reads_as_on_disk(server: str, tmp_path: Path, ending: str) -> None:
    format, dot, compression = ending.partition(".")
    options = dumpling.ExportOptions(format, compression=dot + compression)  # type: ignore[arg-type]
    table = TableSchema("d", "t", (Column("i", ColumnType("int")), Column("v", ColumnType("text"))))
    rows = [(str(n), f"text {n}") for n in range(5000)]
    dumpling.Exporter(tmp_path, options).write({table: rows})
    client = open_client(server)
    for path in tmp_path.iterdir():
        client.upload_file(str(path), "changes", f"exports/{ending}/{path.name}")
    uri = (
        f"s3://changes/exports/{ending}?endpoint={server}&region=us-east-1&secret-access-key=S3CRET"
    )

    source = open_export(f"{uri}&access-key=AKIDTEST", options.dialect)

    assert source.origin == f"s3://changes/exports/{ending}"
    assert source.export == open_export(str(tmp_path), options.dialect).export
    assert source.read_ts() == dumpling.TSO
    texts = []
    for data in source.export.tables[0].data:
        with source.open_folder().open(data.file.path) as file:
            for batch in read_rows(file, data.file, table, options.dialect):
                texts += batch.column("c1").to_pylist()
    assert texts == [f"text {n}" for n in range(5000)]
    with pytest.raises(FileNotFoundError), source.open_folder().open("none"):
        pass


def test_the_sensor_reads_the_checkpoint_with_dagsters_client(server: str, tmp_path: Path) -> None:
    feed = declared(server)
    repository = definitions.graph([feed], str(tmp_path)).get_repository_def()
    sensor = repository.get_sensor_def(f"{identifier(feed.id)}_checkpoint")
    resources = repository.get_top_level_resources()
    wanted = {name: resources[name] for name in sensor.required_resource_keys}
    assert len(wanted) == 2
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(
            instance=instance, resources=wanted, repository_def=repository
        )
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    keys = [request.run_key for request in result.run_requests or ()]
    assert keys == [f"{feed.id}@{read_checkpoint(feed)}"]


def test_credentials_of_the_uri_override_the_environment(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_checkpoint(declared(server))
    for name in ACCOUNT:
        monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match="ACCESS_DENIED"):
        read_checkpoint(declared(server))
    stated = {"access_key": "AKIDURI", "secret_access_key": "S3CRET"}
    assert read_checkpoint(declared(server, **stated)) == expected


def test_the_error_for_a_missing_server_hides_the_secret() -> None:
    feed = declared("http://127.0.0.1:1", access_key="AKIDURI", secret_access_key="S3CRET")
    with pytest.raises(ConfigError) as error:
        read_checkpoint(feed)
    assert "S3CRET" not in str(error.value)


def test_the_catalog_of_a_lake_on_s3_is_read(server: str, tmp_path: Path) -> None:
    there, here = Lake(get_lake_root("s3://lakes/deep/er"), "shop"), Lake(str(tmp_path), "shop")
    assert read_catalog(there).tables == {}
    assert read_last_row(there) is None
    for lake in (there, here):
        write_tables(lake, [schema("shop", "orders", "state")])
        write_snapshot(lake, 1, 470628459884838913, {"t0": 3})
    found, expected = read_catalog(there), read_catalog(here)
    assert found.tables == expected.tables
    assert (found.ts, found.versions) == (expected.ts, {"t0": 3})
    assert os.listdir(tmp_path) == ["shop"]
    assert not Path("s3a:").exists()


def test_the_rows_of_a_lake_on_s3_are_read_from_its_log(server: str) -> None:
    reader = LakeReader(Lake("s3a://lakes/deep/er", "shop"))
    path = reader.location.current_path("t0")
    for ids in ([1, 2], [3]):
        rows = pa.table({"id": ids, "s p": [f"{id}" for id in ids]})
        write_deltalake(path, rows, mode="append")
    assert [count_rows(reader, "current/t0", version) for version in (0, 1)] == [2, 3]
    blocks = [pa.table(block) for block in StoredRows(reader, "current/t0", 1).read()]
    expected = [{"id": id, "s p": f"{id}"} for id in (1, 2, 3)]
    assert pa.concat_tables(blocks).sort_by("id").to_pylist() == expected
    with pytest.raises(ConfigError, match="version 2 is not in the Delta log"):
        count_rows(reader, "current/t0", 2)


def test_a_snapshot_folder_on_s3_says_what_it_holds(server: str) -> None:
    exporter = Exporter(Lake("s3a://lakes/deep/er", "shop"), "s3a://lakes/a copy/表", "parquet")
    exported = exporter.export(_PausedTable(7), print)  # type: ignore[arg-type]
    assert [(table.table, table.status, table.reason) for table in exported] == [
        ("orders", "paused", _LONG_REASON)
    ]
    client = open_client(server)
    stored = client.get_object(Bucket="lakes", Key="a copy/表/tables.json")["Body"].read()
    assert json.loads(stored)[0]["reason"] == _LONG_REASON
    # A whole one is not written again.
    assert exporter.export(_PausedTable(7, tables=list), print) == exported  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="holds shop at 7 as parquet"):
        exporter.export(_PausedTable(8), print)  # type: ignore[arg-type]


_LONG_REASON = "its DDL is unknown: " + "x" * 100_000


def _list_paused() -> list[Incarnation]:
    orders = schema("shop", "orders")
    return [Incarnation(id="t0", schema=orders, status="paused", reason=_LONG_REASON, created_ts=1)]


@dataclass
class _PausedTable:
    """A view of a lake with one table, which has no rows to write."""

    ts: int
    tables: Callable[[], list[Incarnation]] = _list_paused
    snapshots: tuple[int, int] = (1, 1)

    def prepare(self, tables: list[Incarnation]) -> None:
        pass

    def why_spark(self, table: Incarnation) -> None:
        return None

    def rows(self, table: Incarnation) -> None:
        return None


def test_of_concurrent_commits_to_a_lake_on_s3_one_takes_effect(server: str) -> None:
    lake = LakeSession(None, Lake("s3a://lakes/written", "shop"), declared(server))  # type: ignore[arg-type]
    writer, rows = LakeWriter(lake.location), pa.table({"n": [1]})
    writer.create("t", rows.schema, {})
    before = LakeReader(lake.location).open("t")
    assert commit_rows(lake, "t", rows, StageMark("ingest", 1))
    assert not commit_rows(lake, "t", rows, StageMark("ingest", 1))
    properties = CommitProperties(app_transactions=[Transaction("ingest", 1)])
    with pytest.raises(ConcurrentCommit):
        writer.append(before, rows, properties)
    assert count_rows(LakeReader(lake.location), "t", 1) == 1
    assert LakeReader(lake.location).open("t").version() == 1


def test_addresses_on_s3_follow_their_names_and_maintenance_removes_what_nothing_needs(
    server: str,
) -> None:
    lake = open_addressed("s3a://lakes/kept")
    # Names that are gone and that change places, and, below, that come again with rows.
    for windows in (2, 5):
        assert advance(lake, send(windows)).applied.problems == []
        assert read_addresses(lake) == LIFE[windows - 1][1], windows
    left = "kept/lake/f/events/left.parquet"
    client = open_client(server)
    client.put_object(Bucket="lakes", Key=left, Body=b"x" * 1000)
    before = measure_stored(LakeReader(lake.location), 0)
    done = maintain(lake, read_last_snapshot(lake), retain_days=0)
    assert done.removed_bytes >= before["events"].removable_bytes >= 1000
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="lakes", Prefix="kept/")
    objects = {each["Key"]: each["Size"] for page in pages for each in page["Contents"]}
    assert left not in objects
    after = measure_stored(LakeReader(lake.location), 0)
    assert sum(size.stored_bytes for size in after.values()) == sum(objects.values())
    assert read_addresses(lake) == LIFE[4][1]
    assert advance(lake, send(len(LIFE))).applied.problems == []
    assert read_addresses(lake) == LIFE[-1][1]


def test_the_error_for_an_unreachable_lake_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    at = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"}
    for name, value in (ACCOUNT | at).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=os.strerror(errno.ECONNREFUSED)) as error:
        read_catalog(Lake("s3a://lakes/deep", "shop"))
    assert error.value.file == "s3a://lakes/deep/shop/tables"
    assert "AWS_ENDPOINT_URL" in error.value.reason
    assert error.value.reason.isprintable()
    assert ACCOUNT["AWS_SECRET_ACCESS_KEY"] not in str(error.value)


def test_a_lake_is_read_by_name(server: str) -> None:
    lake = make_lake("s3://lakes/by name")
    assert lake.changefeed == "made"
    table = lake.table("s.partial")
    assert table.arrow()["t"].to_pylist() == ["partial"]
    assert table.duckdb().filter("t = 'partial'").shape[0] == 1
    assert table.delta().location == "s3://lakes/by name/made/current/partial"
    with pytest.raises(ConfigError, match=r"^s3a://lakes/by name/made: uri: is the folder of a"):
        open_lake("s3://lakes/by name/made")


def test_iceberg_tables_on_s3_are_read_with_credentials_of_the_reader(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_iceberg_lake("s3a://lakes/iceberg", "d.*")
    for windows in (4, 6):
        assert advance(lake, send(windows)).applied.problems == []
    at = {"s3.endpoint": server, "s3.region": "us-east-1"}
    for name, ids in LIFE[5][1].items():
        path = f"s3://lakes/iceberg/lake/f/iceberg/d.{name}"
        table = StaticTable.from_metadata(path, at)
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == (ids or [])
        stated = table.metadata.model_dump_json()
        assert not any(said in stated for said in (*ACCOUNT.values(), server))
    # A week later, what is needed remains.
    monkeypatch.setattr(publishing, "KEPT_DAYS", -1)
    remove_old_iceberg(lake.location)
    table = StaticTable.from_metadata("s3://lakes/iceberg/lake/f/iceberg/d.c", at)
    assert [table.scan(snapshot_id=each.snapshot_id).to_arrow() for each in table.snapshots()]
    # Those that are not declared any more are gone.
    assert advance(open_iceberg_lake("s3a://lakes/iceberg"), send(6)).applied.problems == []
    client = open_client(server)
    left = client.list_objects_v2(Bucket="lakes", Prefix="iceberg/lake/f/iceberg/")["Contents"]
    assert [each["Key"] for each in left] == ["iceberg/lake/f/iceberg/published.json"]
