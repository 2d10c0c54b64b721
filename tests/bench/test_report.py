"""The figures of all benchmarks become one table, JSON and a chart."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.figure import Figure
from bench.processes import Usage
from bench.report import draw_chart, format_json, format_table

WINDOW = Figure(
    group="window",
    name="450 rows",
    value=6.0,
    unit="s",
    baseline_name="plain Spark",
    baseline=4.0,
    usage=Usage(6.0, driver=1.0, java=5.25, workers=0.5, memory=1_500_000_000),
    jobs=31,
    load="0.10 0.20 0.30",
)
DECODE = replace(
    WINDOW,
    group="decode",
    name="csv",
    value=250_000.0,
    unit="rows/s",
    baseline_name="pyarrow.csv",
    baseline=1_000_000.0,
    jobs=None,
)


def test_a_ratio_says_how_many_times_as_long_the_same_work_takes() -> None:
    assert WINDOW.ratio == pytest.approx(1.5)
    assert DECODE.ratio == pytest.approx(4.0)


def test_the_table_has_a_line_per_figure() -> None:
    titles, *lines = [line.split() for line in format_table([WINDOW, DECODE]).splitlines()[:3]]
    assert titles[:4] == ["figure", "baseline", "ratio", "jobs"]
    used = ["1.00", "5.25", "0.50", "0.00", "1,500", "0.10", "0.20", "0.30"]
    assert lines == [
        ["window:", "450", "rows", "6.00", "s", "4.00", "s", "plain", "Spark", "1.50", "31", *used],
        [
            *("decode:", "csv", "250,000", "rows/s", "1,000,000", "rows/s", "pyarrow.csv"),
            *("4.00", "-", *used),
        ],
    ]


def test_the_json_has_every_figure_and_its_ratio() -> None:
    document = json.loads(format_json([WINDOW, DECODE]))
    first, second = document["figures"]
    assert (first["ratio"], second["ratio"]) == (1.5, 4.0)
    assert first["usage"]["java"] == 5.25
    assert second["jobs"] is None
    assert first["load"] == "0.10 0.20 0.30"


def test_the_chart_is_a_png(tmp_path: Path) -> None:
    draw_chart([WINDOW, DECODE], tmp_path / "new" / "bench.png")
    assert (tmp_path / "new" / "bench.png").read_bytes().startswith(b"\x89PNG")
