"""Spark reads tables by name: those of a Hive Metastore, and Iceberg tables in a folder."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.golden import datasets, released_datasets
from tests.lake.addresses import open_lake
from tests.lake.conftest import spark
from tests.lake.golden_iceberg import keep_iceberg, read_stated
from tests.lake.golden_runs import GoldenLake, cuts, list_truth_points
from tests.lake.iceberg_tables import list_iceberg, open_iceberg
from tests.lake.life_of_names import Contents, Life, Name
from tests.lake.readers import list_lines
from tests.reference.golden_feeds import UNUSABLE, allowed
from tests.spark_process import SparkProcess, spark_process
from ticdc_assets.catalogs import register, register_tables
from ticdc_assets.changefeed.catalog import HiveCatalog
from ticdc_assets.lake.advance import advance
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.resources import jars
from ticdc_assets.resources.catalogs import open_catalog

__all__ = ["spark"]

# Every DDL; the other datasets have every type, or other streams.
_USUAL = ("lifecycle/canal-json-ext",)
_DATASETS = [d for d in [*datasets(), *released_datasets()] if UNUSABLE not in allowed(d)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, metastore: str) -> Iterator[SparkProcess]:
    """A Spark that reads Delta through the metastore, and Iceberg: one Java machine for both."""
    folder = tmp_path_factory.mktemp("reader")
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": metastore,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    with spark_process(folder, settings, jars.find_test_jars(jars.ICEBERG_SPARK)) as process:
        yield process


def test_spark_reads_a_life_of_twenty_tables_by_name_in_a_metastore(
    tmp_path: Path, metastore: str, reader: SparkProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, a run would leave some tables to the next one.
    monkeypatch.setattr(register, "_MOST_SECONDS", 600.0)
    lake, life = open_lake(tmp_path), Life(3)
    catalog = open_catalog(HiveCatalog(metastore, "spark_"))
    first: Contents = {}
    for is_last in (False, True):
        contents = life.live()
        advance(lake, life.send())
        problems = register_tables(lake.location, read_last_snapshot(lake), catalog)
        # Hive takes few names.
        taken = {n: rows for n, rows in contents.items() if not re.search(r"\W", n[1], re.ASCII)}
        assert {(each.database, each.table) for each in problems} == contents.keys() - taken.keys()
        listed = reader.query("SHOW TABLES IN spark_d", "SHOW TABLES IN spark_e")
        there = {(t["namespace"], t["tableName"]) for each in listed for t in each.to_pylist()}
        assert there == {(f"spark_{database}", table.lower()) for database, table in taken}
        first = first or taken
        # Spark takes a second for each: all that changed at the end, and one of them before.
        changed = [name for name, rows in taken.items() if first.get(name) != rows]
        names = changed if is_last else sorted(taken)[:1]
        assert read_tables(reader, life, names) == {name: taken[name] for name in names}
    assert changed


def read_tables(reader: SparkProcess, life: Life, names: Iterable[Name]) -> Contents:
    """Read tables by name: those with the same columns in one statement, which takes less time."""
    alike = defaultdict(list)
    for name in names:
        alike[tuple(life.tables[name].types.items())].append(name)
    statements = [
        " UNION ALL ".join(
            f"SELECT '{d}' AS `.d`, '{t}' AS `.t`, * FROM spark_{d}.`{t}`" for d, t in each
        )
        for each in alike.values()
    ]
    found: Contents = {name: [] for name in names}
    for rows in reader.query(*statements):
        for row in rows.to_pylist():
            name = row.pop(".d"), row.pop(".t")
            found[name].append(
                {c: v for c, v in row.items() if c not in ("_commit_ts", "_inexact")}
            )
    return {name: sorted(rows, key=lambda row: row["id"]) for name, rows in found.items()}


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param(each, marks=() if each in _USUAL else pytest.mark.all_golden)
        for each in _DATASETS
    ],
)
def test_spark_reads_golden_tables_as_iceberg_tables(
    spark: SparkSession, tmp_path: Path, reader: SparkProcess, dataset: str
) -> None:
    golden = GoldenLake(spark, tmp_path, dataset)
    golden.lake = lake = keep_iceberg(golden.lake)
    points = list_truth_points(dataset)[-1:]
    for cut in cuts(dataset, points, Random(crc32(dataset.encode())), 1):
        golden.advance(cut)
    # As docs/readers.md has it; a catalog of a lake has a name of its own.
    name = f"lake{crc32(dataset.encode())}"
    settings = ("org.apache.iceberg.spark.SparkCatalog", "hadoop", Path(lake.path("iceberg")))
    for option, value in zip(("", ".type", ".warehouse"), settings, strict=True):
        written = value.as_uri() if isinstance(value, Path) else value
        reader.query(f"SET spark.sql.catalog.{name}{option}={written}")
    addresses = list_iceberg(lake)
    assert addresses
    newest = reader.query(*(f"SELECT * FROM {name}.`{each}`" for each in addresses))
    columns = "snapshot_id, summary['ticdc.resolved_ts'] AS ts"
    listed = reader.query(
        *(f"SELECT {columns} FROM {name}.`{each}`.snapshots" for each in addresses)
    )
    old = []
    for address, rows, snapshots in zip(addresses, newest, listed, strict=True):
        table = open_iceberg(lake, address)
        stated = {
            snapshot.snapshot_id: {**snapshot.summary.additional_properties}
            for snapshot in table.snapshots()
            if snapshot.summary is not None
        }
        found = [(each["snapshot_id"], each["ts"]) for each in snapshots.to_pylist()]
        assert found == [(id, each["ticdc.resolved_ts"]) for id, each in stated.items()]
        *others, last = stated
        assert list_lines(rows, rows.schema) == read_stated(lake, stated[last], rows.schema)
        old += [(address, id, stated[id]) for id in others]
    then = reader.query(
        *(f"SELECT * FROM {name}.`{each}` VERSION AS OF {id}" for each, id, _ in old)
    )
    for (address, _, stated_then), rows in zip(old, then, strict=True):
        expected = read_stated(lake, stated_then, rows.schema)
        assert list_lines(rows, rows.schema) == expected, address
