"""The asset specs of a changefeed: what each asset holds, and what it comes from."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from ticdc_assets import naming
from ticdc_assets.assets.markdown import code
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.archive import find_kept_deletes
from ticdc_assets.changefeed.freshness import find_freshness
from ticdc_assets.changefeed.layout import TableLayout
from ticdc_assets.changefeed.table_pattern import match_table
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.checks import check_specs
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import TableSchema
from ticdc_assets.log.catalog import LakeCatalog, LakeTable
from ticdc_assets.naming import FeedNames, layer_asset_key, table_asset_key
from ticdc_assets.plan.layout import Layout, choose_layout
from ticdc_assets.resources.dagster_settings import read_owners
from ticdc_assets.rows.columns import (
    DELETED_TS,
    INEXACT,
    INEXACT_COMMENT,
    DeltaColumn,
    list_delta_columns,
    list_own_columns,
)
from ticdc_assets.safe_text import escape_markdown
from ticdc_assets.store.lake import Lake
from ticdc_assets.stream.limits import describe_limits

STORAGE_KIND = "deltalake"
_KINDS = {"spark", STORAGE_KIND}
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
    naming.RAW: "The input as it came: every record or file of the source, once.",
    naming.EVENTS: "The decoded events, one row per event: row changes, DDLs, watermarks.",
    naming.QUARANTINE: "Input and rows that could not be decoded or applied, each with its"
    " position, the reason and its bytes.",
    naming.CHECKPOINTS: "The applied log: one snapshot per resolved ts, with the Delta version of"
    " every table. Read all tables at these versions to see them at one ts.",
}
_VERSIONS = {
    naming.HISTORY: "Every version of every row of {}, with the time in which it was valid.",
    naming.CHANGES: "Every change of every row of {}, with the row before and after it.",
}
_COLLECTED = {
    naming.SCHEMA_HISTORY: "The schema versions",
    naming.CURRENT: "The rows",
    naming.HISTORY: "Every version of every row",
    naming.CHANGES: "Every change of every row",
}
LAYER_UPSTREAM = {
    naming.RAW: naming.SOURCE,
    naming.EVENTS: naming.RAW,
    naming.QUARANTINE: naming.EVENTS,
    naming.CHECKPOINTS: naming.EVENTS,
}
# What a first start says.
NOT_DECLARED = (
    "No changefeed is declared: declare each as [[changefeed]] in a changefeeds.toml, and name that"
    " file by TICDC_CHANGEFEEDS."
)
# The lake's table of a layer, where its name differs.
_FOLDERS = {naming.CHECKPOINTS: "applied"}


def lake_error_spec(feed: Changefeed, reason: str) -> dg.AssetSpec:
    """Describe the asset that stands for the tables of a lake that could not be read."""
    return dg.AssetSpec(
        dg.AssetKey([feed.id, "unreadable_lake"]),
        description=f"The lake of changefeed `{feed.id}` could not be read: its tables are not"
        f" shown, and its runs fail.\n\n{escape_markdown(reason)}\n\n"
        "Fix this, then reload the code location (Deployment, then Reload).",
        kinds={"error"},
        group_name=naming.layer_group(feed),
        owners=read_owners(),
    )


def no_changefeed_spec() -> dg.AssetSpec:
    """Describe the one asset of a deployment that declares no changefeed yet."""
    return dg.AssetSpec(
        "no_changefeed",
        description=f"{NOT_DECLARED}\n\nThen reload the code location (Deployment, then Reload).",
        owners=read_owners(),
    )


def source_spec(names: FeedNames) -> dg.AssetSpec:
    """Describe the topic or folder that TiCDC writes to; a sensor makes its pages."""
    feed = names.feed
    what = "The topic" if feed.transport != "storage" else "The folder"
    description = f"{what} that changefeed `{feed.id}` writes in {feed.protocol}."
    if limits := describe_limits(feed):
        listed = "\n".join(f"- {escape_markdown(limit)}" for limit in limits)
        description += f"\n\nWhat it does not tell:\n\n{listed}"
    return dg.AssetSpec(
        layer_asset_key(feed, naming.SOURCE),
        deps=[layer_asset_key(feed, naming.UPSTREAM)] if shows_upstream(names) else [],
        description=description,
        kinds=_SOURCE_KINDS[feed.scheme],
        group_name=naming.layer_group(feed),
        owners=read_owners(),
        metadata={
            "ticdc/changefeed": feed.id,
            "ticdc/protocol": feed.protocol,
            # Without its parameters, which may hold credentials.
            "ticdc/location": dg.MetadataValue.text(feed.location),
        },
    )


def shows_upstream(names: FeedNames) -> bool:
    """Return whether the database upstream is declared, and shown."""
    return names.feed.upstream is not None and names.shown.upstream


def upstream_spec(feed: Changefeed, upstream: Upstream) -> dg.AssetSpec:
    """Describe the database upstream."""
    return dg.AssetSpec(
        layer_asset_key(feed, naming.UPSTREAM),
        description=f"The database that changefeed `{feed.id}` replicates. Only `verify` reads it.",
        kinds={"mysql"},
        group_name=naming.layer_group(feed),
        owners=read_owners(),
        metadata={
            "ticdc/changefeed": feed.id,
            "ticdc/location": dg.MetadataValue.text(upstream.address),
        },
    )


def layer_specs(feed: Changefeed, lake: Lake) -> list[dg.AssetSpec]:
    """Describe the layers that hold all tables of a changefeed."""
    return [
        dg.AssetSpec(
            layer_asset_key(feed, layer),
            deps=[layer_asset_key(feed, LAYER_UPSTREAM[layer])],
            description=description,
            kinds=_KINDS,
            group_name=naming.layer_group(feed),
            owners=read_owners(),
            freshness_policy=_freshness(feed) if layer == naming.CHECKPOINTS else None,
            metadata={
                "dagster/uri": lake.path(_FOLDERS.get(layer, layer)),
                "ticdc/changefeed": feed.id,
            },
        )
        for layer, description in _LAYERS.items()
    ]


def table_specs(names: FeedNames, lake: Lake, catalog: LakeCatalog) -> list[dg.AssetSpec]:
    """Describe the assets of every table in the lake, before they are translated."""
    feed = names.feed
    if names.shown.per != "table":
        return collected_specs(names, catalog)
    return [
        spec
        for table in catalog.named().values()
        for spec in (
            _schema_history_spec(feed, lake, table),
            _current_spec(feed, lake, table),
            *_versions_specs(names, lake, table),
        )
    ]


def collected_specs(names: FeedNames, catalog: LakeCatalog) -> list[dg.AssetSpec]:
    """Describe the assets that stand for all tables, or for those of a database."""
    found: dict[dg.AssetKey, dg.AssetSpec] = {}
    feed = names.feed
    for table in catalog.named().values():
        layers = {
            naming.SCHEMA_HISTORY: layer_asset_key(feed, naming.EVENTS),
            naming.CURRENT: _collect(names, naming.SCHEMA_HISTORY, table),
        }
        for layer in list_versions_layers(names, table.database, table.table):
            layers[layer] = _collect(names, naming.CURRENT, table)
        for layer, dep in layers.items():
            key = _collect(names, layer, table)
            what = _COLLECTED[layer]
            of = f" of database {code(table.database)}" if names.shown.per == "database" else ""
            found[key] = dg.AssetSpec(
                key,
                deps=[dep],
                description=f"{what} of all tables{of}.",
                kinds={*_KINDS, "schema" if layer == naming.SCHEMA_HISTORY else "table"},
                group_name=naming.table_group(feed, table.database)
                if names.shown.per == "database"
                else naming.layer_group(feed),
                owners=read_owners(),
                metadata={"dagster/storage_kind": STORAGE_KIND},
            )
    return list(found.values())


def _collect(names: FeedNames, layer: str, table: LakeTable) -> dg.AssetKey:
    return names.collect(table_asset_key(names.feed, layer, table.database, table.table))


def _schema_history_spec(feed: Changefeed, lake: Lake, table: LakeTable) -> dg.AssetSpec:
    return dg.AssetSpec(
        table_asset_key(feed, naming.SCHEMA_HISTORY, table.database, table.table),
        deps=[layer_asset_key(feed, naming.EVENTS)],
        description=f"Every schema version of {code(table.name)}, with the DDL that made it.",
        kinds={*_KINDS, "schema"},
        group_name=naming.table_group(feed, table.database),
        owners=read_owners(),
        metadata=table_metadata(table.name, lake.path("schema_history")),
    )


def _current_spec(feed: Changefeed, lake: Lake, table: LakeTable) -> dg.AssetSpec:
    description = (
        f"The rows that `SELECT *` on TiDB returns for {code(table.name)} at the resolved ts."
    )
    if find_kept_deletes(feed.archives, table.database, table.table):
        description += f" Rows with `{DELETED_TS}` were deleted there, and are kept."
    if table.status in ("paused", "waiting", "partial"):
        reason = escape_markdown(table.reason or "")
        description = f"**{table.status}**: {reason}\n\n{description}"
    return dg.AssetSpec(
        table_asset_key(feed, naming.CURRENT, table.database, table.table),
        deps=[table_asset_key(feed, naming.SCHEMA_HISTORY, table.database, table.table)],
        description=description,
        kinds={*_KINDS, "table"},
        group_name=naming.table_group(feed, table.database),
        owners=read_owners(),
        metadata={
            **table_metadata(table.name, lake.address(table.database, table.table)),
            **columns_metadata(table.schema, feed),
        },
    )


def _versions_specs(names: FeedNames, lake: Lake, table: LakeTable) -> list[dg.AssetSpec]:
    """Describe the history and the changes of a table, where the changefeed declares them."""
    feed = names.feed
    return [
        dg.AssetSpec(
            table_asset_key(feed, layer, table.database, table.table),
            deps=[table_asset_key(feed, naming.CURRENT, table.database, table.table)],
            description=_VERSIONS[layer].format(code(table.name)),
            kinds={*_KINDS, "table"},
            group_name=naming.table_group(feed, table.database),
            owners=read_owners(),
            metadata=table_metadata(table.name, lake.path(f"{layer}/{table.incarnation}")),
        )
        for layer in list_versions_layers(names, table.database, table.table)
    ]


def table_metadata(name: str, uri: str) -> dict[str, Any]:
    """Return where the rows of a table are, as other integrations of Dagster state it."""
    return {
        "dagster/table_name": name,
        "dagster/storage_kind": STORAGE_KIND,
        "dagster/uri": uri,
    }


def list_checks(names: FeedNames, tables: Mapping[str, dg.AssetKey]) -> list[dg.AssetCheckSpec]:
    """List the checks of a changefeed as a project shows them."""
    # Where several share an asset, one of them has all its checks.
    ones = {names.collect(key): (name, key) for name, key in tables.items()}
    found = check_specs(names.feed, dict(ones.values()))
    shown = {names.show_check(spec.key): spec for spec in found}
    return [spec if key == spec.key else spec.replace_key(key) for key, spec in shown.items()]


def list_versions_layers(names: FeedNames, database: str, table: str) -> list[str]:
    """List the layers made of versions that the graph shows of a table."""
    feed = names.feed
    if not names.shown.histories:
        return []
    declared = {naming.HISTORY: feed.history, naming.CHANGES: feed.changes}
    return [layer for layer, patterns in declared.items() if match_table(patterns, database, table)]


def _freshness(feed: Changefeed) -> dg.FreshnessPolicy:
    stated = find_freshness(feed)
    return dg.FreshnessPolicy.time_window(warn_window=stated.warn, fail_window=stated.fail)


def columns_metadata(
    schema: TableSchema | None, feed: Changefeed | None = None, *, has_inexact: bool = False
) -> dict[str, Any]:
    """Return the columns of a current table: Delta types, with MySQL types as descriptions.

    `has_inexact` says that it has the map of values that their columns cannot hold.
    """
    layouts, archives = ((), ()) if feed is None else (feed.layouts, feed.archives)
    if schema is None or (columns := _columns(schema, layouts)) is None:
        return {}
    is_archived = bool(find_kept_deletes(archives, schema.database, schema.table))
    by_name = {column.name: column for column in schema.columns}
    key = set(schema.key)
    table_columns = [
        dg.TableColumn(
            column.name,
            column.type,
            description=column.comment and escape_markdown(column.comment),
            constraints=dg.TableColumnConstraints(
                nullable=by_name[column.column].nullable, unique=key == {column.column}
            ),
        )
        for column in columns
    ]
    own = list_own_columns(Layout(archived=is_archived))
    table_columns += [dg.TableColumn(c.name, c.type, c.comment) for c in own]
    if has_inexact:
        table_columns.append(dg.TableColumn(INEXACT, "map<string,string>", INEXACT_COMMENT))
    return {"dagster/column_schema": dg.TableSchema(table_columns)}


def lineage_metadata(names: FeedNames, schema: TableSchema | None) -> dict[str, Any]:
    """Return the column lineage of a current table.

    A source holds the columns of many tables: there, a column is named with its table.
    """
    if schema is None or (columns := _columns(schema)) is None:
        return {}
    source = names.layer(naming.SOURCE)
    table = f"{schema.database}.{schema.table}"
    deps: Mapping[str, Sequence[dg.TableColumnDep]] = {
        column.name: [dg.TableColumnDep(source, f"{table}.{column.column}")] for column in columns
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(deps)}


def _columns(schema: TableSchema, layouts: Sequence[TableLayout] = ()) -> list[DeltaColumn] | None:
    """Return None for an unknown type: the table is paused, with that as the reason."""
    try:
        return list_delta_columns(schema, choose_layout(layouts, schema))
    except InvalidValue:
        return None
