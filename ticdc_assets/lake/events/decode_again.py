"""Decode input again: its events become what the declaration and the software of now make of it.

Events keep their batch and their place.  No current table changes by this: those that may differ
now are named, and have to be replayed from all their events.  A run that was killed may have
replaced some events; the next one replaces them all.

Nothing goes that cannot be decoded any more: events of files that are gone stay, and so do rows
that upstream supplied, and those of records that have an erased row; and if records are gone, or
their claim-check objects, nothing is replaced.

Row events that a fold covers stay gone; those of input that can be decoded only now are
quarantined.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.errors import ConfigError, LostRecords, MissingPayload
from ticdc_assets.events import FETCHED
from ticdc_assets.lake.events.decode_folder import FolderDecode
from ticdc_assets.lake.events.decode_workers import RECORD_COLUMNS, FolderReader, make_record_worker
from ticdc_assets.lake.events.decoded_below import DecodedBelow
from ticdc_assets.lake.events.erased_events import read_erased_events
from ticdc_assets.lake.events.event_commits import Decoded, EventCommits
from ticdc_assets.lake.events.pending_files import read_decoded_files
from ticdc_assets.lake.events.quarantine import update_quarantine
from ticdc_assets.lake.events.schema_files import FindSchemas
from ticdc_assets.lake.raw.erased_records import list_erased_records
from ticdc_assets.protocols.payload import PayloadStore
from ticdc_assets.store.contracts import EVENTS
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.sql import quote_literal
from ticdc_assets.upstream.snapshot import OpenUpstream

_NOT_BATCH = "kind <> 'batch'"


@dataclass(frozen=True)
class DecodedAgain:
    """What was decoded again."""

    # Tables, as `events` names them, whose rows may be others now; None: all may be.
    names: frozenset[str] | None
    # Files that are gone.
    gone: int = 0


class DecodeAgain:
    """Decodes the input of some tables again, or all input; and what is quarantined in any case."""

    def __init__(self, lake: LakeSession, names: Collection[str] | None) -> None:
        """`names` are tables, as `events` names them; None stands for all input."""
        self._lake = lake
        self._names = names
        # First of all: a commit is void if another run commits after this.
        self._commits = EventCommits(lake)
        self._erased = read_erased_events(LakeReader(lake.location))
        self._replaced = f"{_NOT_BATCH} AND {_choose(names)}"
        if self._erased is not None and (kept := list_erased_records(lake.location)):
            self._replaced += f" AND seq NOT IN ({', '.join(map(str, kept))})"
        events = lake.read("events")
        self._old = events.where(self._replaced)
        # Read before anything is replaced.
        self._quarantined = events.where("kind = 'quarantined'").select("seq").distinct()
        self._quarantined = self._quarantined.localCheckpoint()
        self._below = DecodedBelow(lake)

    def decode_records(
        self,
        open_payloads: Callable[[], PayloadStore] | None,
        open_upstream: OpenUpstream | None,
    ) -> DecodedAgain:
        """Decode records again that are in `raw`."""
        lake, events = self._lake, self._lake.read("events")
        raw = lake.read("raw")
        needed = self._old.select("seq").distinct()
        if gone := needed.join(raw, "seq", "left_anti").count():
            reason = f"{gone:,} records are not in raw any more: rebuild from events"
            raise ConfigError(reason, setting="--from-raw")
        if self._names is None:
            done = events.where("kind = 'batch'").select("batch")
            records = raw.join(done, "batch", "left_semi")
        else:
            records = raw.join(needed, "seq", "left_semi")
        decode = make_record_worker(lake.feed, open_payloads, open_upstream, self._erased)
        decoded = records.select(*RECORD_COLUMNS).mapInArrow(decode, EVENTS)
        kept = events.where(f"{_NOT_BATCH} AND NOT ({self._replaced})").select("seq", "index")
        new = decoded.join(kept, ["seq", "index"], "left_anti").select(*decoded.columns).persist()
        is_covered = self._below.fold.covers(F.col)
        try:
            self._require_payloads(new)
            if self._below.fold.snapshot_id:
                self._below.quarantine(new.where(is_covered).toArrow())
            if not self._commits.commit(
                Decoded(new.where(~is_covered), replaced=self._replaced), []
            ):
                raise ConfigError("another run has changed the lake: run it again")
        finally:
            new.unpersist()
        update_quarantine(lake, 0, {}, of_records=True)
        return DecodedAgain(self._find_names())

    def decode_files(
        self,
        present: Collection[str],
        open_folder: Callable[[], FolderReader],
        find_schemas: FindSchemas,
    ) -> DecodedAgain:
        """Decode files again: those of the source that are still there."""
        files = read_decoded_files(self._lake)
        if self._names is not None:
            rows = self._old.select("source").distinct().toArrow()
            chosen = set(rows["source"].to_pylist())
            files = [row for row in files if row["path"] in chosen]
        there = [row for row in files if row["role"] == "schema" or row["path"] in present]
        FolderDecode(self._lake, open_folder, find_schemas, 0).run_again(there)
        self._below.remove()
        update_quarantine(self._lake, 0, {}, of_records=False)
        return DecodedAgain(self._find_names(), len(files) - len(there))

    def _require_payloads(self, new: DataFrame) -> None:
        """Fail if something cannot be decoded now because an object is gone."""
        lost = new.where(
            (F.col("kind") == "quarantined") & (F.col("error") == MissingPayload.__name__)
        )
        lost = lost.join(self._quarantined, "seq", "left_anti")
        if count := lost.count():
            reason = (
                f"the claim-check objects of {count:,} records that were decoded cannot be read"
                " any more: rebuild from events"
            )
            raise ConfigError(reason, setting="--from-raw")

    def _find_names(self) -> frozenset[str] | None:
        """Return the tables that were chosen, and those of input that was quarantined before."""
        if self._names is None:
            return None
        events = self._lake.read("events").join(self._quarantined, "seq", "left_semi")
        stating = events.where("kind IN ('row', 'ddl', 'bootstrap')")
        found = stating.select("kind", "name").distinct().collect()
        if any(row["kind"] != "row" for row in found):
            return None
        return frozenset(self._names) | {row["name"] for row in found}


def _choose(names: Collection[str] | None) -> str:
    """Return an SQL condition for the events that are replaced."""
    # Upstream may not be able to supply a row again.
    is_decoded = f"NOT (kind = 'row' AND coalesce(statement, '') = '{FETCHED}')"
    if names is None:
        return is_decoded
    listed = ", ".join(map(quote_literal, sorted(names)))
    of_tables = f"kind = 'row' AND name IN ({listed}) OR " if listed else ""
    is_input = f"kind = 'quarantined' AND error <> '{LostRecords.__name__}'"
    return f"({of_tables}{is_input}) AND {is_decoded}"
