"""docs/readers.md says of every engine what the code says, and of the versions that tests ran."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ticdc_assets.cli.engines import ENGINES, FEATURES, READERS

DOCUMENT = (Path(__file__).parents[1] / "docs" / "readers.md").read_text()
PACKAGES = {
    "Spark 4.1 with Delta 4.4": ("pyspark", "delta-spark"),
    "DuckDB 1.5": ("duckdb",),
    "delta-rs 1.6": ("deltalake",),
    "Polars 2.1": ("polars",),
    "Daft 0.7": ("daft",),
    "ClickHouse 26.9 (`chdb`)": ("chdb-core",),
}


def read_matrix() -> list[list[str]]:
    table = DOCUMENT[DOCUMENT.index("| reader |") :].partition("\n\n")[0]
    return [[*map(str.strip, row[1:-1].split("|"))] for row in table.splitlines()]


def test_the_matrix_is_that_of_the_code() -> None:
    head, _, *rows = read_matrix()
    assert head == ["reader", *FEATURES.values()]
    assert rows == [[reader, *map(str, row.values())] for reader, row in READERS.items()]


def test_what_was_tested_is_what_is_installed() -> None:
    tested = {reader for reader, row in READERS.items() if row["plain"].documents is None}
    assert tested - {"pandas, through delta-rs"} == {*PACKAGES}
    for reader, packages in PACKAGES.items():
        found = []
        for package in packages:
            try:
                found.append(".".join(version(package).split(".")[:2]))
            except PackageNotFoundError:
                # See tests/lake/readers.py.
                assert reader.startswith("Daft")
        assert all(number in reader for number in found), (reader, found)


def test_every_engine_is_described() -> None:
    table = DOCUMENT[DOCUMENT.index("| `--for` |") :].partition("\n\n")[0]
    assert re.findall(r"(?m)^\| `(\w+)` \|", table) == [*ENGINES]
