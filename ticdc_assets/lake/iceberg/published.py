"""What was published as Iceberg tables, and whether a run has anything to publish.

That is in a file beside the tables.  It may be lost: then all tables are compared.
"""

import os
import uuid
from collections.abc import Iterable

import msgspec
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.store.json_files import read_json_file, write_json_file
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.lock import check_lock
from ticdc_assets.store.reader import LakeReader, create_folder, open_folder
from ticdc_assets.store.uris import format_uri
from ticdc_assets.stream.problem import Problem

FOLDER = "iceberg"
# Where catalogs write what they know of these tables.
CATALOGS_FOLDER = "iceberg-catalog"
_FILE = "published.json"
_MOST_SHOWN = 20


class TableFault(msgspec.Struct, frozen=True):
    """Why a table is not published; `is_lasting`: until its Delta table is another one."""

    address: str
    database: str
    table: str
    reason: str
    is_lasting: bool


class Published(msgspec.Struct, frozen=True):
    """The snapshot whose tables are all published, but for those with faults."""

    # None while others are being published.
    snapshot_id: int | None = None
    # What the changefeed declared then, and where the lake was.
    patterns: tuple[str, ...] = ()
    home: str = ""
    faults: tuple[TableFault, ...] = ()
    # Another one once the folder was deleted, so that whoever knows its tables looks again.
    born: str = ""

    def fits(self, wanted: "Published") -> bool:
        """Whether the same was declared, at the same place."""
        return (self.patterns, self.home) == (wanted.patterns, wanted.home)

    @property
    def unfinished(self) -> set[str]:
        """The addresses of tables that the next run tries again."""
        return {fault.address for fault in self.faults if not fault.is_lasting}

    @property
    def absent(self) -> set[str]:
        """The addresses that have no Iceberg table."""
        return {fault.address for fault in self.faults if fault.is_lasting}

    def is_of(self, wanted: "Published") -> bool:
        """Whether only tables that changed since differ; not in a lake that was restored."""
        return self.fits(wanted) and (self.snapshot_id or 0) <= (wanted.snapshot_id or 0)


def publish_iceberg(
    lake: LakeSession, last: Snapshot, before: Snapshot | None = None
) -> list[Problem]:
    """Publish what has changed; return what is not published, and raise no error.

    `before`, a snapshot before the last one, saves reading it again.
    """
    wanted = Published(last.snapshot_id, lake.feed.iceberg, make_uri(lake.path(FOLDER)))
    try:
        known = read_published(lake.location)
        wanted = msgspec.structs.replace(wanted, born=known.born or uuid.uuid4().hex)
        is_same = known.fits(wanted) and known.snapshot_id == wanted.snapshot_id
        is_unused = not wanted.patterns and not known.patterns and known.snapshot_id is not None
        if is_unused or (is_same and not known.unfinished):
            return []
        # Importing pyiceberg takes most of a second.
        from ticdc_assets.lake.iceberg.publish import publish

        with LakeReader(lake.location).explained(lake.path(FOLDER)):
            return make_problems(publish(lake, (before, last), known, wanted))
    except ConfigError as error:
        return [Problem("iceberg", f"{error}; the next run goes on")]


def make_uri(path: str) -> str:
    """Write a path or URI of the lake as Iceberg's readers know it; nothing in it is encoded."""
    return format_uri(path) if "://" in path else f"file://{os.path.abspath(path)}"


def name_catalog_folder(address: str) -> str:
    """Name the folder where a catalog writes the metadata of a table."""
    return f"{CATALOGS_FOLDER}/{address}"


def remove_written_by_catalog(location: Lake, address: str) -> None:
    """Remove what came to a table through a catalog, but for the metadata that the catalog reads.

    Who commits there writes manifests, with bounds of values.  Metadata has none.
    """
    folder, name = open_folder(location.path("")), name_catalog_folder(address)
    with LakeReader(location).explained(location.path(name)):
        selected = fs.FileSelector(name, recursive=True, allow_not_found=True)
        for entry in folder.get_file_info(selected):
            is_metadata = ".metadata.json" in entry.base_name
            if entry.type is fs.FileType.File and not is_metadata:
                check_lock(location)
                folder.delete_file(entry.path)


def remove_old_iceberg(location: Lake) -> None:
    """Remove what no Iceberg table needs any more."""
    if read_published(location).patterns:
        from ticdc_assets.lake.iceberg.publish import remove_old

        remove_old(location)


def make_problems(faults: Iterable[TableFault]) -> list[Problem]:
    """Describe why tables are not published."""
    faults = sorted(faults, key=lambda fault: fault.address)
    problems = [
        Problem("iceberg", fault.reason, fault.database, fault.table)
        for fault in faults[:_MOST_SHOWN]
    ]
    if rest := faults[_MOST_SHOWN:]:
        problems.append(Problem("iceberg", f"{len(rest):,} more tables are not published"))
    return problems


def read_iceberg_problems(location: Lake) -> list[Problem]:
    """Return why tables have no Iceberg table, or an old one, by the last run."""
    return make_problems(read_published(location).faults)


def read_published(location: Lake) -> Published:
    """Read what was published; nothing, of no snapshot, if there never was anything."""
    with LakeReader(location).explained(location.path(FOLDER)):
        folder = open_folder(location.path(""))
        name = f"{FOLDER}/{_FILE}"
        if folder.get_file_info(name).type is not fs.FileType.File:
            return Published(0)
        return read_json_file(folder, name, Published) or Published()


def write_published(location: Lake, published: Published) -> None:
    """Write what was published."""
    with LakeReader(location).explained(location.path(FOLDER)):
        write_json_file(create_folder(location.path(FOLDER)), _FILE, published)
