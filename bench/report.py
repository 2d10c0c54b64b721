"""The figures of all benchmarks as one table, as JSON and as a chart."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.figure import Figure
from bench.processes import ROLES

_TITLES = ["figure", "", "baseline", "", "ratio", "jobs", *(f"{r} s" for r in ROLES), "MB", "load"]
# Of texts; all other columns are numbers.
_LEFT = frozenset((0, 3, len(_TITLES) - 1))


def format_table(figures: Sequence[Figure]) -> str:
    """Format figures as a table with one line each."""
    rows = [_TITLES, *map(_list_cells, figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_TITLES))]
    lines = [
        "  ".join(
            cell.ljust(width) if i in _LEFT else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(
        [
            *lines,
            "",
            "ratio: how many times as long as the baseline the same work takes",
            "jobs: Spark jobs; - if no Spark worked, or one in another process",
            f"{', '.join(f'{role} s' for role in ROLES)}: CPU seconds of the Python process that"
            " drives the work, of Java, of Spark's Python workers and of a Spark Connect server",
            "MB: the sum of the processes' peak memory; load: the load averages at the end",
        ]
    )


def _list_cells(figure: Figure) -> list[str]:
    usage = figure.usage
    return [
        f"{figure.group}: {figure.name}",
        _format_value(figure.value, figure.unit),
        _format_value(figure.baseline, figure.unit),
        figure.baseline_name,
        f"{figure.ratio:.2f}",
        "-" if figure.jobs is None else str(figure.jobs),
        *(f"{getattr(usage, role):.2f}" for role in ROLES),
        f"{usage.memory / 1e6:,.0f}",
        figure.load,
    ]


def _format_value(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if "/" in unit else f"{value:.2f} {unit}"


def format_json(figures: Sequence[Figure]) -> str:
    """Format figures as JSON, with the machine that they were measured on."""
    document: dict[str, Any] = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "figures": [{**asdict(figure), "ratio": figure.ratio} for figure in figures],
    }
    return json.dumps(document, indent=2) + "\n"


def draw_chart(figures: Sequence[Figure], path: Path) -> None:
    """Draw the ratios as bars on a logarithmic scale, one per figure."""
    # It takes a second to import, and benchmarks measure their process.
    from matplotlib.figure import Figure as Canvas

    shown = list(reversed(figures))
    groups = list(dict.fromkeys(figure.group for figure in figures))
    canvas = Canvas(figsize=(11, 1.2 + 0.3 * len(shown)), layout="constrained")
    axes = canvas.subplots()
    labels = [f"{f.group}: {f.name}, {f.unit}, against {f.baseline_name}" for f in shown]
    # Figures of different baselines share a name, so bars are placed by number.
    bars = axes.barh(
        range(len(shown)),
        # From 1, the baseline, to the ratio.
        [figure.ratio - 1 for figure in shown],
        left=1,
        color=[f"C{groups.index(figure.group)}" for figure in shown],
    )
    axes.bar_label(bars, [f"{figure.ratio:.2f}" for figure in shown], padding=3)
    axes.set_yticks(range(len(shown)), labels)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.15, y=0.01)
    axes.axvline(1, color="black", linewidth=1)
    # It is wider than the axes, whose labels take half of the chart.
    canvas.supxlabel("time for the same work, as a multiple of the baseline's (less is faster)")
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=80)
