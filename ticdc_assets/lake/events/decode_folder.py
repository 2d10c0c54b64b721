"""Decode a storage-sink folder: first its schema files and checkpoint, then its data files."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import Bootstrap, SchemaChange
from ticdc_assets.events.written import write_json
from ticdc_assets.lake.events.decode_workers import FILE_TASKS, FolderReader, make_file_worker
from ticdc_assets.lake.events.erased_events import read_erased_events
from ticdc_assets.lake.events.event_commits import (
    BYTES_PER_COMMIT,
    Decoded,
    DecodeResult,
    EventCommits,
    select_of_paths,
)
from ticdc_assets.lake.events.event_files import EventFile, write_event_files, write_events
from ticdc_assets.lake.events.pending_files import (
    PendingFiles,
    RawFile,
    read_pending_files,
    split_by_commit,
)
from ticdc_assets.lake.events.quarantine import update_quarantine
from ticdc_assets.lake.events.schema_files import (
    CsvTables,
    FindSchemas,
    decode_control_files,
)
from ticdc_assets.plan.row_group import UndecodedFiles
from ticdc_assets.store.arrow import make_array
from ticdc_assets.store.commits import group_by_size
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.work_size import count_little
from ticdc_assets.store.workers import start_session
from ticdc_assets.stream.schema_versions import TableVersion

_UNREADABLE = "cannot read {}: the schema file of its version is missing, or its storage is down"
# Less work than this is done faster in this process than in Spark's workers.  It is counted in
# bytes: to open a file and to begin with it takes as long as to decode so many.
_LITTLE_WORK = 16 << 20
_WORK_PER_FILE = 16 << 10
_LEAST_PER_TASK = 8 << 20
_MOST_PER_TASK = 64 << 20
_MAX_FILES_PER_TASK = 1000
_MIN_TASKS = 8
# A commit that replaces files lists their paths: a hundred thousand at most.
_BYTES_PER_PATH = BYTES_PER_COMMIT // 100_000


def decode_folder(
    lake: LakeSession,
    open_folder: Callable[[], FolderReader],
    find_schemas: FindSchemas,
    *,
    since: int,
) -> DecodeResult:
    """Decode the files in `raw` after the batch `since`, up to which everything is decoded.

    The driver and the workers call `open_folder`, so it must pickle.  `find_schemas` returns the
    schemas of CSV files, given the statements that are not in `events` yet.
    """
    return FolderDecode(lake, open_folder, find_schemas, since).run()


class _ReadyFile(NamedTuple):
    """A data file to decode now, and its table's schema as JSON if its protocol needs one."""

    row: RawFile
    schema: str | None
    # Whether the commit removes the events of an earlier content of this path.
    replaces: bool

    @property
    def work(self) -> int:
        return int(self.row["size"]) + _WORK_PER_FILE


class FolderDecode:
    """One decode: its commits, and what it has decoded and left waiting so far."""

    def __init__(
        self,
        lake: LakeSession,
        open_folder: Callable[[], FolderReader],
        find_schemas: FindSchemas,
        since: int,
    ) -> None:
        self._lake = lake
        self._since = since
        # First of all: the commits are void if another run commits after this.
        self._commits = EventCommits(lake)
        self._pending = read_pending_files(lake, since)
        self._folder = open_folder()
        self._tables = CsvTables(lake.feed, self._folder)
        self._find_schemas = find_schemas
        erased = read_erased_events(LakeReader(lake.location))
        self._decode_files = make_file_worker(lake.feed, open_folder, erased)
        self._waiting: list[RawFile] = []
        self._files = self._bytes = 0

    def run(self) -> DecodeResult:
        for part in split_by_commit(self._pending, BYTES_PER_COMMIT):
            if not part.batches:
                # Nothing new has arrived: do not try the waiting files again.
                self._waiting += part.data
            elif not self._commit(part):
                # Another run committed first; the next run sees what it decoded.
                waiting = self._describe_waiting()
                return DecodeResult(0, 0, 0, waiting, 0, self._since, self._since)
        counts = self._commits.counts
        if counts.files < self._files:
            # Workers failed to read some files that the driver expected to be there.
            self._waiting = read_pending_files(self._lake, self._since).data
        pending = self._pending
        if pending.has_quarantined or pending.changed or counts.quarantined:
            update_quarantine(self._lake, self._since, pending.changed, of_records=False)
        done_through = pending.newest_batch
        if self._waiting:
            done_through = min(row["batch"] for row in self._waiting) - 1
        return DecodeResult(
            rows=counts.rows,
            ddls=counts.ddls,
            quarantined=counts.quarantined,
            waiting=self._describe_waiting(),
            bytes=self._bytes,
            done_through=max(self._since, done_through),
            newest=max(self._since, pending.newest_batch),
        )

    def run_again(self, files: Sequence[RawFile]) -> None:
        """Replace the events of files that were decoded before, and are there."""

        def size_of(row: RawFile) -> int:
            return int(row["size"]) + _BYTES_PER_PATH

        for group in group_by_size(files, size_of, BYTES_PER_COMMIT):
            control: list[RawFile] = [
                {**row, "role": "changed schema"} for row in group if row["role"] == "schema"
            ]
            data = [row for row in group if row["role"] == "data"]
            if not self._commit(PendingFiles(control=control, data=data), again=True):
                raise ConfigError("another run has changed the lake meanwhile: run it again")

    def _commit(self, part: PendingFiles, *, again: bool = False) -> bool:
        """Commit the events of some batches; return False if another run committed first."""
        control = decode_control_files(part.control)
        stated = [a.event for a in control if isinstance(a.event, SchemaChange | Bootstrap)]
        ready = self._select_ready(part, stated, again=again)
        replaced = [file.row["path"] for file in ready if file.replaces]
        replaced += [row["path"] for row in part.control if row["role"] == "changed schema"]
        size = sum(file.row["size"] for file in ready)
        data = self._decode(ready)
        decoded = Decoded(data, control, select_of_paths(replaced))
        if not self._commits.commit(decoded, part.batches):
            return False
        self._files += len(ready)
        self._bytes += size
        return True

    def _decode(self, ready: Sequence[_ReadyFile]) -> list[EventFile] | Iterable[pa.RecordBatch]:
        if not ready:
            return ()
        work = sum(file.work for file in ready)
        rows = _make_tasks(ready, work)
        if work < count_little(self._lake, _LITTLE_WORK):
            return self._decode_files(rows.to_batches())
        if self._lake.has_spark:
            return self._decode_in_workers(rows)
        doing, left = start_session(self._lake, self._decode_here, _split_tasks(rows))
        decoded = self._decode_in_workers(pa.concat_tables(left)) if left else []
        return [*chain.from_iterable(doing.result()), *decoded]

    def _decode_here(self, task: pa.Table) -> list[EventFile]:
        return [*write_events(self._lake.location, self._decode_files(task.to_batches()))]

    def _decode_in_workers(self, tasks: pa.Table) -> list[EventFile]:
        """Have workers do tasks, whose numbers follow each other."""
        count = _count_tasks(tasks)
        numbers = pc.subtract(tasks["task"], tasks["task"][0])
        frame = self._lake.make_frame(tasks.set_column(0, FILE_TASKS.field("task"), numbers))
        frame = frame.repartitionById(count, "task") if count > 1 else frame.coalesce(1)
        return write_event_files(self._lake, frame, self._decode_files)

    def _select_ready(
        self, part: PendingFiles, stated: list[SchemaChange | Bootstrap], *, again: bool
    ) -> list[_ReadyFile]:
        """Select the data files that can be decoded now; the others wait, or stay as they are."""
        new_batches = {batch for batch, _ in part.batches}
        schemas = self._find_schema_texts(part.data, stated)
        if again:
            known = [row for row in part.data if row["path"] in schemas]
            return [_ReadyFile(row, schemas[row["path"]], replaces=True) for row in known]
        ready = []
        for row in part.data:
            is_late = row["batch"] not in new_batches
            exists = None
            if row["path"] in schemas:
                exists = self._check_exists(row, is_late=is_late)
            if exists is None:
                self._waiting.append(row)
                continue
            schema = schemas[row["path"]]
            if is_late:
                # Later stages look for new events by batch: the newest batch takes these.
                row = {**row, "batch": max(new_batches)}
            ready.append(_ReadyFile(row, schema, exists and row["role"] == "changed data"))
        return ready

    def _find_schema_texts(
        self, data: Sequence[RawFile], stated: list[SchemaChange | Bootstrap]
    ) -> dict[str, str | None]:
        """Find the schemas, as JSON, of all files whose schema is known or that need none."""
        if not self._tables.need_schemas():
            return dict.fromkeys(row["path"] for row in data)
        texts: dict[str, str | None] = {}
        versions: dict[str, TableVersion] = {}
        for row in data:
            try:
                version = self._tables.find_version(row)
            except FileNotFoundError:
                # The worker reports it.
                version = None
            except OSError:
                continue
            if version is None:
                texts[row["path"]] = None
            else:
                versions[row["path"]] = version
        wanted = set(versions.values())
        found = self._find_schemas(wanted, stated) if wanted else {}
        written = {version: write_json(schema) for version, schema in found.items()}
        return texts | {path: written[v] for path, v in versions.items() if v in written}

    def _check_exists(self, row: RawFile, *, is_late: bool) -> bool | None:
        """Return whether a file exists; None if its storage does not answer.

        Checked only where the workers would notice too late: when its commit replaces earlier
        events, or when a waiting file is the only reason for a commit.
        """
        if not is_late and row["role"] != "changed data":
            return True
        try:
            self._folder.head(row["path"], 1)
        except FileNotFoundError:
            return False
        except OSError:
            return None
        return True

    def _describe_waiting(self) -> tuple[UndecodedFiles, ...]:
        """Describe the waiting files; leave out any whose table neither path nor content names."""
        files = []
        for row in self._waiting:
            names = row["database"], row["table"]
            try:
                version = self._tables.find_version(row)
            except OSError:
                version = None
            if version is not None:
                names = version[:2]
            if all(names):
                reason = _UNREADABLE.format(row["path"])
                files.append(UndecodedFiles(*names, row["version"] or 0, reason))
        return tuple(files)


def _split_tasks(rows: pa.Table) -> list[pa.Table]:
    """Split rows of tasks, which follow each other, into one table per task."""
    counts = Counter(rows["task"].to_pylist()).values()
    ends = accumulate(counts)
    return [rows.slice(end - count, count) for end, count in zip(ends, counts, strict=True)]


def _count_tasks(tasks: pa.Table) -> int:
    return int(tasks["task"][-1].as_py()) - int(tasks["task"][0].as_py()) + 1


def _make_tasks(ready: Sequence[_ReadyFile], work: int) -> pa.Table:
    """Distribute files over tasks of bounded work and a bounded number of files."""
    most = min(_MOST_PER_TASK, max(_LEAST_PER_TASK, work // _MIN_TASKS))
    task = files = done = 0
    rows: list[tuple[Any, ...]] = []
    for each in ready:
        if files and (done + each.work > most or files == _MAX_FILES_PER_TASK):
            task, files, done = task + 1, 0, 0
        files, done = files + 1, done + each.work
        row, schema, replaces = each
        file = (row["batch"], row["seq"], row["path"], row["version"])
        table_id = row["partition_id"] or row["table_id"]
        rows.append((task, *file, table_id, row["size"], schema, replaces))
    columns = zip(*rows, strict=True)
    arrays = [make_array(column, f.type) for column, f in zip(columns, FILE_TASKS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=FILE_TASKS)
