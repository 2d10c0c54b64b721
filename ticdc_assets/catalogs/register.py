"""Bring the entries of one catalog to the newest snapshot of a lake.

What was registered is in a file beside the tables, so that a run makes calls for what changed only.
The file may be lost, or wrong: before an entry is replaced or dropped, the catalog says whose it
is, and once a day all entries are compared.
"""

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import msgspec
from pyarrow import fs

from ticdc_assets.catalogs.calls import call_each, limited_calls, require_time
from ticdc_assets.catalogs.entry import OWNER, Catalog, EntryName, FoundEntry
from ticdc_assets.catalogs.names import EntryFault, map_names
from ticdc_assets.catalogs.shown import ShownTables, read_shown
from ticdc_assets.errors import CatalogDown, CatalogError, ConfigError
from ticdc_assets.events.written import write_json
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.store.json_files import read_json_file, write_json_file
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader, create_folder, open_folder
from ticdc_assets.stream.problem import Problem

# No call begins later, and the next run goes on.
_MOST_SECONDS = 30.0
_COMPARED_EVERY = timedelta(days=1)
_MOST_SHOWN = 20


class RegisteredEntry(msgspec.Struct, frozen=True, array_like=True):
    database: str
    name: str
    # A hash of what the entry was made of.
    made_of: str


class Registration(msgspec.Struct, frozen=True):
    """What was registered in a catalog, and what was not."""

    # Where the catalog is.
    place: str = ""
    rule: str = ""
    snapshot_id: int = 0
    # When all entries were compared.
    compared_at: datetime = datetime.min.replace(tzinfo=UTC)
    entries: tuple[RegisteredEntry, ...] = ()
    problems: tuple[str, ...] = ()
    # Which Iceberg tables they were.
    born: str = ""

    def is_current(self, catalog: Catalog, shown: ShownTables, now: datetime) -> bool:
        """Whether a catalog needs no call."""
        is_done = self.snapshot_id == shown.snapshot_id and not self.problems
        is_same = (self.rule, self.born) == (catalog.rule, shown.born)
        return is_done and is_same and not self.needs_comparison(catalog, now)

    def needs_comparison(self, catalog: Catalog, now: datetime) -> bool:
        is_old = not now - _COMPARED_EVERY < self.compared_at <= now
        return is_old or self.place != catalog.place


def read_registration(lake: Lake, kind: str) -> Registration:
    """Read what was registered in a catalog; nothing if that is not known."""
    with LakeReader(lake).explained(lake.path(_name_file(kind))):
        folder = open_folder(lake.path(""))
        if folder.get_file_info(_name_file(kind)).type is not fs.FileType.File:
            return Registration()
        return read_json_file(folder, _name_file(kind), Registration) or Registration()


def register_tables(
    lake: Lake, snapshot: Snapshot, catalog: Catalog, iceberg: tuple[str, ...] = ()
) -> list[Problem]:
    """Bring the entries of a catalog to a snapshot that is published; return what is not so.

    `iceberg` is what is declared as Iceberg tables.  Raise a `ConfigError` if the snapshot is not
    published as this catalog has it.
    """
    known = read_registration(lake, catalog.kind)
    shown = read_shown(lake, snapshot, catalog.format, iceberg)
    now = datetime.now(UTC)
    if known.is_current(catalog, shown, now):
        return []
    if known.place != catalog.place:
        known = Registration(place=catalog.place)
    update = _Update(shown, catalog, known)
    with limited_calls(_MOST_SECONDS):
        update.run(is_full=known.needs_comparison(catalog, now))
    # Whoever waited for this thread may have gone on, and another run may be at work.
    require_time()
    problems = _make_problems(catalog.kind, update.faults)
    done = Registration(
        catalog.place,
        catalog.rule,
        snapshot.snapshot_id,
        now if update.is_compared else known.compared_at,
        tuple(RegisteredEntry(*name, made_of) for name, made_of in update.entries.items()),
        tuple(problem.describe() for problem in problems),
        shown.born,
    )
    _write(lake, catalog.kind, done)
    return problems


def record_failure(lake: Lake, kind: str, error: ConfigError) -> list[Problem]:
    """Record why nothing can be said of a catalog; the next run tries again."""
    problems = _make_problems(kind, [EntryFault(str(error))])
    try:
        known = read_registration(lake, kind)
        shown = tuple(problem.describe() for problem in problems)
        _write(lake, kind, msgspec.structs.replace(known, problems=shown))
    except ConfigError as unwritten:
        problems += _make_problems(kind, [EntryFault(str(unwritten))])
    return problems


def _write(lake: Lake, kind: str, registration: Registration) -> None:
    with LakeReader(lake).explained(lake.path(_name_file(kind))):
        write_json_file(create_folder(lake.path("")), _name_file(kind), registration)


def _name_file(kind: str) -> str:
    return f"catalog-{kind}.json"


def _make_problems(kind: str, faults: list[EntryFault]) -> list[Problem]:
    # Whatever the order in which calls came back; what concerns all comes first.
    faults = sorted(faults, key=lambda fault: (fault.database, fault.table, fault.reason))
    if rest := faults[_MOST_SHOWN:]:
        faults = [*faults[:_MOST_SHOWN], EntryFault(f"{len(rest):,} more tables have no entry")]
    return [
        Problem("catalog", f"{kind}: {fault.reason}", fault.database, fault.table)
        for fault in faults
    ]


class _Update:
    """The work on a catalog's entries, as far as it got."""

    def __init__(self, shown: ShownTables, catalog: Catalog, known: Registration) -> None:
        self._shown = shown
        self._lake = shown.lake
        self._catalog = catalog
        self._tables = shown.tables
        self._home = catalog.locate(self._lake.path(shown.folder))
        schemas = {address: table.schema for address, (table, _) in self._tables.items()}
        self._wanted, self.faults = map_names(schemas, catalog.map_name)
        self.entries = {(each.database, each.name): each.made_of for each in known.entries}
        # What the catalog has, if all of it was listed; of some, that is not known yet.
        self._listed: dict[EntryName, FoundEntry | None] | None = None
        self._was_compared = known.compared_at > Registration().compared_at
        self._down: str | None = None
        self._left: list[EntryName] = []

    @property
    def is_compared(self) -> bool:
        return self._listed is not None

    def run(self, *, is_full: bool) -> None:
        """Create and replace entries, then drop those whose names are gone."""
        if is_full:
            self._compare()
        made_of = {name: self._fingerprint(address) for name, address in self._wanted.items()}
        changed = [name for name in made_of if self.entries.get(name) != made_of[name]]
        # What was begun may be there, whatever comes of it.
        self.entries |= dict.fromkeys(changed, "")
        for name in self._do(self._put, changed):
            self.entries[name] = made_of[name]
        for name in self._do(self._drop, [name for name in self.entries if name not in made_of]):
            del self.entries[name]
        if self._down is not None:
            left = f"; the next run goes on ({len(self._left):,} entries)" if self._left else ""
            self.faults.append(EntryFault(f"{self._down}{left}"))

    def _compare(self) -> None:
        """List what the catalog has; entries that are gone, or not ours any more, are not known."""
        (there,) = call_each(lambda _: self._catalog.list_databases(), [""]).values()
        if isinstance(there, CatalogError):
            self._down = there.reason
            return
        databases = {database for database, _ in (*self._wanted, *self.entries)}
        # Of other databases, those that this changefeed made may have entries that it forgot.
        own = {name for name in there if there[name].get(OWNER) == self._lake.changefeed}
        listed: dict[EntryName, FoundEntry | None] = {}
        chosen = sorted(there.keys() & (databases | own))
        for database, found in call_each(self._catalog.list_entries, chosen).items():
            if isinstance(found, CatalogError):
                self._down = found.reason
                return
            listed |= {(database, name): entry for name, entry in found.items()}
        self._listed = listed
        # One that cannot be said of whose it is is known from here on, and found out when it goes.
        ours = [name for name, entry in listed.items() if entry is None or self._is_own(entry)]
        if self._was_compared:
            known = self._wanted.keys() | self.entries.keys()
            ours = [name for name in ours if listed[name] or name in known]
        self.entries = {name: self.entries.get(name, "") for name in ours}

    def _fingerprint(self, address: str) -> str:
        table, version = self._tables[address]
        born = filter(None, [self._shown.born])
        parts = (self._home, address, table.id, version, table.shown_status, *born)
        text = repr(parts) + write_json(table.schema)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]

    def _do(self, work: Callable[[EntryName], None], names: Iterable[EntryName]) -> list[EntryName]:
        """Do the work on entries, unless the catalog is down; return those where it is done."""
        if self._down is not None:
            self._left += names
            return []
        done = []
        for name, error in call_each(work, sorted(names)).items():
            if isinstance(error, CatalogDown):
                self._down = error.reason
                self._left.append(name)
            elif isinstance(error, CatalogError):
                table = self._tables[self._wanted[name]][0].schema if name in self._wanted else None
                names_of = name if table is None else (table.database, table.table)
                self.faults.append(EntryFault(error.reason, *names_of))
            else:
                done.append(name)
        return done

    def _put(self, name: EntryName) -> None:
        address = self._wanted[name]
        location = self._catalog.locate(self._lake.path(f"{self._shown.folder}/{address}"))
        entry = self._shown.make_entry(name, location, address)
        found = self._find(name)
        if found is None:
            self._catalog.create(entry)
        else:
            self._require_own(name, found)
            self._catalog.replace(entry, found)

    def _drop(self, name: EntryName) -> None:
        found = self._find(name)
        if found is not None and self._is_own(found):
            self._catalog.drop(name)

    def _find(self, name: EntryName) -> FoundEntry | None:
        listed = self._listed
        if listed is None or (name in listed and listed[name] is None):
            return self._catalog.find(name)
        return listed.get(name)

    def _is_own(self, entry: FoundEntry) -> bool:
        """Whether an entry was made by this changefeed, for this lake."""
        is_here = entry.location.startswith(f"{self._home}/")
        return is_here and entry.properties.get(OWNER) == self._lake.changefeed

    def _require_own(self, name: EntryName, entry: FoundEntry) -> None:
        if self._is_own(entry):
            return
        there = f"{'.'.join(name)} is there already"
        owner = entry.properties.get(OWNER)
        if owner is None:
            raise CatalogError(
                f"{there}, and no changefeed made it: drop or rename it, or set database-prefix"
            )
        if owner != self._lake.changefeed:
            raise CatalogError(
                f"{there}, of changefeed {owner}: give one of the two another database-prefix"
            )
        raise CatalogError(
            f"{there}, of another lake, at {entry.location}: drop it, or set database-prefix"
        )
