"""Ingest of a storage sink's folder: list new and changed files, and read the small ones.

The role of a file is `data`, `schema`, `metadata`, or `stray`: named like a data file, on a path
that does not match the declared layout.  A file that was ingested before and has changed is
`changed data` or `changed schema`, and so is a stray that matches the layout declared by now; a
schema file that was rewritten with the same content is `same schema`.
"""

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from ticdc_assets.lake.raw.ingest_records import (
    STAGE,
    IngestResult,
    Progress,
    RawEnd,
    read_raw_end,
)
from ticdc_assets.storage_sink.path import (
    DatabaseSchemaPath,
    DataPath,
    Layout,
    TableSchemaPath,
    parse,
)
from ticdc_assets.store.arrow import arrow_schema, make_array
from ticdc_assets.store.commits import group_by_size
from ticdc_assets.store.contracts import RAW_FILES
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeNotFound, LakeReader
from ticdc_assets.store.stage_commits import StageMark, commit_rows
from ticdc_assets.stream.folder_files import (
    METADATA,
    data_file_order,
    describe_path_mismatch,
    is_named_like_data,
    is_named_like_schema,
    make_layout,
)

_MAX_CONTENT = 16 << 20
_MAX_BIGINT = (1 << 63) - 1
_READERS = 8
# Bytes of data files per batch: decoded in one go, and lost when a run is killed.
BYTES_PER_BATCH = 4 << 30
# Above this, neither the list of ingested files nor the folder itself is read only to compare them.
_LARGE_RAW = 64 << 20
_MANY_FILES = 20_000

_SCHEMA = arrow_schema(RAW_FILES)
_LISTING = pa.schema([_SCHEMA.field(name) for name in ("path", "size", "modified", "problem")])


class SourceFolder(Protocol):
    """The folder of a storage sink."""

    def entries(self) -> Iterable[tuple[str, int, int, str | None]]:
        """Return every file: path below the prefix, size, modification time in Unix nanoseconds.

        The last value says why a file is not read, None if it is.
        """
        ...

    def read(self, path: str) -> bytes:
        """Read a whole file; raise OSError, `FileNotFoundError` if there is none."""
        ...


class _Listing(NamedTuple):
    """The files of a folder that TiCDC can have written, but for indexes; how many there are."""

    files: pa.Table
    listed: int


class _Found(NamedTuple):
    path: str
    size: int
    modified: datetime
    # Why the file is not read.
    problem: str | None
    # Whether the path was ingested before: with another size or modification time, or as a stray.
    known: bool
    # Whether it was a stray, and has not changed: it counts if the present declaration fits.
    was_stray: bool


def ingest_folder(
    lake: LakeSession,
    folder: SourceFolder,
    *,
    bytes_per_batch: int = BYTES_PER_BATCH,
    progress: Progress | None = None,
) -> IngestResult:
    """Ingest the files that are new or have changed since the last ingest.

    The checkpoint is read before the files are listed and written after all of them: it covers only
    files that existed before it.
    """
    state = read_raw_end(lake)
    layout = make_layout(lake.feed)
    checkpoint, digest = _checkpoint(folder, _known_digest(lake, state))
    listing = _list_files(folder)
    rows = _rows(_new_files(lake, state, listing.files), layout)
    rows = list(_with_contents(rows, folder, _known_schemas(lake, rows)))
    batch, seq, items, taken = state.batch, state.seq, 0, 0
    if checkpoint is not None:
        rows.append(checkpoint)
    for chunk in group_by_size(rows, lambda row: row["size"], bytes_per_batch):
        last = seq + len(chunk)
        metadata: dict[str, Any] = {"seq": last}
        # Until the checkpoint itself is written, the digest is left out.
        if checkpoint is None or chunk[-1] is checkpoint:
            metadata["metadata"] = digest
        mark = StageMark(STAGE, batch + 1, metadata)
        if not commit_rows(lake, "raw", _table(chunk, batch + 1, seq + 1), mark):
            break
        batch, seq, items = batch + 1, last, items + len(chunk)
        taken += sum(row["size"] for row in chunk)
        if progress is not None:
            progress(taken, items)
    return IngestResult(batch - state.batch, items, taken, batch, listed=listing.listed)


def _known_digest(lake: LakeSession, state: RawEnd) -> str | None:
    """Return the digest of the last checkpoint that was ingested."""
    if not state.batch or "metadata" in state.metadata:
        return state.metadata.get("metadata")
    raw = lake.read("raw").where("role = 'metadata'")
    newest = raw.orderBy("seq", ascending=False).select("content", "problem").limit(1).collect()
    return _digest(newest[0]["content"], newest[0]["problem"]) if newest else None


def _digest(content: bytes | None, problem: str | None) -> str:
    data = bytes(content) if content is not None else (problem or "").encode()
    return hashlib.sha256(data).hexdigest()


def _checkpoint(
    folder: SourceFolder, known: str | None
) -> tuple[dict[str, Any] | None, str | None]:
    """Return the row of `metadata` if it has changed, and its digest."""
    content: bytes | None = None
    problem: str | None = None
    try:
        content = folder.read(METADATA)
    except FileNotFoundError:
        # The sink writes it with the first flush.
        return None, known
    except OSError as error:
        problem = str(error)
    if content is not None and len(content) > _MAX_CONTENT:
        problem = f"{len(content)} bytes are too many for a checkpoint"
        content = None
    digest = _digest(content, problem)
    if digest == known:
        return None, known
    size = 0 if content is None else len(content)
    row = {"path": METADATA, "role": "metadata", "size": size, "modified": None}
    return {**row, "content": content, "problem": problem}, digest


def may_have_new_files(lake: Lake, folder: SourceFolder) -> bool:
    """Return whether a folder has data or schema files that are not ingested, or have changed.

    True where it would take long to tell.
    """
    reader = LakeReader(lake)
    try:
        if reader.measure(reader.open("raw")).size > _LARGE_RAW:
            return True
        known = _read_manifest(reader)
    except LakeNotFound:
        return True
    if known.num_rows > _MANY_FILES:
        return True
    return any(not found.was_stray for found in _compare(_list_files(folder).files, known))


def _new_files(lake: LakeSession, state: RawEnd, listed: pa.Table) -> list[_Found]:
    if not state.batch:
        return [
            _Found(path, size, at, why, known=False, was_stray=False)
            for path, size, at, why in _entries(listed)
        ]
    return _compare(listed, _read_manifest(LakeReader(lake.location)))


def _compare(listed: pa.Table, ingested: pa.Table) -> list[_Found]:
    """Return the files that are new, have changed, or were strays."""
    both = listed.join(ingested, "path", right_suffix=" before")
    known = pc.is_valid(both["size before"])
    is_other = pc.or_(
        pc.not_equal(both["size"], both["size before"]),
        pc.not_equal(both["modified"], both["modified before"]),
    )
    both = both.append_column("known", known)
    is_changed = pc.or_(pc.invert(known), pc.fill_null(is_other, False))
    is_stray = pc.and_not(pc.fill_null(pc.equal(both["role"], "stray"), False), is_changed)
    both = both.append_column("was_stray", is_stray)
    chosen = both.filter(pc.or_(is_changed, is_stray))
    return [_Found(*entry) for entry in _entries(chosen.select(_Found._fields))]


def _read_manifest(reader: LakeReader) -> pa.Table:
    """Read the size, the modification time and the role of every file as of its last ingest."""
    columns = ["path", "seq", "size", "modified", "role"]
    rows = reader.read(reader.open("raw"), columns, pc.field("path") != METADATA)
    newest = rows.sort_by("seq").group_by("path", use_threads=False)
    last = newest.aggregate([(name, "last") for name in columns[2:]])
    return last.rename_columns(["path", *columns[2:]])


def _entries(table: pa.Table) -> Iterator[Any]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _list_files(folder: SourceFolder) -> _Listing:
    paths: list[str] = []
    sizes: list[int] = []
    times: list[int] = []
    problems: list[str | None] = []
    listed = 0
    for path, size, modified_ns, problem in folder.entries():
        listed += 1
        is_named = is_named_like_schema(path) or is_named_like_data(path)
        if problem is not None or is_named:
            paths.append(path)
            sizes.append(size)
            times.append(modified_ns // 1000)
            problems.append(problem)
    columns = (paths, sizes, times, problems)
    arrays = [make_array(values, f.type) for values, f in zip(columns, _LISTING, strict=True)]  # type: ignore[arg-type]
    return _Listing(pa.Table.from_arrays(arrays, schema=_LISTING), listed)


def _rows(found: list[_Found], layout: Layout) -> list[dict[str, Any]]:
    """Return the raw rows of files in reading order: schema files, strays, data files."""
    schemas, strays, data = [], [], []
    for entry in found:
        parsed = parse(entry.path, layout) if entry.problem is None else None
        row: dict[str, Any] = {"path": entry.path, "size": entry.size, "modified": entry.modified}
        row |= {"content": None, "problem": entry.problem}
        changed = "changed " if entry.known else ""
        if isinstance(parsed, TableSchemaPath | DatabaseSchemaPath | DataPath):
            row |= _parts(parsed)
        if isinstance(parsed, TableSchemaPath | DatabaseSchemaPath):
            schemas.append(row | {"role": f"{changed}schema"})
        elif isinstance(parsed, DataPath) and row["problem"] is None:
            data.append(((entry.path, parsed), row | {"role": f"{changed}data"}))
        elif not entry.was_stray and (entry.problem is not None or is_named_like_data(entry.path)):
            problem = entry.problem or describe_path_mismatch(entry.path, layout)
            strays.append(row | {"role": "stray", "problem": problem})
    schemas.sort(key=_path)
    strays.sort(key=_path)
    data.sort(key=lambda pair: (*data_file_order(pair[0]), pair[0][0]))
    return [*schemas, *strays, *(row for _, row in data)]


def _path(row: dict[str, Any]) -> str:
    return str(row["path"])


def _parts(parsed: TableSchemaPath | DatabaseSchemaPath | DataPath) -> dict[str, Any]:
    parts = structs.asdict(parsed)
    large = [name for name, part in parts.items() if isinstance(part, int) and part > _MAX_BIGINT]
    if not large:
        return parts
    reason = f"the {large[0].replace('_', ' ')} in its path exceeds 64 bits"
    return {**parts, **dict.fromkeys(large), "problem": reason}


def _known_schemas(lake: LakeSession, rows: list[dict[str, Any]]) -> dict[str, bytes | None]:
    """Read the former contents of the schema files that were rewritten."""
    paths = [row["path"] for row in rows if row["role"] == "changed schema"]
    if not paths:
        return {}
    is_former = pc.field("role").isin(["schema", "changed schema"])
    is_wanted = is_former & pc.field("path").isin(make_array(paths, pa.string()))
    reader = LakeReader(lake.location)
    found = reader.read(reader.open("raw"), ["seq", "path", "content"], is_wanted).sort_by("seq")
    return dict(zip(found["path"].to_pylist(), found["content"].to_pylist(), strict=True))


def _with_contents(
    rows: list[dict[str, Any]], folder: SourceFolder, known: dict[str, bytes | None]
) -> Iterator[dict[str, Any]]:
    """Yield the rows in order, with the contents of schema files."""

    def read(row: dict[str, Any]) -> dict[str, Any] | None:
        if "schema" not in row["role"] or row["problem"] is not None:
            return row
        if row["size"] > _MAX_CONTENT:
            return row | {"problem": f"{row['size']} bytes are too many for a schema file"}
        try:
            content = folder.read(row["path"])
        except OSError:
            # Without a row for it, the next run tries again.
            return None
        before = known.get(row["path"])
        if before is not None and bytes(before) == content:
            return row | {"role": "same schema"}
        return row | {"content": content}

    with ThreadPoolExecutor(_READERS) as pool:
        for row in pool.map(read, rows):
            if row is not None:
                yield row


def _table(chunk: list[dict[str, Any]], batch: int, seq: int) -> pa.Table:
    count = len(chunk)
    columns: dict[str, Any] = {"batch": [batch] * count, "seq": range(seq, seq + count)}
    for field in _SCHEMA:
        if field.name not in columns:
            columns[field.name] = [row.get(field.name) for row in chunk]
    arrays = [make_array(columns[field.name], field.type) for field in _SCHEMA]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)
