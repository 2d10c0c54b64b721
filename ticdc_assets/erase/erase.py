"""Erase a row, step by step; see the rules of this room."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from ticdc_assets.erase.input_rows import InputRows
from ticdc_assets.erase.key_match import KeyColumns, make_choice, make_image_choice
from ticdc_assets.erase.target import Target
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.history.changes_table import ChangesTable
from ticdc_assets.lake.history.history_table import HistoryTable
from ticdc_assets.lake.history.marks import UpdateMark
from ticdc_assets.lake.history.update import find_base
from ticdc_assets.lake.iceberg.published import FOLDER as ICEBERG
from ticdc_assets.lake.iceberg.published import publish_iceberg, remove_written_by_catalog
from ticdc_assets.lake.new_versions import write_new_versions
from ticdc_assets.lake.publish import publish
from ticdc_assets.lake.raw.erased_records import holds_records
from ticdc_assets.lake.retention import read_kept_versions
from ticdc_assets.log.applied_files import read_rows
from ticdc_assets.log.erasures import (
    Erasure,
    end_erasure,
    find_salt,
    list_unfinished,
    make_digest,
    read_erasures,
    write_erasure,
)
from ticdc_assets.log.loads import read_loads
from ticdc_assets.log.named_tables import find_true_ts
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.plan.state import name_address
from ticdc_assets.store.commits import write_ts
from ticdc_assets.store.contracts import IMAGES
from ticdc_assets.store.delta_log import read_newest_state
from ticdc_assets.store.file_rewrites import FileRewrite, RowChoice, commit_rewrite
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.purge import purge, purge_address, remove_old_data
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.restores import restore
from ticdc_assets.store.stage_commits import StageMark
from ticdc_assets.store.stored_rows import StoredRows

# Called with the step, how many tables of it are done, and how many there are.
Progress = Callable[[str, int, int | None], None]
_AT_ONCE = 4
_T = TypeVar("_T")


@dataclass(frozen=True)
class Erased:
    """What an erasure took away: rows, records and events by layer, and old files."""

    erasure: Erasure
    counts: Mapping[str, int]
    removed_files: int
    removed_bytes: int
    # Whether a command that was killed had begun it.
    is_resumed: bool


def erase(lake: LakeSession, applied: Snapshot, target: Target, progress: Progress) -> Erased:
    """Erase a row from a lake at its last snapshot."""
    require_erasable(lake, applied, target)
    return _Erasing(lake, applied, target, progress).run()


def require_erasable(lake: LakeSession, applied: Snapshot, target: Target) -> None:
    """Raise a `ConfigError` while the lake has input, or a load, that a run has yet to read."""
    reader = LakeReader(lake.location)
    reason = "of a run that did not end: run advance first, then erase"
    if holds_records(reader):
        marks = reader.read(reader.open("events"), ["batch"], pc.field("kind") == "batch")
        last = reader.max_of(reader.open("raw"), "batch")
        if last > (pc.max(marks["batch"]).as_py() or 0):
            raise ConfigError(f"raw has records that are not decoded yet, {reason}")
    own = fold_name(target.database), fold_name(target.table)
    for load in read_loads(reader, applied.state.incarnations):
        if (fold_name(load.schema.database), fold_name(load.schema.table)) == own:
            raise ConfigError("a load of the table has not taken effect: run advance, then erase")


class _Erasing:
    def __init__(
        self, lake: LakeSession, applied: Snapshot, target: Target, progress: Progress
    ) -> None:
        self._lake = lake
        self._before = self._last = applied
        self._target = target
        self._progress = progress
        self._reader = LakeReader(lake.location)
        self._rewrites: dict[str, FileRewrite] = {}
        self._check = partial(check_lock, lake.location)

    def run(self) -> Erased:
        # A run that was killed may have left addresses behind.
        publish(self._lake, self._before)
        erasure, is_resumed = self._begin()
        self._progress("erase: events", 0, None)
        counts = InputRows(self._lake.feed, self._reader, erasure, self._target).erase()
        counts["current"] = self._erase_current()
        counts |= self._erase_versions()
        counts["differences"] = self._erase_differences()
        publish(self._lake, self._last, self._before)
        self._publish_iceberg()
        removed = self._purge()
        ended = end_erasure(self._lake.location, erasure, counts)
        files, sizes = zip(*removed, strict=True)
        return Erased(ended, counts, sum(files), sum(sizes), is_resumed)

    def _begin(self) -> tuple[Erasure, bool]:
        """State the erasure, or go on with the one of a command that was killed."""
        known, target = read_erasures(self._reader), self._target
        salt = find_salt(known)
        digests = {make_digest(salt, form) for form in (target.texts, *target.forms)}
        found = frozenset(digest for digest in digests if digest is not None)
        own = make_digest(salt, target.texts)
        through = max(self._before.ts, target.newest_ts)
        erasure = Erasure(
            id=max((each.id for each in known), default=0) + 1,
            database=target.database,
            table=target.table,
            requested_at=datetime.now(UTC),
            through_ts=through,
            batch=self._before.batch,
            incarnations=tuple(sorted(target.tables)),
            places=target.places,
            salt=salt,
            digests=found,
        )
        is_resumed = False
        for each in list_unfinished(known):
            is_same = (each.database, each.table) == (target.database, target.table)
            if is_same and own in each.digests:
                # Its events may be gone already, and with them the other texts of the key.
                is_resumed = True
                erasure = replace(
                    erasure,
                    id=each.id,
                    requested_at=each.requested_at,
                    through_ts=max(through, each.through_ts),
                    digests=found | each.digests,
                    counts=each.counts,
                )
        write_erasure(self._lake.location, erasure)
        return erasure, is_resumed

    # Tables

    @cached_property
    def _tables(self) -> dict[str, KeyColumns]:
        """The incarnations that have rows."""
        versions = self._before.versions
        return {id: key for id, key in self._target.tables.items() if id in versions}

    def _open(self, name: str, choice: RowChoice) -> FileRewrite:
        return self._rewrites.setdefault(name, FileRewrite(self._reader, name, choice))

    def _erase_current(self) -> int:
        """Erase the row from current tables, and write the snapshot with their new versions."""
        known = self._before.versions

        def erase(id: str) -> tuple[str, int]:
            name, found = f"current/{id}", read_newest_state(self._reader, f"current/{id}")
            assert found is not None
            table = self._before.state.incarnations[id]
            ts = write_ts(find_true_ts(table, self._before.ts))
            version = restore(self._lake.location, name, found[0], known[id], ts)
            stored = StoredRows(self._reader, name, version)
            choice = make_choice(self._tables[id], stored.physical_names)
            return id, commit_rewrite(self._open(name, choice), ts)

        done = dict(self._do_all("erase: current", erase, self._tables))
        new_versions = {id: version for id, version in done.items() if version != known[id]}
        if new_versions:
            self._last = write_new_versions(self._lake, self._before, new_versions)
        return sum(self._rewrites[f"current/{id}"].rows for id in done)

    def _erase_versions(self) -> dict[str, int]:
        """Erase the row from histories and changes; they show the new snapshot then."""
        counts = {"history": 0, "changes": 0}

        def erase(id: str) -> None:
            for kind in (HistoryTable, ChangesTable):
                table = kind(self._lake, id)
                if table.mark is None or table.version is None:
                    # Of an update that did not end; the next one computes all of it.
                    self._remove_folder(table.name)
                    continue
                table.undo_strays()
                counts[kind.folder] += self._erase_marked(table, id)

        list(self._do_all("erase: history", erase, self._tables))
        return counts

    def _erase_marked(self, table: HistoryTable | ChangesTable, id: str) -> int:
        found = read_newest_state(self._reader, table.name)
        assert found is not None
        assert table.mark is not None
        stored = StoredRows(self._reader, table.name, found[0])
        names, key = stored.physical_names, self._target.tables[id]
        if isinstance(table, ChangesTable):
            images = {image: stored.read_names(image) for image in IMAGES}
            choice = make_image_choice(key, images, names)
        else:
            choice = make_choice(key, names)
        rewrite = self._open(table.name, choice)
        # No number of the stage is greater than the version and one.
        mark = StageMark(table.folder, found[0] + 2, asdict(self._move_mark(id, table.mark)))
        commit_rewrite(rewrite, mark.text, always=True)
        return rewrite.rows

    def _move_mark(self, id: str, mark: UpdateMark) -> UpdateMark:
        """Return the mark of a table of versions that showed the snapshot before: of the new one.

        Another one goes on from where it was, and computes the rows at its snapshot again.
        """
        before, last = self._before, self._last
        applied = self._reader.open("applied")
        rows = read_rows(self._reader, applied, mark.snapshot_id, before.snapshot_id)
        is_dropped = before.state.incarnations[id].dropped_ts != mark.dropped_ts
        is_behind = is_dropped and mark.dropped_ts is None
        if find_base(rows, id, mark) != before.snapshot_id or is_behind:
            return mark
        return UpdateMark(last.snapshot_id, last.ts, last.versions[id], mark.dropped_ts)

    def _erase_differences(self) -> int:
        """Erase the row from what verifications found."""
        if read_newest_state(self._reader, "differences") is None:
            return 0
        names, texts = ("database", "table", "key", "lake", "upstream"), self._target.texts
        own = fold_name(self._target.database), fold_name(self._target.table)
        sets = {names for key in self._target.tables.values() for names in key.names}
        sets |= {place.columns for place in self._target.places}

        def is_of_row(row: Mapping[str, str | None]) -> bool:
            if (fold_name(row["database"] or ""), fold_name(row["table"] or "")) != own:
                return False
            stated = [msgspec.json.decode(row[n] or "{}") for n in ("key", "lake", "upstream")]
            return any(
                all(each.get(name) == text for name, text in zip(columns, texts, strict=True))
                for each in stated
                for columns in sets
            )

        def choose(rows: pa.Table) -> pa.Array:
            return pa.array(list(map(is_of_row, rows.select(names).to_pylist())), pa.bool_())

        rewrite = self._open("differences", RowChoice(names, choose))
        commit_rewrite(rewrite)
        return rewrite.rows

    def _publish_iceberg(self) -> None:
        """Make Iceberg tables anew: their metadata has bounds, and lists those of before."""
        folder = self._reader.open_folder("")
        for address in self._list_addresses():
            self._remove_folder(f"{ICEBERG}/{address}")
            remove_written_by_catalog(self._lake.location, address)
        self._check()
        with suppress(FileNotFoundError):
            # All tables are compared then.
            folder.delete_file(f"{ICEBERG}/published.json")
        publish_iceberg(self._lake, self._last)

    def _list_addresses(self) -> list[str]:
        """List the addresses that have, or had, the tables."""
        history = self._reader.open("schema_history")
        where = pc.field("incarnation").isin(sorted(self._target.tables))
        rows = self._reader.read(history, ["database", "table"], where).to_pylist()
        return sorted({name_address(row["database"], row["table"]) for row in rows})

    def _remove_folder(self, name: str) -> None:
        folder = self._reader.open_folder("")
        with self._reader.explained(self._lake.path(name)):
            if folder.get_file_info(name).type is fs.FileType.Directory:
                self._check()
                folder.delete_dir(name)

    # Files

    def _purge(self) -> list[tuple[int, int]]:
        """Remove all that is not of the newest versions; return how many files, and their bytes."""
        reader, check = self._reader, self._check
        kept = read_kept_versions(reader)

        def remove(name: str) -> tuple[int, int]:
            if name in ("raw", "events"):
                old = remove_old_data(reader, name, check)
            elif name == "quarantine":
                old = remove_old_data(reader, name, check, is_locked=False)
            elif name == "differences":
                old = purge(self._rewrites[name], check, is_locked=False)
            elif name not in self._rewrites:
                old = purge_address(reader, name, check)
            else:
                versions = kept.get(name.removeprefix("current/"), ())
                old = purge(self._rewrites[name], check, versions)
            return (0, 0) if old is None else (old.number, old.size)

        addresses = [f"current/{address}" for address in self._list_addresses()]
        names = ["raw", "events", "quarantine", *self._rewrites, *addresses]
        return list(self._do_all("erase: old files", remove, names))

    def _do_all(
        self, step: str, do: Callable[[str], _T], names: Sequence[str] | Mapping[str, object]
    ) -> Iterable[_T]:
        done = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for result in pool.map(do, names):
                done.append(result)
                self._progress(step, len(done), len(names))
        return done
