"""A base install, without Spark and Dagster, reads a lake, and says what else takes more."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from ticdc_assets.extras import describe_missing

PROJECT = Path(__file__).parents[2]
# Run commands in one process that cannot import what extras bring; the lines of the last show.
SCRIPT = """
import contextlib, io, json, sys

class Nothing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

EXTRAS = json.loads(sys.argv[1])
sys.meta_path.insert(0, Nothing())
from ticdc_assets import cli, open_lake

for command in json.loads(sys.argv[2]):
    out, err = io.StringIO(), io.StringIO()
    out.buffer = io.BytesIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(command)
    print(code, bool(out.getvalue() or out.buffer.getvalue()), err.getvalue().strip()[:200])
print(open_lake(sys.argv[3]).table("shop.orders").arrow().num_rows)
"""
READING = [
    ["tables"],
    ["show", "shop.orders"],
    ["schema", "shop.orders"],
    ["events", "shop.orders"],
    ["ledger"],
    ["sql", "--for", "duckdb"],
    ["dbt-sources"],
]
# Modules by the extra that brings them.
BROUGHT = {
    "spark": ("pyspark", "delta", "pandas", "py4j"),
    "dagster": ("dagster", "dagster_aws", "dagster_pyspark", "pandera"),
    "kafka": ("confluent_kafka",),
    "s3": ("boto3", "botocore"),
    "gcs": ("jwt",),
    "privacy": ("cryptography",),
    "metrics": ("prometheus_client",),
    "postgresql": ("adbc_driver_manager", "adbc_driver_postgresql"),
    "catalogs": ("pyiceberg", "pymetastore", "requests", "thrift"),
}


def test_a_base_install_reads_a_lake_without_what_extras_bring(shop: Shop) -> None:
    lacking = [module for modules in BROUGHT.values() for module in modules]
    commands = [[*words, *map(str, shop.options)] for words in READING]
    commands.append(["advance", *map(str, shop.options)])
    arguments = [json.dumps(lacking), json.dumps(commands), str(shop.root)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=False
    )
    *lines, advance, rows = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("0 True")] == [], done.stderr
    assert len(lines) == len(READING)
    assert advance == (
        "2 False ticdc-assets: advance: pyspark is not installed: pip install 'ticdc-assets[spark]'"
    )
    assert int(rows) > 0


@pytest.mark.parametrize("extra", BROUGHT)
def test_what_is_missing_names_the_extra_that_brings_it(extra: str) -> None:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert {*BROUGHT, "azure", "all"} == set(declared["optional-dependencies"])
    for module in BROUGHT[extra]:
        error = ModuleNotFoundError(f"No module named {module!r}", name=f"{module}.inner")
        said = f"{module} is not installed: pip install 'ticdc-assets[{extra}]'"
        assert describe_missing(error) == said
    assert describe_missing(ModuleNotFoundError("No module named 'ours'", name="ours")) is None
