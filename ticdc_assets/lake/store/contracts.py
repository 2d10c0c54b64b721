"""The contracts: every Delta table of the lake, its columns and where it lies.

One folder a changefeed, inside it one a table:

    LAKE/<changefeed>/raw              what the source holds, as it came
    LAKE/<changefeed>/events           what it means, decoded: rows, DDL, watermarks
    LAKE/<changefeed>/quarantine       what could not be decoded or honoured, and why
    LAKE/<changefeed>/schema_history   every version of every table's schema
    LAKE/<changefeed>/tables           which table lies where, and in which state
    LAKE/<changefeed>/applied          every resolved ts that was applied, and the tables' versions
    LAKE/<changefeed>/current/<incarnation>    the rows of one table, from CREATE to DROP

`checkpoints` (resolved ts per source partition, when it was seen) is a view of `applied`: both are
one commit, since what was seen and what was applied of it belong together.

A batch is what one ingest took in; it numbers the commits of `raw`, and all that came of them.
"""

# `seq` numbers everything taken in, in the order it came; files of one batch in reading order.
RAW_RECORDS = """
    batch bigint, seq bigint,
    topic string, partition int, offset bigint, timestamp timestamp,
    key binary, value binary, headers array<struct<key: string, value: binary>>,
    path string, line bigint, problem string
"""

# Contents are kept of small files only: schema files and `metadata`.
RAW_FILES = """
    batch bigint, seq bigint,
    path string, role string, database string, table string, version bigint, partition_id bigint,
    table_id bigint, date string, dispatcher string, number bigint, checksum bigint,
    size bigint, modified timestamp, content binary, problem string
"""

# One line an event.  `kind` is one of
#   row        a row change: images are JSON text {column: text or null}
#   ddl        `statement` is the whole `events.SchemaChange` as JSON
#   bootstrap  likewise `events.Bootstrap`
#   watermark  `commit_ts` is resolved for this source and partition
#   quarantined  what could not be decoded: `error` is its class, `statement` the reason
#   file       a data file was decoded whole: its path, its size in `number`, its batch and seq
#   batch      everything of this batch has been decoded, or is a data file that waits
# `name` is what tells tables apart (`table_name`).  (`seq`, `index`) is the order of arrival;
# (`source`, `partition`, `number`, `index`) the place: topic, partition, offset and index in the
# record, or path, null, record and null.  `columns` is a JSON list where images were put together
# column by column: they have no others, and need not be looked through for what they have.
EVENTS = """
    batch bigint, seq bigint, index bigint, kind string,
    name string, database string, table string,
    op string, commit_ts bigint, ordering string, before string, after string,
    schema_version bigint, table_id bigint, observed string, columns string,
    key_columns array<string>,
    handle_key_only boolean, member_names boolean,
    checksum struct<version: int, corrupted: boolean, current: bigint, previous: bigint>,
    build_ts bigint, claim_check_digest string,
    source string, partition int, number bigint,
    statement string, error string
"""

# `stage` is where it was refused: decode or apply.  `raw` is the record or line, where it is known.
QUARANTINE = """
    batch bigint, seq bigint, index bigint, stage string,
    database string, table string, commit_ts bigint,
    source string, partition int, number bigint,
    error string, reason string, raw binary
"""

SCHEMA_HISTORY = """
    incarnation string, database string, table string,
    valid_from bigint, valid_to bigint, schema_version bigint,
    origin string, ddl_type string, sql string,
    columns array<struct<
        name: string, mysql_type: string, delta_type: string, nullable: boolean,
        default: string, generated: string, comment: string>>,
    key array<string>, schema string
"""

# `state` is live, paused, waiting or dropped; `stopped_ts` is up to where a paused or waiting table
# was kept.
TABLES = """
    incarnation string, database string, table string, location string,
    status string, reason string, stopped_ts bigint,
    created_ts bigint, dropped_ts bigint, schema_version bigint,
    key array<string>, columns int
"""

# One row per snapshot.  `versions` are the Delta versions of the tables that changed, `counts` what
# became of the pending row events.  Every batch up to `batch` was applied, except files that waited
# to be decoded; up to `decoded_batch` no file waits.  `state` is the JSON of `plan.state.State` and
# only in rows where it changed: `state_snapshot_id` points to the newest such row, whose `versions`
# are complete.  `replayed_from` is the snapshot that a replay started from.
APPLIED = """
    snapshot_id bigint, committed_at timestamp, resolved_ts bigint,
    batch bigint, decoded_batch bigint,
    watermarks map<string, bigint>, versions map<string, bigint>,
    counts array<struct<
        incarnation: string, name: string, read: bigint, applied: bigint, superseded: bigint,
        quarantined: bigint, inexact: bigint>>,
    replayed_from bigint, state_snapshot_id bigint, watermark_state string, state string
"""

CONTRACTS = {
    "events": EVENTS,
    "quarantine": QUARANTINE,
    "schema_history": SCHEMA_HISTORY,
    "tables": TABLES,
    "applied": APPLIED,
}

# Which columns a table's files are laid out by, and have statistics of: images need none.
LAYOUT = {
    "raw": ("batch",),
    "events": ("name", "commit_ts"),
}
STATISTICS = {
    "raw": ("batch", "seq"),
    "events": ("batch", "kind", "name", "commit_ts"),
    "quarantine": ("batch",),
    "applied": ("snapshot_id", "resolved_ts", "batch"),
}

# The one column that current tables have beside the user's own.
COMMIT_TS = "_commit_ts"
