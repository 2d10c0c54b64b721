"""The examples of docs/python.md work, and its table of types is true."""

import doctest
import re
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest

from tests.reading.conftest import Shop
from ticdc_assets.rows.columns import get_arrow_type
from ticdc_assets.schema.ddl.reader import read_ddl
from ticdc_assets.schema.ddl.statement import CreateTable

DOCUMENT = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
ROWS = re.findall(r"(?m)^\| (`.+`) \| (.+) \| (.+) \| (.+) \|$", DOCUMENT)


def test_every_example_prints_what_the_page_says(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shop.simulation.changefeeds.parent)
    text = DOCUMENT.replace("/data/lake", str(shop.root))
    found = doctest.DocTestParser().get_doctest(text, {}, "python.md", "docs/python.md", 0)
    assert len(found.examples) > 20
    failed, tried = doctest.DocTestRunner(verbose=False).run(found)
    assert (failed, tried) == (0, len(found.examples)), capsys.readouterr().out


@pytest.mark.parametrize(("types", "arrow", "of_polars", "of_duckdb"), ROWS)
def test_a_type_is_what_the_page_says(
    types: str, arrow: str, of_polars: str, of_duckdb: str
) -> None:
    for text in re.findall("`(.+?)`", types):
        (statement,) = read_ddl(f"CREATE TABLE t (c {text})")
        assert isinstance(statement, CreateTable)
        (column,) = statement.columns
        rows = pa.table({"c": pa.nulls(1, get_arrow_type(column.type))})
        frame = polars.DataFrame(rows)
        with duckdb.connect() as connection:
            (kind,) = connection.from_arrow(rows).types
        assert str(rows.schema.field("c").type) == arrow, text
        assert (str(frame.schema["c"]), str(kind)) == (of_polars, of_duckdb), text
