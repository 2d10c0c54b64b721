"""What a run elsewhere and its Dagster project tell each other, as JSON."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import dagster as dg

# The name of what the project passes on, and of the messages that Pipes has no form for.
EXTRA = "ticdc"

_TYPES: Mapping[type[Any], str] = {
    dg.TextMetadataValue: "text",
    dg.UrlMetadataValue: "url",
    dg.PathMetadataValue: "path",
    dg.JsonMetadataValue: "json",
    dg.MarkdownMetadataValue: "md",
    dg.FloatMetadataValue: "float",
    dg.IntMetadataValue: "int",
    dg.BoolMetadataValue: "bool",
    dg.DagsterRunMetadataValue: "dagster_run",
    dg.TimestampMetadataValue: "timestamp",
}


def write_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Write metadata as Pipes takes them."""
    return {name: _write_value(value) for name, value in metadata.items()}


def _write_value(value: Any) -> dict[str, Any]:
    match value:
        case dg.TableMetadataValue():
            records = [dict(record.data) for record in value.records]
            columns = _write_columns(value.schema)
            return {"type": "table", "raw_value": {"records": records, "schema": columns}}
        case dg.TableSchemaMetadataValue():
            return _write_value(value.schema)
        case dg.TableColumnLineageMetadataValue():
            return _write_value(value.column_lineage)
        case dg.TableSchema():
            return {"type": "table_schema", "raw_value": {"columns": _write_columns(value)}}
        case dg.TableColumnLineage():
            deps = {
                column: [
                    {"asset_key": list(dep.asset_key.path), "column_name": dep.column_name}
                    for dep in its
                ]
                for column, its in value.deps_by_column.items()
            }
            return {"type": "table_column_lineage", "raw_value": {"deps_by_column": deps}}
    kind = _TYPES.get(type(value))
    if kind is None:
        return {"type": "__infer__", "raw_value": value}
    return {"type": kind, "raw_value": value.value}


def _write_columns(schema: dg.TableSchema) -> list[dict[str, Any]]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "description": column.description,
            "constraints": {
                "nullable": column.constraints.nullable,
                "unique": column.constraints.unique,
                "other": list(column.constraints.other or ()),
            },
        }
        for column in schema.columns
    ]


def _read_columns(columns: Iterable[Mapping[str, Any]]) -> dg.TableSchema:
    return dg.TableSchema(
        [
            dg.TableColumn(
                column["name"],
                column["type"],
                column["description"],
                dg.TableColumnConstraints(**column["constraints"]),
            )
            for column in columns
        ]
    )


def _read_table(value: Mapping[str, Any]) -> dg.TableMetadataValue:
    records = [dg.TableRecord(record) for record in value["records"]]
    return dg.MetadataValue.table(records, _read_columns(value["schema"]))


def _read_lineage(value: Mapping[str, Any]) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(dg.AssetKey(dep["asset_key"]), dep["column_name"]) for dep in deps
            ]
            for column, deps in value["deps_by_column"].items()
        }
    )


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "text": dg.MetadataValue.text,
    "url": dg.MetadataValue.url,
    "path": dg.MetadataValue.path,
    "json": dg.MetadataValue.json,
    "md": dg.MetadataValue.md,
    "float": dg.MetadataValue.float,
    "int": dg.MetadataValue.int,
    "bool": dg.MetadataValue.bool,
    "dagster_run": dg.MetadataValue.dagster_run,
    "timestamp": dg.MetadataValue.timestamp,
    "table": _read_table,
    "table_schema": lambda value: _read_columns(value["columns"]),
    "table_column_lineage": _read_lineage,
    "__infer__": lambda value: value,
}


def read_metadata(written: Mapping[str, Any]) -> dict[str, Any]:
    """Read metadata back."""
    return {name: _READERS[value["type"]](value["raw_value"]) for name, value in written.items()}


def write_evaluation(evaluation: dg.AssetCheckEvaluation) -> dict[str, Any]:
    """Write the result of a check."""
    return {
        "asset_key": list(evaluation.asset_key.path),
        "check_name": evaluation.check_name,
        "passed": evaluation.passed,
        "severity": evaluation.severity.value,
        "description": evaluation.description,
        "blocking": evaluation.blocking,
        "metadata": write_metadata(evaluation.metadata),
    }


def read_evaluation(written: Mapping[str, Any]) -> dg.AssetCheckEvaluation:
    """Read the result of a check."""
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(written["asset_key"]),
        check_name=written["check_name"],
        passed=written["passed"],
        severity=dg.AssetCheckSeverity(written["severity"]),
        description=written["description"],
        blocking=written["blocking"],
        metadata=read_metadata(written["metadata"]),
    )
