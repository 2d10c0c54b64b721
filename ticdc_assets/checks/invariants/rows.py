"""What the protocols promise of every row event: images, handle key, schema and checksum."""

from ticdc_assets.checks.invariants.context import CheckContext
from ticdc_assets.checks.invariants.invariant import Result, promise
from ticdc_assets.checks.invariants.queries import KnownRows
from ticdc_assets.checks.invariants.row_faults import Fault, list_faults
from ticdc_assets.events import TableSchema
from ticdc_assets.store.event_rows import make_table_name, read_statements
from ticdc_assets.stream.rules import make_rules

# Identify a row event without showing its values.
ROW_COLUMNS = ("database", "table", "commit_ts", "op", "position")
_UNKNOWN = ("name", "schema_version", "rows", "first_commit_ts", "position")
# A schema version of a table, which is named as in `events`.
_Version = tuple[str | None, int]


@promise("events", "ERROR", blocking=True)
def inserts_have_no_old_value(context: CheckContext) -> Result:
    """An insert has the new row and no old one."""
    return _find_faulty_rows(context, "faulty_insert", "has_old", "has_new")


@promise("events", "ERROR", blocking=True)
def deletes_have_no_new_value(context: CheckContext) -> Result:
    """A delete has the old row, or at least its handle key, and no new one."""
    return _find_faulty_rows(context, "faulty_delete", "has_old", "has_new")


@promise("events", "ERROR", blocking=True)
def updates_have_both_values(context: CheckContext) -> Result:
    """An update has the new row, and the old one as the changefeed is configured to send it.

    CSV sends the old row only with `output-old-value`.  Other protocols leave unchanged columns out
    of it only with `only-output-updated-columns` or `content-compatible`.  In Open Protocol, an
    update without an old row is an upsert.
    """
    return _find_faulty_rows(context, "faulty_update", "has_old", "has_new", "column_counts_differ")


@promise("events", "ERROR")
def handle_keys_are_present(context: CheckContext) -> Result:
    """Every row has a value in every column of its table's handle key.

    The handle key is the primary key, or else the shortest unique key over NOT NULL columns; no
    setting and no large message leaves it out.  A row without it is quarantined, not applied.
    """
    return _find_faulty_rows(context, "faulty_key", "missing_key_columns")


@promise("events", "WARN", applies_to=lambda feed: make_rules(feed).has_checksums)
def rows_are_not_marked_corrupted(context: CheckContext) -> Result:
    """TiCDC found that every row has the checksum that TiDB stored with it.

    With `corruption-handle-level = "warn"`, TiCDC marks a row that has another one and sends it all
    the same.  It is applied, but its checksum can no longer be verified.  Compare such a row with
    upstream; TiCDC also marks rows that are intact, if a JSON value of theirs has a date.
    """
    return _find_faulty_rows(context, "is_corrupted")


def _find_faulty_rows(context: CheckContext, fault: Fault, *shown: str) -> Result:
    """Return the pending rows with a fault; scans only where the counts show one."""
    columns = (*ROW_COLUMNS, *shown)
    if not any(row[fault] for row in context.pending_counts):
        return KnownRows(columns)
    chosen = ", ".join(f"e.{name}" for name in columns)
    condition = list_faults(context.feed)[fault]
    return context.query_events(
        f"SELECT {chosen} FROM {{events}} e WHERE is_pending AND ({condition})"
    )


@promise("events", "ERROR", blocking=True)
def row_events_are_stored_once(context: CheckContext) -> Result:
    """Every row event of a record or file is in `events` once, even if runs were killed."""
    return context.query_events(
        "SELECT batch, min(position) AS position, count(*) AS times FROM {events} e"
        " WHERE kind = 'row' GROUP BY batch, seq, e.index, source HAVING count(*) > 1"
    )


@promise("events", "WARN")
def row_schemas_are_known(context: CheckContext) -> Result:
    """When a row is resolved, the schema it was written under has been stated.

    Simple states it in a bootstrap or DDL before the first row that needs it, the storage sink in
    the schema file of the table version, Canal-JSON and Open Protocol in every row.  A row without
    its schema waits, and its table with it.
    """
    known = {
        (make_table_name(version["database"], version["table"]), version["schema_version"])
        for version in context.schema_versions
        if version["schema_version"] is not None
    }
    counts = [
        row for row in context.pending_counts if (row["name"], row["schema_version"]) not in known
    ]
    # A schema that was stated for a table that never came to exist is in no table's history.
    stated = _read_stated_schemas(context, {row["schema_version"] for row in counts} - {None})
    unknown = [
        (row["name"], row["schema_version"], row["count"], row["first_commit_ts"], row["position"])
        for row in counts
        if (row["name"], row["schema_version"]) not in stated
        and (row["schema_version"] is not None or not row["has_observed"])
    ]
    return KnownRows(_UNKNOWN, unknown)


def _read_stated_schemas(context: CheckContext, versions: set[int]) -> dict[_Version, TableSchema]:
    """Return the schemas of these versions, of any table, as DDLs and bootstraps stated them."""
    if not versions:
        return {}
    schemas: dict[_Version, TableSchema] = {}
    columns = ("kind", "statement", "schema_version")
    found = context.query(
        "SELECT kind, statement FROM {events} e WHERE kind IN ('ddl', 'bootstrap')"
        f" AND schema_version IN ({', '.join(map(str, sorted(versions)))})",
        events=context.read("events", columns),
    )
    for change in read_statements(row.asDict() for row in found.collect()):
        schema = change.schema
        if schema is not None and schema.version is not None:
            schemas[make_table_name(schema.database, schema.table), schema.version] = schema
    return schemas
