"""The columns of the lake's own Delta tables, and how their files are laid out.

Each changefeed has a folder in the lake with one folder per table:

    LAKE/<changefeed>/raw                      input as it came
    LAKE/<changefeed>/events                   decoded events: rows, DDLs, schemas, watermarks
    LAKE/<changefeed>/quarantine               input and rows that could not be decoded or applied
    LAKE/<changefeed>/schema_history           every version of every table's schema
    LAKE/<changefeed>/tables                   the catalog: where each table is, and its status
    LAKE/<changefeed>/applied                  the applied log: one snapshot per resolved ts
    LAKE/<changefeed>/loads                    tables that began with rows from elsewhere
    LAKE/<changefeed>/definitions              how upstream defines tables that are older
    LAKE/<changefeed>/folds                    where row events end that are kept no longer
    LAKE/<changefeed>/current/<address>        the rows of the table that has a name now
    LAKE/<changefeed>/current/<address>/<birth>  the rows of one incarnation, from CREATE to DROP
    LAKE/<changefeed>/history/<incarnation>    every version of these rows, where it is switched on
    LAKE/<changefeed>/changes/<incarnation>    every change of these rows, where it is switched on
    LAKE/<changefeed>/erasures                 rows that were erased for good: no value of them
    LAKE/<changefeed>/verifications            what `verify` found: one row per table and run
    LAKE/<changefeed>/differences              the rows that it found to differ
    LAKE/<changefeed>/verification_progress    what a verification that has not ended has done
    LAKE/<changefeed>/copy_progress            the same of a comparison with a copy

`checkpoints`, an asset, is a view of `applied`.

A contract is Spark DDL, one column per line.  `arrow_schema` in `store.arrow` reads the same text.
"""

from ticdc_assets.rows.columns import INEXACT

# `raw` of a topic.  A dump line that is no record, and records that are gone, have `path`, `line`
# and `problem` only.
RAW_RECORDS = """
    batch bigint,          -- the ingest commit
    seq bigint,            -- numbers all input of the changefeed in the order of its arrival
    topic string,
    partition int,
    offset bigint,
    timestamp timestamp,   -- the record's own
    key binary,
    value binary,
    headers array<struct<key: string, value: binary>>,
    path string,           -- the dump file, or `topic-partition` of records that are gone
    line bigint,           -- the line in the dump file, from 1, or the first offset that is gone
    problem string         -- why the line is no record, or which records are gone
"""

# `raw` of a storage sink: one row per new or changed file.
RAW_FILES = """
    batch bigint,          -- the ingest commit
    seq bigint,            -- numbers all files in the order in which they have to be read
    path string,           -- below the sink's prefix
    role string,           -- see `raw.ingest_folder`
    database string,       -- this and the next seven: the parts of the path
    table string,
    version bigint,        -- the table version
    partition_id bigint,
    table_id bigint,
    date string,
    dispatcher string,
    number bigint,         -- the number in the name of a data file
    checksum bigint,       -- the checksum in the name of a schema file, if it has one
    size bigint,           -- in bytes
    modified timestamp,
    content binary,        -- of schema files and `metadata` only
    problem string         -- why the file cannot be read
"""

# One row per event, and one per batch and data file that was decoded.
#
# `kind` is one of
#   row         a row change; if its message was too large, `statement` is `RowChange.upstream`
#   ddl         `statement` is the whole `events.SchemaChange` as JSON
#   bootstrap   `statement` is the whole `events.Bootstrap` as JSON
#   watermark   `source` and `partition` are complete up to `commit_ts`
#   erased      a row change without its values: the row was erased (`lake.events.erased_events`)
#   quarantined input that could not be decoded: `error` is its class, `statement` the reason
#   file        the data file `source` was decoded whole: its size in `number`, its batch and seq
#   batch       the batch was decoded, except data files that wait
EVENTS = """
    batch bigint,          -- the ingest commit that the event came with
    seq bigint,            -- the `seq` of its input
    index bigint,          -- the event's place in its input; (seq, index) is the order of arrival
    kind string,
    name string,           -- identifies the table: its quoted name in lower case (`table_name`)
    database string,
    table string,
    op string,             -- insert, update, delete or upsert
    commit_ts bigint,
    ordering string,       -- how the order of rows is known: commit_ts, table_version, milliseconds
    before string,         -- row images: JSON text {column: text or null}
    after string,
    schema_version bigint,
    table_id bigint,
    observed string,       -- the column types that the row itself states, as JSON
    columns string,        -- a JSON list: all columns of both images, where decoding knows them
    key_columns array<string>,
    handle_key_only boolean,
    member_names boolean,  -- whether ENUM and SET values are names, not numbers
    checksum struct<version: int, corrupted: boolean, current: bigint, previous: bigint>,
    build_ts bigint,
    claim_check_digest string,
    source string,         -- the position: topic, or path below the prefix
    partition int,         -- of the topic; null for files
    number bigint,         -- the offset, or the record in the file
    statement string,
    error string
"""

QUARANTINE = """
    batch bigint,
    seq bigint,
    index bigint,
    stage string,          -- decode, apply or load
    database string,
    table string,
    commit_ts bigint,
    source string,         -- the position, as in `events`
    partition int,
    number bigint,
    error string,          -- the error class
    reason string,
    raw binary             -- the record, where there is one
"""

# One row per version of a table's schema.  DDLs that concern no table have incarnation ''.
SCHEMA_HISTORY = """
    incarnation string,
    database string,
    table string,
    valid_from bigint,     -- the commit ts from which the version is valid
    valid_to bigint,       -- the commit ts that ends it; null for the newest version
    schema_version bigint,
    origin string,         -- ddl, bootstrap or rows: what stated it
    ddl_type string,
    sql string,
    columns array<struct<
        name: string, mysql_type: string, delta_type: string, nullable: boolean,
        default: string, generated: string, comment: string>>,
    key array<string>,
    schema string          -- the whole `events.TableSchema` as JSON
"""

TABLES = """
    incarnation string,
    database string,
    table string,
    location string,       -- below the changefeed's folder
    version bigint,        -- its Delta version in the newest snapshot
    status string,         -- live, partial, waiting, paused or dropped
    reason string,         -- why it is partial, waiting or paused
    stopped_ts bigint,     -- a waiting or paused table has the rows up to this commit ts
    created_ts bigint,
    dropped_ts bigint,
    schema_version bigint,
    key array<string>,
    columns int
"""

# One row per snapshot.
APPLIED = """
    snapshot_id bigint,
    committed_at timestamp,
    resolved_ts bigint,
    batch bigint,          -- batches up to this one were applied, except files that waited
    decoded_batch bigint,  -- no file of a batch up to this one waited to be decoded
    watermarks map<string, bigint>,
    versions map<string, bigint>,  -- Delta versions of the tables that changed
    counts array<struct<
        incarnation: string, name: string, read: bigint, applied: bigint, superseded: bigint,
        quarantined: bigint, inexact: bigint>>,
    replayed_from bigint,  -- the snapshot that a replay started from; null for a window
    state_snapshot_id bigint,  -- the newest row with `state`; its `versions` are complete
    watermark_state string,  -- `stream.resolved_ts.WatermarkState` as JSON
    state string           -- `plan.state.State` as JSON, only in rows that change it
"""

# One row per load of a table (`plan.load.Load`).
LOADS = """
    id bigint,             -- numbers the loads
    ts bigint,             -- the ts at which upstream had the rows
    incarnation string,    -- begins with these rows
    database string,
    table string,
    version bigint,        -- the Delta version of the incarnation's table that has just these rows
    rows bigint,
    quarantined bigint,    -- rows that could not be read
    origin string,         -- the folder of the export, or the upstream database
    loaded_at timestamp,
    schema string          -- the whole `events.TableSchema` as JSON
"""

# One row per definition of a table (`plan.definitions.Definition`).
DEFINITIONS = """
    id bigint,             -- numbers the definitions
    ts bigint,             -- the ts at which upstream defined the table so
    database string,
    table string,
    read_at timestamp,
    schema string          -- the whole `events.TableSchema` as JSON
"""

# What folds have come to (`log.folds`): a fold has up to three rows.
FOLDS = """
    id bigint,             -- numbers the rows
    step string,           -- chosen, folded or removed
    snapshot_id bigint,    -- the snapshot that has the rows at `ts`
    ts bigint,
    stated_at timestamp,
    through_ts bigint,     -- row events up to this commit ts, with batches up to `batch`, are gone
    batch bigint,
    applied_batch bigint,  -- row events of later batches up to `through_ts` are quarantined
    counts array<struct<name: string, rows: bigint, repeated: bigint, superseded: bigint>>
"""

VERIFICATIONS = """
    verification string,   -- the run and the incarnation
    run string,
    verified_at timestamp,
    incarnation string,
    database string,
    table string,
    resolved_ts bigint,    -- both sides are compared as they were at this ts
    verdict string,        -- equal, differs or skipped
    reason string,         -- why it was skipped, or why no row can be compared
    lake_rows bigint,
    upstream_rows bigint,
    different_rows bigint,
    complete boolean,      -- whether `differences` has all of them
    in_flight bigint,      -- rows that differed until the next window
    spans bigint,          -- how many ranges of keys were compared
    rows_summed bigint,    -- rows that upstream read for sums
    rows_sent bigint,      -- rows, or hashes of rows, that upstream sent
    duration_ms bigint,
    left_out array<string>, -- columns that cannot be compared
    against string,        -- the URI of a copy that was compared instead of upstream
    share double,          -- of the keys of a copy that were compared, up to 1
    bytes_read bigint,     -- of the rows that were read of a copy
    compared_with string   -- with what a copy was compared: lake, or upstream (the database)
"""

DIFFERENCES = """
    verification string,
    verified_at timestamp,
    database string,
    table string,
    resolved_ts bigint,
    key string,            -- JSON {column: text or null}; null for a table without a key
    what string,           -- missing (in the lake, or in the copy), extra or differs
    copies bigint,         -- of a row without a key
    columns array<string>, -- the columns that differ
    cause string,          -- the likely one
    lake string,           -- JSON of the columns that differ, where values may be shown
    upstream string        -- those upstream, or in the copy
"""

VERIFICATION_PROGRESS = """
    incarnation string,    -- empty for the run itself
    state string           -- JSON of a structure of `log.verifications` or `log.copy_progress`
"""

# One row per erasure of a row (`log.erasures`): what recognizes its events, and no value.
ERASURES = """
    id bigint,             -- numbers the erasures
    database string,
    table string,
    requested_at timestamp,
    erased_at timestamp,   -- null until everything is done
    through_ts bigint,     -- events of the row up to this commit ts are left out
    batch bigint,          -- and those without a commit ts of batches up to this one
    incarnations array<string>,
    places array<struct<
        name: string, columns: array<string>, after_ts: bigint, through_ts: bigint>>,
    salt string,           -- of all digests of the lake
    digests array<string>, -- of the texts that the columns have in row images
    counts array<struct<layer: string, rows: bigint>>
"""

VERIFICATION_CONTRACTS = {
    "verifications": VERIFICATIONS,
    "differences": DIFFERENCES,
    "verification_progress": VERIFICATION_PROGRESS,
    "copy_progress": VERIFICATION_PROGRESS,
}

# Created when they are needed, and not with the lake.
LATER_CONTRACTS = {
    "definitions": DEFINITIONS,
    "erasures": ERASURES,
    "folds": FOLDS,
    **VERIFICATION_CONTRACTS,
}

CONTRACTS = {
    "events": EVENTS,
    "quarantine": QUARANTINE,
    "schema_history": SCHEMA_HISTORY,
    "tables": TABLES,
    "applied": APPLIED,
    "loads": LOADS,
}

# The columns by which `maintain` clusters a table's files once it is large.
LAYOUT = {
    "raw": ("batch",),
    "events": ("name", "commit_ts"),
}
# The columns with file statistics: none for images, which are long.
STATISTICS = {
    "raw": ("batch", "seq"),
    "events": ("batch", "kind", "name", "commit_ts", "ordering"),
    "quarantine": ("batch",),
    "applied": ("snapshot_id", "resolved_ts", "batch"),
}

# The columns that identify a row event: a sender that repeats it may state another schema version
# or table id.
EVENT_IDENTITY = ("name", "commit_ts", "op", "before", "after")

# The columns that histories have besides the columns of their tables.
VALID_FROM, VALID_TO = "_valid_from", "_valid_to"
VALID_FROM_TIME, VALID_TO_TIME = "_valid_from_time", "_valid_to_time"
OPERATION = "_operation"
HISTORY = {
    VALID_FROM: "bigint",
    VALID_FROM_TIME: "timestamp",
    VALID_TO: "bigint",
    VALID_TO_TIME: "timestamp",
    OPERATION: "string",
    INEXACT: "map<string, string>",
}

# The columns of changes.  An image is a row before or after one, as a struct with the columns that
# the table had at any time, and `_inexact`; so no name of a column clashes with one of these.
IMAGES = BEFORE, AFTER = ("before", "after")
CHANGES = {
    "commit_ts": "bigint",
    "time": "timestamp",
    "operation": "string",
    BEFORE: "struct",
    AFTER: "struct",
    "ddl": "string",
    "source": "string",
    "partition": "int",
    "number": "bigint",
    "index": "bigint",
}
