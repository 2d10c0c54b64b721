"""A lake at one ts, and the way to it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import index
from typing import Any, SupportsIndex

from pyarrow import fs

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.sink_uri import nearest
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.tso_text import describe_ts, from_datetime, parse_tso
from ticdc_assets.log.applied_files import read_existing_snapshot, read_snapshot_names
from ticdc_assets.log.snapshot import list_valid_snapshots
from ticdc_assets.reading.faults import explain_argument, naming_parameters
from ticdc_assets.reading.moment import Dated
from ticdc_assets.reading.table import PinnedTable
from ticdc_assets.resources.lake import make_absolute
from ticdc_assets.safe_text import quote_given
from ticdc_assets.store.format import LakeTooNew
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.reader import LakeNotFound, LakeReader, open_folder
from ticdc_assets.views.asof import AsOfView, as_of
from ticdc_assets.views.lake_range import require_in_range
from ticdc_assets.views.names import LakeNames

# A TSO, a time with its zone, or a text as commands take it: 2026-03-14T09:26:53Z, or -10m.
Moment = SupportsIndex | datetime | str
# `db.table`, or both apart, for names with dots.
TableName = str | tuple[str, str]


def open_lake(
    uri: str | os.PathLike[str], changefeed: str | Changefeed | None = None
) -> "PinnedLake":
    """Open the tables of a changefeed in a lake, pinned to its newest snapshot.

    `uri` is a path, or the URI of an object store.  `changefeed` is an id, which a lake of one
    changefeed does not need, or a declaration (`changefeed.load_changefeeds`), which reading at a
    TSO between two snapshots takes.
    """
    root = make_absolute(_read_uri(uri), setting="uri")
    if not isinstance(changefeed, str | Changefeed | None):
        accepted = "an id, or a declaration such as load_changefeeds(file)[id]"
        raise explain_argument("changefeed", accepted, changefeed)
    declaration = changefeed if isinstance(changefeed, Changefeed) else None
    with naming_parameters():
        if isinstance(changefeed, Changefeed):
            id = changefeed.id
        else:
            id = _choose_changefeed(root) if changefeed is None else _require(root, changefeed)
        return PinnedLake(as_of(LakeSession(_take_spark, Lake(root, id), declaration)))


@dataclass(frozen=True, repr=False, eq=False)
class PinnedLake(Dated):
    """All tables of a changefeed at one ts, whatever is applied later."""

    _view: AsOfView

    @property
    def changefeed(self) -> str:
        """The id of the changefeed."""
        return self._view.lake.location.changefeed

    @property
    def resolved_ts(self) -> int:
        """The TSO at which all tables are what TiDB had."""
        return self._view.ts

    def at(self, moment: Moment) -> "PinnedLake":
        """Open the lake at another ts."""
        ts = _find_ts(moment)
        with naming_parameters():
            last = read_existing_snapshot(self._reader)
            require_in_range(self._reader, ts, last)
            if self._view.lake.declaration is None:
                self._require_snapshot(ts)
            return PinnedLake(as_of(self._view.lake, ts))

    def snapshots(self) -> list[int]:
        """List the TSOs of the snapshots, up to this one; no events are needed to read at one."""
        names = list_valid_snapshots(read_snapshot_names(self._reader))
        return sorted({n.resolved_ts for n in names if 0 < n.resolved_ts <= self.resolved_ts})

    def tables(self) -> list[PinnedTable]:
        """List the tables by name, those that cannot be read, too."""
        return [PinnedTable(self._view, table) for table in self._view.tables()]

    def table(self, name: TableName, at: Moment | None = None) -> PinnedTable:
        """Find the table that has a name, here or at another ts."""
        if at is not None:
            return self.at(at).table(name)
        text = _join_name(name)
        found = [table for table in self._view.find(text) if _has_name(table.schema, name)]
        if len(found) > 1:
            pairs = " or ".join(str((t.schema.database, t.schema.table)) for t in found)
            raise ConfigError(f"{text} may be {pairs}: give the pair", setting="name")
        if not found:
            names = LakeNames.open(self._reader, self._view.lake.declaration)
            raise names.explain(text, self.resolved_ts, "name")
        return PinnedTable(self._view, found[0])

    def _require_snapshot(self, ts: int) -> None:
        """Raise an error that names the snapshots around a ts that has none."""
        names = list_valid_snapshots(read_snapshot_names(self._reader))
        times = {name.resolved_ts for name in names}
        if ts in times:
            return
        around = max((t for t in times if t < ts), default=0), min(t for t in times if t > ts)
        between = " and ".join(describe_ts(t) for t in around if t)
        reason = (
            f"{describe_ts(ts)} is no snapshot: the next ones are at {between}. To read between"
            " snapshots, open the lake with the changefeed's declaration:"
            " open_lake(uri, load_changefeeds(file)[id])"
        )
        raise ConfigError(reason, setting="at")

    @property
    def _reader(self) -> LakeReader:
        return LakeReader(self._view.lake.location)

    def __repr__(self) -> str:
        return f"<{self.changefeed} at {describe_ts(self.resolved_ts)}>"


def _read_uri(uri: object) -> str:
    text = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(text, str):
        raise explain_argument("uri", "a path, or the URI of an object store", uri)
    return text


def _join_name(name: object) -> str:
    match name:
        case str():
            return name
        case (str() as database, str() as table):
            return f"{database}.{table}"
    accepted = "a name such as 'shop.orders', or the pair ('shop', 'orders')"
    raise explain_argument("name", accepted, name)


def _has_name(schema: TableSchema, name: TableName) -> bool:
    if isinstance(name, str):
        return True
    return (fold_name(schema.database), fold_name(schema.table)) == tuple(map(fold_name, name))


def _find_ts(moment: object) -> int:
    """Return the TSO that a caller means."""
    # True is 1 to Python, and no TSO to anybody.
    if isinstance(moment, SupportsIndex) and not isinstance(moment, bool):
        # An integer of NumPy is one, too.
        return index(moment)
    try:
        if isinstance(moment, str):
            return parse_tso(moment, datetime.now(UTC))
        if isinstance(moment, datetime):
            if moment.tzinfo is None:
                raise ValueError("has no zone: add tzinfo, such as datetime.UTC")
            return from_datetime(moment)
    except ValueError as error:
        raise ConfigError(f"{quote_given(str(moment))} {error}", setting="at") from None
    accepted = "a TSO, a datetime with its zone, or a text such as 2026-03-14T09:26:53Z or -10m"
    raise explain_argument("at", accepted, moment)


def _take_spark() -> Any:
    raise ConfigError("only Spark reads this table: use spark(session)", setting="table")


def _choose_changefeed(root: str) -> str:
    """Return the only changefeed of a lake."""
    found = list(_list_changefeeds(root))
    if len(found) == 1:
        return found[0]
    if found:
        reason = f"the lake holds {', '.join(found)}: choose one"
    elif _is_changefeed(*os.path.split(root.rstrip("/"))):
        reason = "is the folder of a changefeed: give the folder above it, the lake"
        raise ConfigError(reason, file=root, setting="uri")
    else:
        reason = "holds no tables of any changefeed: is it the lake's folder, and has advance run?"
    raise ConfigError(reason, file=root, setting="changefeed")


def _require(root: str, id: str) -> str:
    """Return the id of a changefeed if the lake has it."""
    if _is_changefeed(root, id):
        return id
    found = list(_list_changefeeds(root))
    known = f"only {', '.join(found)}{nearest(id, found)}" if found else "nor any other"
    reason = f"the lake holds no changefeed {quote_given(id)}, {known}"
    raise ConfigError(reason, file=root, setting="changefeed")


def _list_changefeeds(root: str) -> Iterator[str]:
    """Yield the folders of changefeeds: each names its changefeed, or stands for its id."""
    reader = LakeReader(Lake(root, ""))
    with reader.explained(root):
        infos = open_folder(root).get_file_info(fs.FileSelector("", allow_not_found=True))
    for name in sorted(info.base_name for info in infos if info.type is fs.FileType.Directory):
        # Other folders may have any name.
        is_possible = Lake(root, name).path("") == f"{root.rstrip('/')}/{name}/"
        if is_possible and _is_changefeed(root, name):
            yield name


def _is_changefeed(root: str, id: str) -> bool:
    try:
        LakeReader(Lake(root, id)).open("applied")
    except LakeNotFound:
        return False
    except LakeTooNew:
        # Whoever opens it gets this error; others can be read.
        return True
    return True
