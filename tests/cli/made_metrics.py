"""Lakes that metrics are collected from, and the samples by name and labels."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tests.cli.test_status import ts
from tests.hostile_names import NAMES
from tests.made_lake import write_snapshot
from ticdc_assets.cli import metrics as command
from ticdc_assets.cli.metric_families import METRICS
from ticdc_assets.cli.source import find_changefeeds
from ticdc_assets.resources.patience import PatientCaller
from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import CONTRACTS
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.writer import LakeWriter

# A surrogate alone is in no Arrow table.
HOSTILE = [name for name in NAMES if name != "\ud800"]
STATUSES = ("live", "paused", "waiting", "partial", "dropped")
Labels = tuple[tuple[str, str], ...]
Samples = dict[tuple[str, Labels], float]


def make_lake(id: str, names: list[str], applied: float = 2) -> Lake:
    """Make a lake with a current table per name: the n-th has n files, and the n-th status."""
    Path(id).mkdir()
    Path(id, "metadata").write_text(json.dumps({"checkpoint-ts": ts(1)}))
    lake = Lake(str(Path("lake").absolute()), id)
    rows = []
    for number, name in enumerate(names):
        row = {"incarnation": f"t{number}", "database": "d", "table": name, "created_ts": 1}
        rows.append(row | {"status": STATUSES[number % len(STATUSES)], "reason": "a *reason*"})
        for _ in range(number + 1):
            write_deltalake(lake.current_path(f"t{number}"), pa.table({"n": [1, 2]}), mode="append")
    unknown = {"database": "d", "table": "u", "schema_version": None}
    state = {"unknown_tables": [{**unknown, "stopped_ts": 1, "stopped_snapshot_id": 1}]}
    versions = {f"t{number}": number for number in range(len(names))}
    write_snapshot(lake, 1, ts(applied), versions, state=json.dumps(state))
    catalog = pa.Table.from_pylist(rows, schema=arrow_schema(CONTRACTS["tables"]))
    write_deltalake(lake.path("tables"), catalog)
    fault = {"batch": 1, "seq": 1, "index": 0, "source": "s", "reason": "r", "error": "Malformed"}
    faults = [{**fault, "stage": stage} for stage in ("decode", "decode", "load")]
    schema = arrow_schema(CONTRACTS["quarantine"])
    LakeWriter(lake).create("quarantine", schema, {})
    write_deltalake(
        lake.path("quarantine"), pa.Table.from_pylist(faults, schema=schema), mode="append"
    )
    return lake


def make_collector(**options: Any) -> command.LakeCollector:
    given = {"changefeeds": None, "changefeed": None, "sink_uri": None, "lake": None} | options
    chosen = argparse.Namespace(**given)
    return command.LakeCollector(chosen, find_changefeeds(chosen), PatientCaller(20.0))


def collect(collector: command.LakeCollector | None = None) -> Samples:
    """Collect samples, which must be those of the table of metrics."""
    found: Samples = {}
    for family in (collector or make_collector()).collect():
        for sample in family.samples:
            definition = METRICS[sample.name]
            assert set(sample.labels) == set(definition.labels)
            assert (family.type, family.documentation) == (definition.kind, definition.help)
            add(found, sample.name, sample.labels, sample.value)
    return found


def add(found: Samples, name: str, labels: Mapping[str, str], value: float) -> None:
    key = name, tuple(sorted(labels.items()))
    assert key not in found
    found[key] = value


def parse(text: str, parser: Any) -> Samples:
    found: Samples = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            add(found, sample.name, sample.labels, sample.value)
    return found


def by(found: Samples, name: str, label: str, changefeed: str) -> dict[str, float]:
    """The values of a metric of a changefeed by one of its labels."""
    chosen = ((dict(labels), value) for (metric, labels), value in found.items() if metric == name)
    return {labels[label]: value for labels, value in chosen if labels["changefeed"] == changefeed}
