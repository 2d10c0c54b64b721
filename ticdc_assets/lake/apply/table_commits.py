"""Commit what tasks wrote: one commit per table, which states the ts at which its rows are true."""

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema

from ticdc_assets.events import TableSchema
from ticdc_assets.lake.apply.table_features import (
    COLUMN_MAPPING,
    PLAIN_PROPERTIES,
    list_needed_properties,
)
from ticdc_assets.lake.apply.table_tasks import TableDone
from ticdc_assets.plan.layout import PLAIN, Layout
from ticdc_assets.rows.columns import (
    INEXACT,
    list_comments,
    list_delta_columns,
    make_row_schema,
)
from ticdc_assets.store.commits import write_ts
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.restores import order_columns
from ticdc_assets.store.writer import LakeWriter, is_writable


def takes_spark(done: TableDone, existing: DeltaTable | None, schema: TableSchema) -> bool:
    """Whether only Spark can commit the files of a table, which gets a schema."""
    if done.way == "merge" or (existing is not None and not is_writable(existing)):
        return True
    return COLUMN_MAPPING in list_needed_properties(list_delta_columns(schema, done.layout))


def commit_table(
    location: Lake, done: TableDone, existing: DeltaTable | None, schema: TableSchema, ts: int
) -> int:
    """Commit the files of a table, which has a schema and is true at `ts`; return its version."""
    writer = LakeWriter(location)
    commit = describe_commit(ts)
    if existing is None:
        columns = make_columns(schema, done.layout, with_map=done.has_map)
        name = f"current/{done.id}"
        writer.create_of_files(name, columns, done.files, PLAIN_PROPERTIES, commit)
        return 0
    if done.way == "append":
        if done.has_map and not has_map(existing):
            columns = make_columns(schema, done.layout, with_map=True)
            writer.add_column(existing, columns.field(INEXACT))
        if done.files:
            writer.append_files(existing, done.files, commit)
    else:
        # Also in place of whatever a killed run left.
        with_map = done.has_map or has_map(existing)
        columns = make_columns(schema, done.layout, with_map=with_map)
        _order_columns(location, f"current/{done.id}", existing, columns)
        writer.replace_by_files(existing, columns, done.files, commit)
    return existing.version()


def _order_columns(location: Lake, table: str, opened: DeltaTable, columns: pa.Schema) -> None:
    """Put the columns of an open table into their order, if nothing else of them changes."""
    names = [field.name for field in opened.schema().fields]
    if names != columns.names and opened.schema() == Schema.from_arrow(columns):
        order_columns(location, table, opened.version(), columns.names)
        opened.update_incremental()


def describe_commit(ts: int) -> CommitProperties:
    """Return what a commit says of itself: where Spark's commits have it, too.

    It follows the version that was opened, or fails: a snapshot names the version of a commit, and
    another run that has lost its lock may still be at work.
    """
    stated = {"userMetadata": write_ts(ts)}
    return CommitProperties(custom_metadata=stated, max_commit_retries=0)


def has_map(table: DeltaTable) -> bool:
    """Whether a current table keeps inexact values."""
    return INEXACT in (field.name for field in table.schema().fields)


def make_columns(schema: TableSchema, layout: Layout = PLAIN, *, with_map: bool) -> pa.Schema:
    """Return the columns of a current table with their comments."""
    comments = list_comments(schema)
    fields = [
        field.with_metadata({"comment": comments[field.name]})
        for field in make_row_schema(schema, layout)
        if with_map or field.name != INEXACT
    ]
    return pa.schema(fields)
