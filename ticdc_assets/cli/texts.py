"""The help texts of the commands, and how values are formatted for people."""

import unicodedata
from datetime import UTC, datetime

from ticdc_assets.events.tso import to_datetime
from ticdc_assets.events.tso_text import format_time as format_time

EXIT_CODES = """\
exit codes:
  0  success
  1  finished with problems: each one is a line on standard error
  2  not run: a wrong command line, changefeed declaration or --at, or another run holds the lake;
     or Spark failed half-way, in which case run the command again to continue
  130  interrupted with Ctrl-C: run the command again to continue
"""

AFTER_SPARK = (
    "everything committed so far is kept: run the command again to continue; set"
    " TICDC_SPARK_LOG=error to see Spark's own log"
)

TSO_FORMS = "TSO: a number, or a time such as 2026-03-14T09:26:53Z, now or -10m"

INTERRUPTED = "interrupted; everything committed so far is kept: run the command again to continue"

ALL = """\
Turn the output of TiCDC into a lake of Delta tables that equal the upstream tables (advance), start
them with existing rows (load), inspect it (tables, show, snapshot, events, why, schema, ledger),
make it known to other engines (sql) and to dbt (dbt-sources), compare it with upstream (verify) and
repair it (resume, rebuild, maintain), erase rows of it for good (erase), copy it (backup); check a
deployment before it runs (check), and watch it (status, metrics); or read a small changefeed
without a lake (decode, replay), and convert TSOs (tso).
"""

DEMO_PROTOCOLS = ("csv", "canal-json", "simple", "open-protocol")

DESCRIPTIONS = {
    "decode": """\
Print every event of a changefeed as a JSON line, in the order it was read.

Row changes carry their row images, schema changes their SQL, watermarks their ts.  Input that
cannot be decoded is a line of its own, "event": "quarantined", with its position and the reason;
where that is all, the declared protocol is probably wrong, and the last line says which one fits.
""",
    "replay": """\
Run the reference model over the whole output of a changefeed and print a table as it was in TiDB.

Rows are JSON lines {column: text or null}: texts as MySQL prints them, binary values as lower-case
hexadecimal, TIMESTAMP in UTC.  Virtual generated columns are left out: TiCDC never sends them.
""",
    "setup": """\
Download the jars of Delta, and those that a lake in an object store needs, into the folder that
TICDC_SPARK_JARS names or the one in this Python environment; each is compared with its SHA-256.
Then archive the classes that a Spark session loads (200 MB): sessions start in half the time.
""",
    "tso": """\
Print each TSO with its time, and each time with its TSO.  A time is what it is to TiDB in AS OF
TIMESTAMP: its milliseconds, with a counter of 0.  It is written as 2026-03-14T09:26:53.589Z, with
an offset in place of Z, or as '2026-03-14 09:26:53' in UTC; or it is now, or -10m before now (s, m,
h, d).  Every other command takes the same wherever it takes a TSO.
""",
    "advance": """\
Ingest and decode what the changefeed has written since the last run, and bring every table to the
newest resolved ts.  A run that was killed continues where it stopped: nothing is applied twice.
Where records of a topic are gone that were not read, nothing is read until --accept-gap is given
once: the run goes on without them, and tables that may lack rows because of it become partial.
""",
    "load": """\
Start tables from an export of Dumpling's, or from the database that [changefeed.upstream] declares:
the rows that upstream had at one TSO, then the changes since.  A table that the lake knows already
begins anew at that TSO.  A table that was loaded before is skipped, so run an interrupted load
again.  The next `advance` shows the rows.  Rows that cannot be read are kept in `quarantine`.
""",
    "maintain": """\
Compact small files of the lake's tables, and remove old ones: what no version of the last 7 days
needs, and results of `verify` of more than 90 days ago.  Run it every night.  Every TSO can still
be shown: what is gone is computed from the events of a table, or from its load and the events.
""",
    "erase": """\
Erase a row for good, as a person may demand of whoever has their data: from current tables,
histories, changes, events, the quarantine and raw, with all old files and versions of these tables
at once.  The lake keeps a record without the values, by which the row is left out whenever its
events come again; later changes of it are changes like any other.  In the end, all files are
searched; whatever is left is a line on standard error, and the exit code is 1.  Delete the row
upstream first.  An erasure that was killed is completed by the same command.
""",
    "backup": """\
Copy the changefeed's part of the lake into another folder, in which `advance` continues it, while
runs go on: the next one waits for seconds, until what counts is copied; data files follow.  Given
the folder of an earlier copy, only what is new is copied, and what is gone is removed.  The copy
cannot be read until it is complete: run an interrupted backup again.
""",
    "tables": """\
List the lake's tables, or those that patterns select: row count, the time up to which they are
applied, how long ago that was, and for a stopped table the reason and the command that resumes
it.  A pattern is written as in filter.rules of TiCDC; the last one that matches decides.  With
--paths, list the address of each, which shows what has this name whatever happens to it, and the
Delta table of its incarnation with the Delta version in the newest snapshot, for several tables as
of one moment.
""",
    "sql": """\
Print what an engine needs to read the lake's tables by name, or those that patterns select: a
statement per database and table, for its SQL client.  Tables are read at their addresses, so this
is run once, and again for new tables.  Comments say what to fill in, and warn of what the engine
does not read of each table.  Credentials are never part of it.
""",
    "check": """\
Check every declared changefeed, or the one that --changefeed names, and start nothing: read its
declaration and a little of its source, ask the database upstream for its tables, write into the
lake and remove that again, and find Java and the jars.  One line per finding: ok, warning or
failure, the setting, and what to do.  What gives no answer within 20 seconds is a failure.  Exit
code 1 if there is a failure, in the declaration as well, and 0 if there are warnings only.
""",
    "status": """\
Print how far every declared changefeed has got, or the one that --changefeed names: how far TiCDC
lags behind (checkpoint lag), how far the lake lags behind that (lake lag), both together (lag),
when TiCDC wrote last, how many tables are paused, waiting and partial, what is in the quarantine,
and how the last run ended.  What needs a person comes first.  With --max-lag, the exit code is 1 if
the lag of a changefeed exceeds it, or if nothing can be read or was applied yet.
""",
    "metrics": """\
Serve, to Prometheus, what `status` knows of every declared changefeed, or of the one that
--changefeed names, and besides what stages did, and how many files and bytes the lake has; until
you stop it with Ctrl-C.  With --textfile, write that to a file once, for the textfile collector of
the node exporter.  It needs no Java, and only reads.
""",
    "show": """\
Print the rows of a table, or write all tables, as they were in TiDB at any applied TSO.  Formats:
aligned columns, and CSV, in which NULL is an empty field and an empty text is "", in the order of
the key; JSON lines and files exactly as `replay` writes them, in the order of their bytes.  Very
large tables start Spark.
""",
    "snapshot": """\
Write every table, as it was in TiDB at any applied TSO, into a new folder: as Delta tables or as
Parquet, typed, in one state of all tables, which no later run changes.  DIR/tables.json lists which
table is in which folder.  After an interruption, run it again.
""",
    "dbt-sources": """\
Print the lake's tables, or those that patterns select, as the properties of dbt sources in YAML:
columns with descriptions, tests of keys and NOT NULL, freshness by the resolved ts, the key of the
asset in Dagster, and where dbt-duckdb finds the rows.  Run it again after a DDL.
""",
    "events": """\
Print the events of a table under this name, in order of commit ts: row changes and DDLs.  Values
are printed as `show` does; as JSON lines, events are what `decode` prints.
""",
    "why": """\
Print every event of a row, also of one that is gone, under every name that its table had: commit
ts, operation, schema version, position in the source, old and new values, whether the checksum that
TiCDC stated fits, and whether it is a repetition, waiting or quarantined; the loads of the table
with the row that each had; and the DDLs since.  A row is named by the values of its key, or of any
other columns.
""",
    "schema": """\
Print every version of a table's schema: since when it is valid, by which DDL, and what it changed.
""",
    "quarantine": """\
List why input could not be decoded, and rows could not be applied or loaded: each reason with its
table, the position of the first input, and how many more there are.  What no table lacks any more
comes last: it was used all the same, or its table has since been dropped, truncated or loaded, or
verify found it equal.  The Delta table quarantine of the changefeed has every one of them, with its
bytes.
""",
    "ledger": """\
Account for every input.  Every row event in the lake was applied, superseded by a later one, a
repetition, waiting or quarantined; every file and record was decoded or is waiting.  Exit code 1 if
the ledger does not balance.
""",
    "verify": """\
Compare the rows of current tables with the database that [changefeed.upstream] declares, at the ts
up to which they are applied: sums of hashes per range of keys, narrowed down to the rows that
differ.  It only reads upstream.  Run it again after an interruption: it goes on.  The lake's tables
verifications and differences have the results.  Exit code 1 if a table differs or was skipped.

With --against, the tables are compared with a copy that another pipeline has filled: folders of
Delta, Parquet or Iceberg tables, a DuckDB file, or a database.  The lake is read as of --at.
With --upstream, the copy is compared with TiDB as of --at instead, without a row of the lake.
""",
    "resume": """\
Resume a paused table where it stopped, after you have declared its keys or installed a newer
version of this software.  With --skip-ddl, the DDL at which it stopped is skipped; the lake records
that.  With --rebuild, the table is rebuilt from its first event.
""",
    "rebuild": """\
Rebuild tables from all their events: those named, or with --all every table.  Other tables do not
change, except those they exchanged rows with.  Readers see the former rows until the rebuilt ones
are there.  With --from-raw, their records or files are decoded again first, as the declaration is
now, together with all that is quarantined; after an interruption, run it again.
""",
    "simulate": """\
Simulate a shop in real time and write its changefeed into a folder, with a checkpoint every few
seconds, until you stop it with Ctrl-C.  With --upstream, the shop works on a TiDB, in a database
`shop` of its own; TICDC_DEMO_PASSWORD has the password, if there is one.
""",
    "dev": """\
Simulate a shop in real time and start Dagster beside it: its sensor advances a new lake to every
checkpoint, and you watch that in the UI.  All runs share a Spark server.  Ctrl-C stops everything.
With --upstream tidb, a TiDB is started, too, on which the shop works: `verify` compares the lake
with it.
""",
    "spark-server": """\
Keep a warm Spark server running on this machine, and start it again whenever it ends.  Runs whose
TICDC_SPARK_SERVER names its folder use it; while none runs, they start sessions of their own.
""",
    "demo": """\
Simulate a shop and its changefeed in a new folder, advance a lake in several runs, and compare
every table with the shop.  With --upstream, the shop works on a TiDB, in a database `shop` of its
own; TICDC_DEMO_PASSWORD has the password, if there is one.
""",
}


def format_ts(ts: int) -> str:
    """Format a TSO with its time."""
    return f"{ts}  {format_time(ts)}"


def format_value(value: str | None) -> str:
    """Format a value of a row."""
    return "NULL" if value is None else value


def format_change(name: str, before: str | None, after: str | None) -> str:
    """Format what a column had, and what it has."""
    return f"{name}: {format_value(before)} → {format_value(after)}"


def measure_age(ts: int, now: datetime | None = None) -> float:
    """Return how many seconds ago a TSO was; 0 for one to come."""
    try:
        return max(((now or datetime.now(UTC)) - to_datetime(ts)).total_seconds(), 0.0)
    except OverflowError:
        return 0.0


def format_size(count: int) -> str:
    """Format a number of bytes."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count} bytes"


def format_count(number: int, singular: str, plural: str | None = None) -> str:
    """Format a number with its noun in the singular or plural."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def align_columns(rows: list[list[str]], numeric: frozenset[int] = frozenset()) -> list[str]:
    """Align rows in columns, the columns in `numeric` to the right."""
    widths = [max(map(_width, column), default=0) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for place, (text, width) in enumerate(zip(row, widths, strict=True)):
            padding = " " * (width - _width(text))
            cells.append(padding + text if place in numeric else text + padding)
        lines.append("  ".join(cells).rstrip())
    return lines


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))
