"""What was published as Iceberg tables, and whether a run has anything to publish.

That is in a file beside the tables.  It may be lost: then all tables are compared.
"""

from collections.abc import Iterable

import msgspec
from pyarrow import fs

from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.log.snapshot import Snapshot
from ticdc_assets.lake.store.json_files import read_json_file, write_json_file
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.reader import LakeReader, create_folder, open_folder
from ticdc_assets.stream.problem import Problem

FOLDER = "iceberg"
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

    # None while others are being published, or if some have to be tried again.
    snapshot_id: int | None = None
    # What the changefeed declared then.
    patterns: tuple[str, ...] = ()
    faults: tuple[TableFault, ...] = ()


def publish_iceberg(
    lake: LakeSession, last: Snapshot, before: Snapshot | None = None
) -> list[Problem]:
    """Publish what has changed; return what is not published, and raise no error.

    `before`, a snapshot before the last one, saves reading it again.
    """
    patterns = lake.feed.iceberg
    try:
        known = _read_known(lake.location)
        if known is None and not patterns:
            return []
        known = known or Published()
        if known.snapshot_id == last.snapshot_id and known.patterns == patterns:
            return []
        # Importing pyiceberg takes most of a second.
        from ticdc_assets.lake.iceberg.publish import publish

        return make_problems(publish(lake, last, before, known))
    except ConfigError as error:
        return [Problem("iceberg", f"{error}; the next run goes on")]


def remove_old_iceberg(location: Lake) -> None:
    """Remove what no Iceberg table needs any more."""
    if _read_known(location) is not None:
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
    known = _read_known(location)
    return [] if known is None else make_problems(known.faults)


def _read_known(location: Lake) -> Published | None:
    """Read what was published; None if nothing ever was."""
    with LakeReader(location).explained(location.path(FOLDER)):
        folder = open_folder(location.path(""))
        name = f"{FOLDER}/{_FILE}"
        if folder.get_file_info(name).type is not fs.FileType.File:
            return None
        return read_json_file(folder, name, Published) or Published()


def write_published(location: Lake, published: Published) -> None:
    """Write what was published."""
    with LakeReader(location).explained(location.path(FOLDER)):
        write_json_file(create_folder(location.path(FOLDER)), _FILE, published)
