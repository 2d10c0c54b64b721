"""Find the files of a folder that are in `raw` and not decoded yet, split into commits."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader

# A row of `raw`, by column.
RawFile = Mapping[str, Any]

_COLUMNS = (
    *("batch", "seq", "path", "role", "database", "table", "version", "partition_id"),
    *("table_id", "checksum", "size", "problem"),
)


@dataclass
class PendingFiles:
    """Files to decode, and the batches they complete."""

    # Batches without a marker in `events`, each with its last seq.
    batches: list[tuple[int, int]] = field(default_factory=list)
    # Schema files and `metadata`.
    control: list[RawFile] = field(default_factory=list)
    data: list[RawFile] = field(default_factory=list)
    # Paths whose content changed after it was decoded, with the seq of the newest content.
    changed: dict[str, int] = field(default_factory=dict)
    newest_batch: int = 0
    has_quarantined: bool = False


def read_pending_files(lake: LakeSession, since: int) -> PendingFiles:
    """Read the files after the batch `since` of which `events` has no marker."""
    markers = _read_markers(lake, since)
    batches = {row["batch"] for row in markers if row["kind"] == "batch"}
    files = {(row["source"], row["seq"]) for row in markers if row["kind"] == "file"}
    pending = PendingFiles(
        newest_batch=since, has_quarantined=any(row["kind"] == "quarantined" for row in markers)
    )
    last_seqs: dict[int, int] = {}
    # Only the newest content of a path counts.
    newest: dict[str, RawFile] = {}
    for row in _read_raw(lake, since, batches):
        batch = row["batch"]
        pending.newest_batch = max(pending.newest_batch, batch)
        if batch not in batches:
            last_seqs[batch] = row["seq"]
        newest[row["path"]] = row
        if row["role"].startswith("changed"):
            pending.changed[row["path"]] = row["seq"]
    for row in newest.values():
        if row["role"] not in ("data", "changed data"):
            if row["batch"] not in batches:
                pending.control.append(row)
        elif (row["path"], row["seq"]) not in files:
            pending.data.append(row)
    pending.control.sort(key=_get_seq)
    pending.data.sort(key=_get_seq)
    pending.batches = sorted(last_seqs.items())
    return pending


def read_decoded_files(lake: LakeSession) -> list[RawFile]:
    """Read the newest content of every schema file and data file that was decoded, in order."""
    markers = _read_markers(lake, 0)
    batches = {row["batch"] for row in markers if row["kind"] == "batch"}
    files = {(row["source"], row["seq"]) for row in markers if row["kind"] == "file"}
    newest: dict[str, RawFile] = {}
    for row in _read_raw(lake, 0, set()):
        role = row["role"].removeprefix("changed ")
        is_decoded = (
            row["batch"] in batches if role == "schema" else (row["path"], row["seq"]) in files
        )
        if role in ("schema", "data") and is_decoded:
            newest[row["path"]] = {**row, "role": role}
    return list(newest.values())


def split_by_commit(pending: PendingFiles, max_bytes: int) -> Iterator[PendingFiles]:
    """Split pending files into commits: batches whose data has a bounded size together."""
    sizes: dict[int, int] = {}
    for row in pending.data:
        sizes[row["batch"]] = sizes.get(row["batch"], 0) + row["size"]
    groups: list[list[tuple[int, int]]] = [[]]
    size = 0
    for batch, last_seq in pending.batches:
        if groups[-1] and size + sizes.get(batch, 0) > max_bytes:
            groups.append([])
            size = 0
        groups[-1].append((batch, last_seq))
        size += sizes.get(batch, 0)
    # Waiting files are older than every pending batch: they belong to the first commit.
    after = 0
    for number, batches in enumerate(groups, 1):
        through = batches[-1][0] if number < len(groups) else pending.newest_batch
        yield PendingFiles(
            batches=batches,
            control=_select_batches(pending.control, after, through),
            data=_select_batches(pending.data, after, through),
        )
        after = through


def _read_markers(lake: LakeSession, since: int) -> list[dict[str, Any]]:
    """Read the batch and file markers, and one row if anything is quarantined."""
    reader = LakeReader(lake.location)
    is_marker = pc.field("kind").isin(["batch", "file", "quarantined"])
    where = (pc.field("batch") > since) & is_marker
    found = reader.read(reader.open("events"), ["kind", "batch", "seq", "source"], where)
    is_quarantined = pc.equal(found["kind"], "quarantined")
    one = found.filter(is_quarantined).slice(0, 1)
    rows = pa.concat_tables([found.filter(pc.invert(is_quarantined)), one])
    return rows.to_pylist()  # type: ignore[no-any-return]


def _read_raw(lake: LakeSession, since: int, decoded: set[int]) -> list[RawFile]:
    """Read the files of all batches, without the content of those in decoded batches."""
    reader = LakeReader(lake.location)
    raw = reader.open("raw")
    is_pending = pc.field("batch") > since
    rows = reader.read(raw, _COLUMNS, is_pending).to_pylist()
    is_undecoded = is_pending & ~pc.field("batch").isin(sorted(decoded))
    contents = reader.read(raw, ["seq", "content"], is_undecoded).to_pylist()
    by_seq = {row["seq"]: row["content"] for row in contents}
    return sorted((row | {"content": by_seq.get(row["seq"])} for row in rows), key=_get_seq)


def _select_batches(rows: Iterable[RawFile], after: int, through: int) -> list[RawFile]:
    return [row for row in rows if after < row["batch"] <= through]


def _get_seq(row: RawFile) -> int:
    return int(row["seq"])
