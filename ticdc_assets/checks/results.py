"""What checks found, as Dagster shows it: how many rows, a few of them, and the promise.

Of a row only where it is and what is wrong is shown, never its values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import dagster as dg
import pyspark.sql.types as T
from pandera.config import ValidationDepth, config_context
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ticdc_assets.checks import models
from ticdc_assets.checks.invariants import CheckContext, Found, NotEvaluated, Severity, Violations
from ticdc_assets.lake.columns.expressions import combine_balanced

SAMPLE = 10
_WIDEST = 500
# JavaScript, which the UI is made of, has no greater whole numbers.
_GREATEST = 1 << 53
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Weight(Protocol):
    """How much it matters that a promise is broken."""

    @property
    def severity(self) -> Severity: ...
    @property
    def blocking(self) -> bool: ...


@dataclass(frozen=True)
class _Weight:
    severity: Severity
    blocking: bool


# A table of the lake that is not as agreed; a table that waits, which it does by itself.
CONTRACT = _Weight("ERROR", blocking=True)
_WAITS = _Weight("WARN", blocking=False)


def told(
    check: dg.AssetCheckKey, found: Found | NotEvaluated, weight: Weight, looked_at: str
) -> dg.AssetCheckEvaluation:
    """The result of an invariant, from the rows that break it."""
    metadata: dict[str, Any] = {"ticdc/checked_range": looked_at}
    if isinstance(found, NotEvaluated):
        metadata |= {"ticdc/violations": 0, "ticdc/not_evaluated": found.reason}
        why = f"cannot be told: {found.reason}"
        return _result(check, weight, True, metadata, why)
    rows, count = _sampled(found)
    metadata["ticdc/violations"] = count
    if not count:
        return _result(check, weight, True, metadata)
    metadata["ticdc/sample"] = table(rows, found.columns)
    return _result(check, weight, False, metadata, f"{count:,} found")


def stopped(
    check: dg.AssetCheckKey, found: Found | NotEvaluated, weight: Weight, looked_at: str
) -> dg.AssetCheckEvaluation:
    """The result for a table that may be stopped: why, at which DDL, and how to go on."""
    rows = [] if isinstance(found, NotEvaluated) else found.collect()
    metadata: dict[str, Any] = {"ticdc/checked_range": looked_at, "ticdc/violations": len(rows)}
    if not rows:
        return _result(check, weight, True, metadata)
    row = rows[0].asDict()
    said = {
        "ticdc/status": row["state"],
        "ticdc/correct_up_to": row["since_ts"],
        "ticdc/reason": row["reason"],
        "ticdc/ddl": row["ddl"],
        "ticdc/resume_command": row["go_on"],
        "ticdc/skip_ddl_command": row["without"],
    }
    metadata |= {name: _cell(value, None) for name, value in said.items() if value is not None}
    why = f"{row['state']}: {row['reason']}"
    if row["go_on"]:
        why += f" — to go on, when mended: {row['go_on']}"
    if row["without"]:
        why += f" — or without the statement: {row['without']}"
    waits = row["state"] == "waiting"
    return _result(check, _WAITS if waits else weight, False, metadata, why)


def shaped(
    checks: Mapping[str, dg.AssetCheckKey],
    scene: CheckContext,
    news: Mapping[str, str],
    looked_at: str,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Hold tables of the lake against their models: their columns, and the rows that are new."""
    models_of = {name: models.model(scene.lake.spark, name, scene.feed) for name in checks}
    faults = {name: _faults(scene, name, model) for name, model in models_of.items()}
    wrong = {
        name: scene.read(name).where(news[name]).where(models.broken(models_of[name]))
        for name in checks
        if not faults[name]
    }
    # All in one job; which rows they are is looked up where there are any.
    marked = [frame.select(F.lit(name).alias("name")) for name, frame in wrong.items()]
    broken = set()
    if marked:
        broken = {row[0] for row in combine_balanced(DataFrame.union, marked).distinct().collect()}
    for name, check in checks.items():
        metadata: dict[str, Any] = {"ticdc/checked_range": looked_at}
        if faults[name]:
            errors = [_cell(fault) for fault in faults[name]]
            metadata |= {"ticdc/violations": len(errors), "ticdc/errors": errors}
            said = "the columns are not as they should be"
            yield _result(check, CONTRACT, False, metadata, said)
        elif name not in broken:
            yield _result(check, CONTRACT, True, {**metadata, "ticdc/violations": 0})
        else:
            rows, count = _sampled(wrong[name])
            few = scene.lake.spark.createDataFrame(rows, wrong[name].schema)
            metadata |= {
                "ticdc/violations": count,
                "ticdc/errors": [_cell(e) for e in errors_of(models_of[name].validate(few))],
                "ticdc/sample": table(rows, [c for c in _SHOWN if c in few.columns]),
            }
            yield _result(check, CONTRACT, False, metadata, f"{count:,} found")


def _sampled(found: Found) -> tuple[list[Row], int]:
    """A few of the rows, and how many there are; often the few are all."""
    rows = (found if isinstance(found, Violations) else found.limit(SAMPLE + 1)).collect()
    return rows[:SAMPLE], len(rows) if len(rows) <= SAMPLE else found.count()


def _faults(scene: CheckContext, name: str, model: models.Model) -> list[str]:
    """How a table's columns differ from its model."""
    rows = scene.read(name)
    # A frame without rows, and without columns that may be NULL: then nothing has to be run.
    shape = T.StructType([T.StructField(f.name, f.dataType, False) for f in rows.schema.fields])
    with config_context(validation_depth=ValidationDepth.SCHEMA_ONLY):
        faults = errors_of(model.validate(scene.lake.spark.createDataFrame([], shape)))
    return faults + models.misshapen(scene.lake.spark, rows, name, scene.feed)


# Columns of the lake's tables that tell where a row is.
_SHOWN = (
    *("batch", "seq", "index", "kind", "name", "stage", "role", "path", "topic", "partition"),
    *("offset", "incarnation", "database", "table", "op", "commit_ts", "ordering", "source"),
    *("number", "state", "valid_from", "came_from", "resolved_ts", "error"),
)


def errors_of(validated: Any) -> list[str]:
    """What pandera says of a frame, a line a fault: its own form is nested by kind of fault."""
    said: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]] = validated.pandera.errors
    return [
        f"{fault['column']}: {fault['error'] or fault['check']}"
        for kinds in said.values()
        for faults in kinds.values()
        for fault in faults
    ]


def table(rows: Sequence[Row], columns: Sequence[str]) -> dg.TableMetadataValue:
    """Rows as a table of the UI."""
    records = [dg.TableRecord({name: _cell(row[name]) for name in columns}) for row in rows]
    of_numbers = {
        name for name in columns if all(type(record.data[name]) is int for record in records)
    }
    schema = dg.TableSchema(
        [dg.TableColumn(name, "int" if name in of_numbers else "string") for name in columns]
    )
    return dg.MetadataValue.table(records, schema)


def _cell(value: Any, widest: int | None = _WIDEST) -> str | int | bool:
    """A value as it may be shown: one line, of bounded length, exact."""
    if value is None:
        return ""
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < _GREATEST):
        return value
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    if widest is not None and len(text) > widest:
        text = text[:widest] + "…"
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _result(
    check: dg.AssetCheckKey,
    weight: Weight,
    passed: bool,
    metadata: Mapping[str, Any],
    description: str | None = None,
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        passed=passed,
        asset_key=check.asset_key,
        check_name=check.name,
        severity=dg.AssetCheckSeverity(weight.severity),
        metadata=dict(metadata),
        description=None if description is None else str(_cell(description, 2000)),
        blocking=weight.blocking,
    )
