"""Dashboard, alert rules, and the document about them name metrics that the command has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from ticdc_assets.cli.metric_families import METRICS
from ticdc_assets.cli.metrics_options import DEFAULT_LISTEN
from ticdc_assets.plan.state import ShownStatus
from ticdc_assets.store.last_run import RunResult
from ticdc_assets.views.proofs import ProofState
from ticdc_assets.views.status import ChangefeedState

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "monitoring"
METRICS_SECTION = (ROOT / "docs/watching.md").read_text().split("\n## Metrics\n")[1]
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
SCRAPES = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
# The values of labels that are words of the program.
VALUES = {
    "state": get_args(ChangefeedState),
    "status": {*get_args(ShownStatus)[1:], "live", "waiting", "paused"},
    "result": get_args(RunResult),
    "part": ("declarations", "metrics", "source", "lake"),
    "proof": get_args(ProofState),
    "stage": ("ingest", "decode", "apply", "history", "publish", "replay", "load"),
}


def strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for each in content.values() if isinstance(content, dict) else content:
            yield from strings(each)


TEXTS = [*strings(RULES), *strings(DASHBOARD)]


def test_all_metrics_that_they_name_exist() -> None:
    in_rules, in_dashboard = (
        {name for text in strings(each) for name in re.findall(r"\bticdc_\w+", text)}
        for each in (RULES, DASHBOARD)
    )
    assert in_rules <= set(METRICS)
    # A dashboard that leaves one out hides it.
    assert in_dashboard == set(METRICS)


def test_all_labels_that_they_choose_by_exist() -> None:
    chosen = [found for text in TEXTS for found in re.findall(r"(ticdc_\w+)\{([^}]*)\}", text)]
    assert len(chosen) > 20
    for name, matchers in chosen:
        for label, value in re.findall(r'(\w+)\s*[!=]=?~?"([^"]*)"', matchers):
            assert label in METRICS[name].labels, (name, label)
            if not value.startswith("$"):
                assert set(value.split("|")) <= set(VALUES[label]), (name, value)


def test_annotations_and_legends_name_labels_of_what_they_are_about() -> None:
    pairs = [(rule["expr"], text) for rule in RULES for text in strings(rule["annotations"])]
    pairs += [
        (target["expr"], target["legendFormat"])
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]
    for expression, text in pairs:
        about = re.findall(r"ticdc_\w+", expression)
        labels = {label for name in about for label in METRICS[name].labels}
        named = re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text)
        assert set(named) - {"$value"} <= labels, (expression, text)


def test_rules_and_panels_are_complete() -> None:
    for rule in RULES:
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    # Panels do not overlap, and the grid has 24 columns.
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_prometheus_scrapes_where_the_command_listens() -> None:
    [job] = SCRAPES["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["{}:{}".format(*DEFAULT_LISTEN)]}]
    assert SCRAPES["rule_files"] == ["alerts.yml"]
    jobs = {job for text in TEXTS for job in re.findall(r'job="([^"]*)"', text)}
    assert jobs == {job["job_name"]}


def rows(section: str, columns: int) -> list[tuple[str, ...]]:
    lines = re.findall(r"(?m)^\| `.*$", section)
    cells = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]
    return [row for row in cells if len(row) == columns]


def test_the_document_has_all_metrics() -> None:
    table = METRICS_SECTION.split("| label | values |")[0]
    assert rows(table, 4) == [
        (
            f"`{name}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels),
            metric.help,
        )
        for name, metric in METRICS.items()
    ]


def test_the_runbook_has_a_section_for_every_alert() -> None:
    alerts = [rule["alert"] for rule in RULES]
    sections = re.findall(r"(?m)^## (Ticdc\w+)$", RUNBOOK)
    assert sections == alerts
    assert re.findall(r"\[(Ticdc\w+)\]\(#(\w+)\)", RUNBOOK.split("\n## ")[0]) == [
        (name, name.lower()) for name in alerts
    ]
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("name", METRICS)
def test_names_follow_the_conventions(name: str) -> None:
    assert re.fullmatch(r"ticdc_[a-z]+(_[a-z]+)*", name)
    assert name.endswith("_total") == (METRICS[name].kind == "counter")
    assert not re.search(r"_(ms|millis|minutes|kb|mb|info|count|sum|bucket)(_|$)", name)
    # A time is in seconds, and a size in bytes.
    if re.search(r"lag|timestamp|seconds", name):
        assert re.search(r"_seconds(_total)?$", name)
