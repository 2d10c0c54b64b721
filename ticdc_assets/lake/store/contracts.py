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

import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

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
#   rejected   what could not be decoded: `error` is its class, `statement` the reason
#   file       a data file was decoded whole: its path, its size in `number`, its batch and seq
#   batch      everything of this batch has been decoded, or is a data file that waits
# `name` is what tells tables apart (`table_name`).  (`seq`, `index`) is the order of arrival;
# (`source`, `partition`, `number`, `index`) the place: topic, partition, offset and index in the
# record, or path, null, record and null.  `columns` is a JSON list where images were put together
# column by column: they have no others, and need not be looked through for what they have.
EVENTS = """
    batch bigint, seq bigint, index bigint, kind string,
    name string, database string, table string,
    op string, commit_ts bigint, ts_kind string, before string, after string,
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
    came_from string, ddl_type string, sql string,
    columns array<struct<
        name: string, mysql_type: string, delta_type: string, nullable: boolean,
        default: string, generated: string, comment: string>>,
    key array<string>, schema string
"""

# `state` is live, paused, waiting or dropped; `stopped_ts` is up to where a paused or waiting table
# was kept.
TABLES = """
    incarnation string, database string, table string, location string,
    state string, reason string, stopped_ts bigint,
    created_ts bigint, dropped_ts bigint, schema_version bigint,
    key array<string>, columns int
"""

# `versions` holds the Delta versions of the tables that changed, `counts` what became of the row
# events that were due, `state` all that is known beside the rows (`plan.state`) where that changed:
# `state_seq` names the line that has it, and the versions of all tables.  `replays` is the seq from
# which tables were replayed, where this line is such a replay.
APPLIED = """
    seq bigint, at timestamp, resolved_ts bigint, batch bigint, decoded bigint,
    watermarks map<string, bigint>, versions map<string, bigint>,
    counts array<struct<
        incarnation: string, name: string, read: bigint, applied: bigint, superseded: bigint,
        quarantined: bigint, inexact: bigint>>,
    replays bigint, state_seq bigint, heard string, state string
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
    "applied": ("seq", "resolved_ts", "batch"),
}

# The one column that current tables have beside the user's own.
COMMIT_TS = "_commit_ts"

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def quoted(name: str) -> str:
    """An identifier as SQL has it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def table_at(path: str) -> str:
    """The Delta table at a path, as SQL names it."""
    return f"delta.{quoted(path)}"


def literal(text: str) -> str:
    """A text as an SQL literal, whatever is in it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@dataclass(frozen=True)
class Lake:
    """The part of a lake that belongs to one changefeed."""

    root: str
    changefeed: str

    def path(self, table: str) -> str:
        folder = _UNSAFE.sub("_", self.changefeed)
        if folder != self.changefeed:
            # Two changefeeds never share a folder.
            folder += "-" + hashlib.sha256(self.changefeed.encode()).hexdigest()[:8]
        return f"{self.root.rstrip('/')}/{folder}/{table}"

    def current(self, incarnation: str) -> str:
        return self.path(f"current/{incarnation}")

    def sql(self, table: str) -> str:
        """A table as SQL names it."""
        return table_at(self.path(table))

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        return spark.read.format("delta").load(self.path(table))


def exists(spark: SparkSession, lake: Lake) -> bool:
    """Whether the changefeed has its part of the lake: the last table that is made is there."""
    try:
        lake.read(spark, "applied").schema  # noqa: B018
    except AnalysisException:
        return False
    return True


def create(spark: SparkSession, lake: Lake, *, of_records: bool) -> None:
    """Make the lake's own tables where they are not there yet."""
    if exists(spark, lake):
        return
    contracts = {"raw": RAW_RECORDS if of_records else RAW_FILES, **CONTRACTS}

    def make(name: str) -> None:
        properties = {"delta.checkpointInterval": "20"}
        if name in STATISTICS:
            properties["delta.dataSkippingStatsColumns"] = ",".join(STATISTICS[name])
        create_table(spark, lake.path(name), contracts[name], LAYOUT.get(name, ()), properties)

    # The last one says that all are there.
    *first, last = contracts
    with ThreadPoolExecutor() as pool:
        list(pool.map(make, first))
    make(last)


def create_table(
    spark: SparkSession,
    path: str,
    columns: str,
    layout: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    """Make the Delta table at a path, clustered by the columns of its layout; one there stays."""
    clustered = f"CLUSTER BY ({', '.join(map(quoted, layout))})" if layout else ""
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    table = table_at(path)
    try:
        spark.sql(
            f"CREATE TABLE {table} ({columns}) USING delta {clustered} TBLPROPERTIES ({listed})"
        )
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_ALREADY_EXISTS":
            raise
        # It is there, or SQL takes for it what a run has left that was killed before its commit: a
        # folder for a log, and nothing in it.  That can be written to, but not be made in SQL.
        empty = spark.createDataFrame([], columns)
        empty.write.format("delta").mode("ignore").options(**properties).save(path)
        if clustered:
            spark.sql(f"ALTER TABLE {table} {clustered}")
