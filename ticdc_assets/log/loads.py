"""The loads of a changefeed: a load takes effect once its row is here, for whole tables at a time.

Loading a table writes its rows to a Delta table that nothing names, and then this row.  A load that
was killed before has no row, and one that finds a row of the same table and ts gives up.
"""

from collections.abc import Container
from datetime import UTC

import pyarrow.compute as pc
from msgspec.structs import replace

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.log.folds import read_fold
from ticdc_assets.plan.load import Load, name_loaded_incarnation
from ticdc_assets.protocols.registry import get_ordering
from ticdc_assets.store.arrow import make_table
from ticdc_assets.store.contracts import LOADS
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeNotFound, LakeReader
from ticdc_assets.store.stage_commits import StageMark, commit_rows
from ticdc_assets.store.texts import replace_surrogates

_STAGE = "load"
# The first event of a changefeed is in one of its first batches.
_EARLY_BATCHES = 3
_COLUMNS = (
    *("id", "ts", "incarnation", "version", "rows", "quarantined", "origin", "loaded_at"),
    "schema",
)


def read_loads(reader: LakeReader, known: Container[str] = ()) -> list[Load]:
    """Read the loads of incarnations that are not known, in the order in which they were made."""
    try:
        opened = reader.open("loads")
    except LakeNotFound:
        # An older release created the lake.
        return []
    # Every run wants to know of new ones, and schemas are long.
    named = reader.read(opened, ["id", "incarnation"]).to_pylist()
    ids = [row["id"] for row in named if row["incarnation"] not in known]
    if not ids:
        return []
    rows = reader.read(opened, _COLUMNS, pc.field("id").isin(ids)).to_pylist()
    loads = [Load(**{**row, "schema": read_json(row["schema"], TableSchema)}) for row in rows]
    return sorted(loads, key=lambda load: load.id)


def find_newest_load(reader: LakeReader) -> int:
    """Return the number of the newest load; 0 if there is none."""
    try:
        return reader.max_of(reader.open("loads"), "id")
    except LakeNotFound:
        return 0


def find_covered_ts(reader: LakeReader, feed: Changefeed) -> int:
    """Return a ts after which the lake has every change; 0 if nothing is known of it yet."""
    fold = read_fold(reader)
    if fold.snapshot_id:
        return fold.ts
    known = [] if feed.start_ts is None else [feed.start_ts]
    events = reader.open("events")
    first_batch = reader.min_of(events, "batch")
    if first_batch is not None:
        # Bootstraps, and the watermarks of a changefeed that has just begun, may state 0.
        is_dated = pc.field("kind").isin(("row", "ddl", "watermark")) & (pc.field("commit_ts") > 0)
        is_early = pc.field("batch") < first_batch + _EARLY_BATCHES
        first = pc.min(reader.read(events, ["commit_ts"], is_dated & is_early)["commit_ts"]).as_py()
        known += [] if first is None else [first]
    return min(known, default=0)


def choose_load_ts(reader: LakeReader, feed: Changefeed, ts: int) -> int:
    """Return the ts of a load whose rows are of `ts`; raise an error if events cannot follow it."""
    try:
        first = find_covered_ts(reader, feed)
    except LakeNotFound:
        first = feed.start_ts or 0
    if ts < first:
        reason = (
            f"the rows to load are of {ts}, and the first event of the changefeed is of {first}:"
            " changes between them would be missing. Load rows of that ts or later; or, if the"
            f" changefeed's start-ts is not after {ts}, declare it"
        )
        raise ConfigError(reason, setting=f"changefeed {feed.id}.start-ts")
    # Events that state milliseconds: those of the last one may be in the rows, and applying them
    # again changes nothing.
    ts = (ts >> 18 << 18) - 1 if get_ordering(feed) == "milliseconds" else ts
    _require_above_fold(reader, feed.id, ts)
    return ts


def _require_above_fold(reader: LakeReader, changefeed: str, ts: int) -> None:
    """Raise a `ConfigError` for rows of a ts behind which changes are gone."""
    fold = read_fold(reader)
    if fold.snapshot_id and ts <= fold.ts:
        reason = (
            f"the rows to load are of {ts}, which is not above {fold.describe()}: the changes since"
            " then are removed in part, so load rows of a later ts"
        )
        raise ConfigError(reason, setting=f"changefeed {changefeed}.keep-events-days")


def append_load(lake: LakeSession, load: Load) -> Load | None:
    """Let a load take effect, and return it with its number, whatever number it had.

    Return None if another load of the table at the same ts has taken effect.
    """
    reader, name = LakeReader(lake.location), name_loaded_incarnation(load.schema, load.ts)
    _require_above_fold(reader, lake.feed.id, load.ts)
    while True:
        opened = reader.open("loads")
        named = reader.read(opened, ["incarnation"], pc.field("ts") == load.ts)
        if any(text.startswith(name) for text in named["incarnation"].to_pylist()):
            return None
        load = replace(load, id=reader.max_of(opened, "id") + 1)
        schema = load.schema
        row = (
            load.id,
            load.ts,
            load.incarnation,
            replace_surrogates(schema.database),
            replace_surrogates(schema.table),
            load.version,
            load.rows,
            load.quarantined,
            replace_surrogates(load.origin),
            load.loaded_at.astimezone(UTC),
            write_json(schema),
        )
        if commit_rows(lake, "loads", make_table(LOADS, [row]), StageMark(_STAGE, load.id)):
            return load
        # Another load took the number meanwhile.
