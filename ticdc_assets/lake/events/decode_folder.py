"""Decode of a storage-sink folder: what its small files say first, then its data files."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ticdc_assets.events import Bootstrap, SchemaChange
from ticdc_assets.events.written import write_json
from ticdc_assets.lake.events.decode_workers import FILES, FolderReader, decode_files
from ticdc_assets.lake.events.event_commits import DecodeResult, EventCommits
from ticdc_assets.lake.events.quarantine import keep_quarantine
from ticdc_assets.lake.events.schema_files import (
    CsvTables,
    Row,
    SchemasFor,
    Version,
    control_arrivals,
)
from ticdc_assets.lake.store.arrow_text import array
from ticdc_assets.lake.store.contracts import EVENTS
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.plan.row_group import UndecodedFiles

_UNREAD = "{} cannot be read: the schema file of its version is not there, or no answer comes"
# With less than this, one task is quicker than several.
_SMALL = 16 << 20
_MOST_PER_TASK = 64 << 20
_MOST_FILES_PER_TASK = 1000
_FEWEST_TASKS = 8
_COLUMNS = (
    *("batch", "seq", "path", "role", "database", "table", "version", "partition_id"),
    *("table_id", "checksum", "size", "problem"),
)


@dataclass
class _Pending:
    """What is in raw and not decoded."""

    # Batches that no marker is of, with their last seq.
    batches: list[tuple[int, int]] = field(default_factory=list)
    control: list[Row] = field(default_factory=list)
    data: list[Row] = field(default_factory=list)
    # Everything that was decoded before, with another content, which has this seq.
    changed: dict[str, int] = field(default_factory=dict)
    # The newest batch, and whether anything was refused so far.
    newest: int = 0
    refused: bool = False


def decode_folder(
    lake: LakeSession,
    since: int,
    open_folder: Callable[[], FolderReader],
    schemas_for: SchemasFor | None,
    bytes_per_commit: int,
) -> DecodeResult:
    """Decode what files are in `raw` after the batch `since`."""
    commits = EventCommits(lake, since)
    pending = _pending(lake, since)
    folder = open_folder()
    tables = CsvTables(lake.feed, folder)
    run = decode_files(lake.feed, open_folder)
    waiting: list[Row] = []
    sent = taken = 0
    for step in _steps(pending, bytes_per_commit):
        new = {batch for batch, _ in step.batches}
        if not new:
            # What waited goes on waiting until something new has come.
            waiting += step.data
            continue
        control = control_arrivals(step.control)
        fresh = [a.event for a in control if isinstance(a.event, SchemaChange | Bootstrap)]
        ready = []
        for row, schema in _with_schemas(step.data, tables, schemas_for, fresh):
            readable = schema is not _WAITS and _readable(row, folder, late=row["batch"] not in new)
            if readable is None or schema is _WAITS:
                waiting.append(row)
                continue
            if row["batch"] not in new:
                # Who looks for what is new looks for the batches that are.
                row = {**row, "batch": max(new)}
            ready.append((row, schema, readable and row["role"] == "changed data"))
        replaced = [row["path"] for row, _, replaces in ready if replaces]
        replaced += [row["path"] for row in step.control if row["role"] == "changed schema"]
        size = sum(row["size"] for row, _, _ in ready)
        done = commits.commit(
            _read(lake.spark, ready, size).mapInArrow(run, EVENTS) if ready else None,
            control,
            step.batches,
            replaced=replaced,
            small=size < _SMALL,
        )
        if not done:
            # Another run is at it: what it has done is for the next one to see.
            return DecodeResult(0, 0, 0, _said(waiting, tables), 0, since, since)
        sent, taken = sent + len(ready), taken + size
    counts = commits.counts()
    if counts.files < sent:
        # Some could not be read after all.
        waiting = _pending(lake, since).data
    if pending.refused or pending.changed or counts.quarantined:
        keep_quarantine(lake, since, pending.changed, of_records=False)
    through = min(row["batch"] for row in waiting) - 1 if waiting else pending.newest
    return DecodeResult(
        counts.rows,
        counts.ddls,
        counts.quarantined,
        _said(waiting, tables),
        taken,
        max(since, through),
        max(since, pending.newest),
    )


def _said(waiting: Sequence[Row], tables: CsvTables) -> tuple[UndecodedFiles, ...]:
    """Whose files wait; of one that cannot be read and whose path does not name its table, not."""
    files = []
    for row in waiting:
        names = row["database"], row["table"]
        try:
            found = tables.version(row)
        except OSError:
            found = None
        if found is not None:
            names = found[:2]
        if all(names):
            files.append(UndecodedFiles(*names, row["version"] or 0, _UNREAD.format(row["path"])))
    return tuple(files)


def _pending(lake: LakeSession, since: int) -> _Pending:
    events = lake.read("events")
    marks = events.where(f"batch > {since} AND kind IN ('batch', 'file', 'quarantined')")
    # Of what was refused only that there is any.
    told = ("batch", "seq", "source")
    seen = marks.selectExpr("kind", *(f"if(kind <> 'quarantined', {c}, null) AS {c}" for c in told))
    rows = seen.distinct().toArrow().to_pylist()
    batches = {row["batch"] for row in rows if row["kind"] == "batch"}
    files = {(row["source"], row["seq"]) for row in rows if row["kind"] == "file"}
    # Contents of what is done are not looked at again.
    content = "content"
    if batches:
        done = ", ".join(map(str, sorted(batches)))
        content = f"if(batch IN ({done}), null, content) AS content"
    raw = lake.read("raw").where(f"batch > {since}").selectExpr(*_COLUMNS, content)
    pending = _Pending(newest=since, refused=any(row["kind"] == "quarantined" for row in rows))
    ends: dict[int, int] = {}
    newest: dict[str, Row] = {}
    for row in raw.orderBy("seq").toArrow().to_pylist():
        batch = row["batch"]
        pending.newest = max(pending.newest, batch)
        if batch not in batches:
            ends[batch] = max(ends.get(batch, 0), row["seq"])
        # Of a path only its newest content counts.
        newest[row["path"]] = row
        if row["role"].startswith("changed"):
            pending.changed[row["path"]] = row["seq"]
    for row in newest.values():
        if row["role"] not in ("data", "changed data"):
            if row["batch"] not in batches:
                pending.control.append(row)
        elif (row["path"], row["seq"]) not in files:
            pending.data.append(row)
    pending.control.sort(key=_seq)
    pending.data.sort(key=_seq)
    pending.batches = sorted(ends.items())
    return pending


def _seq(row: Row) -> int:
    return int(row["seq"])


def _steps(pending: _Pending, most: int) -> Iterator[_Pending]:
    """What goes into one commit each: batches whose data is of bounded size together."""
    sizes: dict[int, int] = {}
    for row in pending.data:
        sizes[row["batch"]] = sizes.get(row["batch"], 0) + row["size"]
    group: list[tuple[int, int]] = []
    groups = [group]
    size = 0
    for batch, last in pending.batches:
        if group and size + sizes.get(batch, 0) > most:
            groups.append(group := [])
            size = 0
        group.append((batch, last))
        size += sizes.get(batch, 0)
    after = 0
    for number, batches in enumerate(groups, 1):
        # Files that waited belong to the first one.
        through = batches[-1][0] if batches and number < len(groups) else pending.newest

        def within(row: Row, after: int = after, through: int = through) -> bool:
            return after < int(row["batch"]) <= through

        yield _Pending(
            batches=batches,
            control=list(filter(within, pending.control)),
            data=list(filter(within, pending.data)),
        )
        after = through


_WAITS = "waits"


def _with_schemas(
    data: Sequence[Row],
    tables: CsvTables,
    schemas_for: SchemasFor | None,
    fresh: list[SchemaChange | Bootstrap],
) -> list[tuple[Row, str | None]]:
    """Every file with its table's schema as JSON, where it needs one, or `_WAITS`."""
    if not tables.needed():
        return [(row, None) for row in data]
    versions: dict[str, Version | str | None] = {}
    for row in data:
        try:
            versions[row["path"]] = tables.version(row)
        except FileNotFoundError:
            # The worker will say so.
            versions[row["path"]] = None
        except OSError:
            versions[row["path"]] = _WAITS
    wanted = {version for version in versions.values() if isinstance(version, tuple)}
    known = schemas_for(wanted, fresh) if schemas_for is not None and wanted else {}
    texts: dict[Version, str] = {key: write_json(schema) for key, schema in known.items()}
    found: list[tuple[Row, str | None]] = []
    for row in data:
        version = versions[row["path"]]
        text = texts.get(version, _WAITS) if isinstance(version, tuple) else version
        found.append((row, text))
    return found


def _readable(row: Row, folder: FolderReader, *, late: bool) -> bool | None:
    """Whether a file is there; None if that cannot be told.

    Asked only where it matters before the workers ask: earlier events would be replaced by nothing,
    or a commit made for nothing.
    """
    if not late and row["role"] != "changed data":
        return True
    try:
        folder.head(row["path"], 1)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return True


def _read(
    spark: SparkSession, ready: Sequence[tuple[Row, str | None, bool]], size: int
) -> DataFrame:
    """The files, so spread that each task has bounded bytes."""
    most = _MOST_PER_TASK if size >= _SMALL else _SMALL
    most = min(most, max(_SMALL, size // _FEWEST_TASKS))
    task = count = taken = 0
    rows: list[tuple[Any, ...]] = []
    for row, schema, replaces in ready:
        if count and (taken + row["size"] > most or count == _MOST_FILES_PER_TASK):
            task, count, taken = task + 1, 0, 0
        count, taken = count + 1, taken + row["size"]
        place = (row["batch"], row["seq"], row["path"], row["version"])
        table_id = row["partition_id"] or row["table_id"]
        rows.append((task, *place, table_id, row["size"], schema, replaces))
    columns = zip(*rows, strict=True)
    arrays = [array(column, f.type) for column, f in zip(columns, FILES, strict=True)]
    frame = spark.createDataFrame(pa.Table.from_arrays(arrays, schema=FILES))
    return frame.coalesce(1) if task == 0 else frame.repartitionById(task + 1, "task")
