"""Turn what violates a promise into a check result: a count, a sample, and what to do.

A sample shows a row's position and fault, never its values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import dagster as dg
from pyspark.sql import Row

from ticdc_assets.checks import models
from ticdc_assets.checks.invariants import CheckContext, KnownRows, NotEvaluated, Result, Severity
from ticdc_assets.safe_text import escape_markdown
from ticdc_assets.store.small_tables import read_schema

SAMPLE_ROWS = 10
_CELL_CHARS = 500
_DESCRIPTION_CHARS = 2000
# JavaScript, in which the UI is written, represents no greater integer exactly.
_GREATEST_INTEGER = 1 << 53
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Columns of the lake's tables that identify a row without showing its values.
_IDENTIFYING = (
    *("batch", "seq", "index", "kind", "name", "stage", "role", "path", "topic", "partition"),
    *("offset", "incarnation", "database", "table", "op", "commit_ts", "ordering", "source"),
    *("number", "status", "valid_from", "origin", "resolved_ts", "error"),
)


class Weight(Protocol):
    """How serious a violation is."""

    @property
    def severity(self) -> Severity: ...
    @property
    def blocking(self) -> bool: ...


@dataclass(frozen=True)
class _Weight:
    severity: Severity
    blocking: bool


CONTRACT = _Weight("ERROR", blocking=True)
# A verification runs beside the runs that write, and says something of an older ts.
EQUALITY = _Weight("ERROR", blocking=False)
RECENCY = _Weight("WARN", blocking=False)
# What is wrong may be the copy.
EQUALITY_OF_COPY = _Weight("WARN", blocking=False)
# A waiting table continues without intervention, a partial one never stopped.
_GOES_ON = _Weight("WARN", blocking=False)


def make_evaluation(
    check: dg.AssetCheckKey, result: Result | NotEvaluated, weight: Weight, checked_range: str
) -> dg.AssetCheckEvaluation:
    """Make the check result of an invariant from its violations."""
    metadata: dict[str, Any] = {"ticdc/checked_range": checked_range}
    if isinstance(result, NotEvaluated):
        metadata |= {"ticdc/violations": 0, "ticdc/not_evaluated": result.reason}
        return _evaluation(check, weight, True, metadata, f"not evaluated: {result.reason}")
    rows, count = _sample(result)
    metadata["ticdc/violations"] = count
    if not count:
        return _evaluation(check, weight, True, metadata)
    metadata["ticdc/sample"] = make_table(rows, result.columns)
    return _evaluation(check, weight, False, metadata, _count_violations(count))


def make_status_evaluation(
    check: dg.AssetCheckKey, result: Result | NotEvaluated, weight: Weight, checked_range: str
) -> dg.AssetCheckEvaluation:
    """Make the check result of a table's status: why it is not live, and what resumes it."""
    rows = [] if isinstance(result, NotEvaluated) else result.collect()
    metadata: dict[str, Any] = {
        "ticdc/checked_range": checked_range,
        "ticdc/violations": len(rows),
    }
    if not rows:
        return _evaluation(check, weight, True, metadata)
    row = rows[0].asDict()
    values = {
        "ticdc/status": row["status"],
        "ticdc/correct_up_to": row["stopped_ts"],
        "ticdc/reason": row["reason"],
        "ticdc/ddl": row["ddl"],
        "ticdc/resume_command": row["resume_command"],
        "ticdc/skip_ddl_command": row["skip_ddl_command"],
    }
    metadata |= {
        name: format_cell(value, None) for name, value in values.items() if value is not None
    }
    text = f"{row['status']}: {row['reason']}"
    if row["resume_command"]:
        text += f" — once the cause is fixed, run: {row['resume_command']}"
    if row["skip_ddl_command"]:
        text += f" — or skip the DDL: {row['skip_ddl_command']}"
    goes_on = row["status"] in ("waiting", "partial")
    return _evaluation(check, _GOES_ON if goes_on else weight, False, metadata, text)


class NewRows(NamedTuple):
    """Which rows a range wrote to a table: those above some values, and of these, exactly."""

    above: Mapping[str, int] | None = None
    condition: str = "true"


def evaluate_contracts(
    context: CheckContext, checks: Mapping[str, dg.AssetCheckKey], new_rows: Mapping[str, NewRows]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Compare tables of the lake with their models: their columns, and the values of new rows."""
    for table, check in checks.items():
        metadata: dict[str, Any] = {"ticdc/checked_range": context.description}
        schema = read_schema(context.open(table))
        if faults := models.list_column_faults(schema, table, context.feed):
            errors = [format_cell(fault) for fault in faults]
            metadata |= {"ticdc/violations": len(errors), "ticdc/errors": errors}
            yield _evaluation(check, CONTRACT, False, metadata, "columns differ from the contract")
            continue
        model = models.make_model(table, context.feed)
        identifying = [name for name in _IDENTIFYING if name in schema.names]
        rows, count = _sample(_find_invalid_rows(context, table, model, new_rows[table]))
        metadata["ticdc/violations"] = count
        if not count:
            yield _evaluation(check, CONTRACT, True, metadata)
            continue
        values = [tuple(row.asDict().get(name) for name in schema.names) for row in rows]
        sample = context.lake.spark.createDataFrame(values, schema)
        metadata |= {
            "ticdc/errors": [format_cell(e) for e in list_errors(model.validate(sample))],
            "ticdc/sample": make_table(rows, identifying),
        }
        yield _evaluation(check, CONTRACT, False, metadata, _count_violations(count))


def _find_invalid_rows(
    context: CheckContext, table: str, model: models.Model, new: NewRows
) -> Result:
    """Return the new rows of a table that violate its model: what it checks, and whose they are."""
    checked = models.list_checked_columns(model)
    names = read_schema(context.open(table)).names
    columns = [name for name in names if name in checked or name in _IDENTIFYING]
    needed = dict.fromkeys([*columns, *checked, *(new.above or ())])
    shown = ", ".join(f"r.{name}" for name in columns)
    return context.query(
        f"SELECT {shown} FROM {{rows}} r"
        f" WHERE ({new.condition}) AND ({models.format_violation(model)})",
        rows=context.read(table, list(needed), new.above),
    )


def _count_violations(count: int) -> str:
    return f"{count:,} violation" + ("" if count == 1 else "s")


def _sample(result: Result) -> tuple[list[Row], int]:
    """Return a few of the violations and their count; where the few are all, without counting."""
    limited = result if isinstance(result, KnownRows) else result.limit(SAMPLE_ROWS + 1)
    rows = limited.collect()
    return rows[:SAMPLE_ROWS], len(rows) if len(rows) <= SAMPLE_ROWS else result.count()


def list_errors(validated: Any) -> list[str]:
    """Return pandera's errors, one line per fault; pandera nests them by kind of fault."""
    errors: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]] = validated.pandera.errors
    return [
        f"{fault['column']}: {fault['error'] or fault['check']}"
        for kinds in errors.values()
        for faults in kinds.values()
        for fault in faults
    ]


def make_table(rows: Sequence[Row], columns: Sequence[str]) -> dg.TableMetadataValue:
    """Make a metadata table of rows."""
    records = [dg.TableRecord({name: format_cell(row[name]) for name in columns}) for row in rows]
    integers = {
        name for name in columns if all(type(record.data[name]) is int for record in records)
    }
    schema = dg.TableSchema(
        [dg.TableColumn(name, "int" if name in integers else "string") for name in columns]
    )
    return dg.MetadataValue.table(records, schema)


def format_cell(value: Any, max_chars: int | None = _CELL_CHARS) -> str | int | bool:
    """Return a value that the UI shows exactly, on one line of bounded length."""
    if value is None:
        return ""
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < _GREATEST_INTEGER):
        return value
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    if max_chars is not None and len(text) > max_chars:
        text = text[:max_chars] + "…"
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _evaluation(
    check: dg.AssetCheckKey,
    weight: Weight,
    passed: bool,
    metadata: Mapping[str, Any],
    description: str | None = None,
) -> dg.AssetCheckEvaluation:
    if description is not None:
        description = escape_markdown(str(format_cell(description, _DESCRIPTION_CHARS)))
    return dg.AssetCheckEvaluation(
        passed=passed,
        asset_key=check.asset_key,
        check_name=check.name,
        severity=dg.AssetCheckSeverity(weight.severity),
        metadata=dict(metadata),
        description=description,
        blocking=weight.blocking,
    )
