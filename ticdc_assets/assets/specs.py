"""What the graph says of each asset before anything has run: where it comes from, what it holds."""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import TableSchema
from ticdc_assets.lake.columns.types import DeltaColumn, list_delta_columns
from ticdc_assets.lake.log.catalog import LakeCatalog, LakeTable
from ticdc_assets.lake.store.contracts import COMMIT_TS
from ticdc_assets.lake.store.lake import Lake
from ticdc_assets.naming import layer_asset_key, table_asset_key

OWNERS = "TICDC_OWNERS"
_KINDS = {"spark", "deltalake"}
_SOURCE_KINDS = {
    "kafka": {"kafka"},
    "dump": {"kafka", "file"},
    "file": {"file"},
    "nfs": {"file"},
    "s3": {"s3"},
    "gcs": {"gcs"},
    "azure": {"azure"},
}
_LAYERS = {
    naming.RAW: "What the source holds, as it came: every record or file, none twice.",
    naming.EVENTS: "What it means, decoded: row changes, DDL, watermarks, one line an event.",
    naming.QUARANTINE: "What could not be decoded or applied: its position, the reason, its bytes.",
    naming.CHECKPOINTS: "Every resolved ts that was applied, with the Delta version of every table"
    " at it: all tables at one ts are a time travel away.",
}
_UPSTREAM = {
    naming.RAW: naming.SOURCE,
    naming.EVENTS: naming.RAW,
    naming.QUARANTINE: naming.EVENTS,
    naming.CHECKPOINTS: naming.EVENTS,
}
# Where in the lake a layer lies, where that is not its name.
_FOLDERS = {naming.CHECKPOINTS: "applied"}


def owners() -> list[str]:
    """Whose the assets are: e-mail addresses, or teams as `team:data`."""
    stated = os.environ.get(OWNERS) or "team:data"
    return [owner.strip() for owner in stated.split(",") if owner.strip()]


def nothing_spec(reason: str) -> dg.AssetSpec:
    """Stands in the graph's place where it could not be loaded."""
    return dg.AssetSpec(
        "no_changefeed",
        description=f"No asset was loaded.\n\n{escaped(reason)}\n\n"
        "Mend it, then reload the code location (Deployment, then Reload).",
        kinds={"error"},
        owners=owners(),
    )


def source_spec(feed: Changefeed) -> dg.AssetSpec:
    """Where TiCDC writes to: nothing here makes it, a sensor observes it."""
    what = "The topic" if feed.transport != "storage" else "The folder"
    return dg.AssetSpec(
        layer_asset_key(feed, naming.SOURCE),
        description=f"{what} that changefeed `{feed.id}` writes, as {feed.protocol}.",
        kinds=_SOURCE_KINDS[feed.scheme],
        group_name=naming.group(feed),
        owners=owners(),
        metadata={
            "ticdc/changefeed": feed.id,
            "ticdc/protocol": feed.protocol,
            # Without parameters, which may be credentials.
            "ticdc/location": dg.MetadataValue.text(feed.location),
        },
    )


def layer_specs(feed: Changefeed, lake: Lake) -> list[dg.AssetSpec]:
    """The layers that a changefeed has once."""
    return [
        dg.AssetSpec(
            layer_asset_key(feed, layer),
            deps=[layer_asset_key(feed, _UPSTREAM[layer])],
            description=description,
            kinds=_KINDS,
            group_name=naming.group(feed),
            owners=owners(),
            freshness_policy=_freshness(feed) if layer == naming.CHECKPOINTS else None,
            metadata={
                "dagster/uri": lake.path(_FOLDERS.get(layer, layer)),
                "ticdc/changefeed": feed.id,
            },
        )
        for layer, description in _LAYERS.items()
    ]


def table_specs(feed: Changefeed, lake: Lake, catalog: LakeCatalog) -> list[dg.AssetSpec]:
    """The two assets of every table that the lake knows."""
    return [
        spec
        for (database, table), line in catalog.named().items()
        for spec in (
            _history_spec(feed, lake, database, table),
            _current_spec(feed, lake, database, table, line),
        )
    ]


def _history_spec(feed: Changefeed, lake: Lake, database: str, table: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        table_asset_key(feed, naming.HISTORY, database, table),
        deps=[layer_asset_key(feed, naming.EVENTS)],
        description=f"Every version of the schema of {code(f'{database}.{table}')}.",
        kinds={*_KINDS, "schema"},
        group_name=naming.group(feed),
        owners=owners(),
        metadata={
            "dagster/table_name": f"{database}.{table}",
            "dagster/uri": lake.path("schema_history"),
        },
    )


def _current_spec(
    feed: Changefeed, lake: Lake, database: str, table: str, line: LakeTable
) -> dg.AssetSpec:
    name = f"{database}.{table}"
    said = f"The rows of {code(name)} as `SELECT *` on TiDB returned them at the resolved ts."
    if line.state in ("paused", "waiting"):
        said += f"\n\n**{line.state}**: {escaped(line.reason or '')}"
    return dg.AssetSpec(
        table_asset_key(feed, naming.CURRENT, database, table),
        deps=[
            layer_asset_key(feed, naming.EVENTS),
            table_asset_key(feed, naming.HISTORY, database, table),
        ],
        description=said,
        kinds={*_KINDS, "table"},
        group_name=naming.group(feed),
        owners=owners(),
        metadata={
            "dagster/table_name": name,
            "dagster/uri": lake.current_path(line.incarnation),
            **columns_metadata(line.schema),
        },
    )


def _freshness(feed: Changefeed) -> dg.FreshnessPolicy:
    """How old the newest resolved ts may be, by how often TiCDC states one.

    Tables have none of their own: one that nobody changes is right, however long ago that was.
    """
    often = max(feed.flush_interval, 60.0)
    return dg.FreshnessPolicy.time_window(
        warn_window=timedelta(seconds=10 * often), fail_window=timedelta(seconds=60 * often)
    )


def columns_metadata(schema: TableSchema | None) -> dict[str, Any]:
    """The columns of a current table: Delta's type as the type, MySQL's in the description."""
    if schema is None or (columns := _columns(schema)) is None:
        return {}
    stated = {column.name: column for column in schema.columns}
    key = set(schema.key)
    shown = [
        dg.TableColumn(
            column.name,
            column.type,
            description=column.comment,
            constraints=dg.TableColumnConstraints(
                nullable=stated[column.column].nullable, unique=key == {column.column}
            ),
        )
        for column in columns
    ]
    shown.append(dg.TableColumn(COMMIT_TS, "bigint", "commit ts of the last change of this row"))
    return {"dagster/column_schema": dg.TableSchema(shown)}


def lineage_metadata(feed: Changefeed, schema: TableSchema | None) -> dict[str, Any]:
    """Where each column of a current table comes from.

    A source has the columns of many tables: there, a column's name has its table in front.
    """
    if schema is None or (columns := _columns(schema)) is None:
        return {}
    source = layer_asset_key(feed, naming.SOURCE)
    table = f"{schema.database}.{schema.table}"
    deps: Mapping[str, Sequence[dg.TableColumnDep]] = {
        column.name: [dg.TableColumnDep(source, f"{table}.{column.column}")] for column in columns
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(deps)}


def _columns(schema: TableSchema) -> list[DeltaColumn] | None:
    """None where a type is known to nobody: the table is paused for it, and says so."""
    try:
        return list_delta_columns(schema)
    except InvalidValue:
        return None


_MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]()#+-.!|<>~&$:"})


def escaped(text: str) -> str:
    """A text that Markdown shows as it is, on one line."""
    return " ".join(text.split()).translate(_MARKUP)


def code(text: str) -> str:
    """A text as Markdown's code, whatever is in it, on one line."""
    line = " ".join(text.split())
    return f"`{line}`" if line and "`" not in line else f"`` {line} ``" if line else "(empty)"


def code_block(texts: Iterable[str], language: str = "sql") -> str:
    """Texts in a block of code that nothing in them ends."""
    body = "\n".join(texts)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}{language}\n{body}\n{fence}"
