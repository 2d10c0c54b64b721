"""Erase a row from what came in: `raw`, the quarantine and `events`."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.erase.target import Target
from ticdc_assets.errors import CONTENT_ERRORS
from ticdc_assets.events.row_image import load
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.events.decode_workers import RECORD_COLUMNS, make_record_worker
from ticdc_assets.lake.events.erased_events import KIND, TESTED, ErasedEvents, read_values
from ticdc_assets.lake.raw.erased_records import ERASED, erase_records, holds_records
from ticdc_assets.log.erasures import Erasure, make_digest
from ticdc_assets.log.folds import read_fold
from ticdc_assets.store.file_rewrites import FileRewrite, RowChoice, commit_rewrite
from ticdc_assets.store.reader import LakeReader

# An event, or the input of a quarantined row: its `seq` and `index`.
_Input = tuple[int, int]
_LOADED, _UNDECODED = "load", "decode"


class InputRows:
    """Erases what an erasure recognizes from what came in, and all that is as unreadable as it."""

    def __init__(
        self, feed: Changefeed, reader: LakeReader, erasure: Erasure, target: Target
    ) -> None:
        self._feed = feed
        self._reader = reader
        self._erasure = erasure
        self._target = target
        self._erased = ErasedEvents((erasure,))
        self._values = tuple(value.encode() for value in target.values)

    def erase(self) -> dict[str, int]:
        """Erase the row; return how many records, quarantined rows and events had it.

        Events go last: they tell which records and quarantined rows are concerned.
        """
        inputs = self._find_inputs()
        records = {seq for seq, _ in inputs} | self._find_unread()
        counts = {"raw": self._erase_raw(records)}
        counts["quarantine"] = self._rewrite("quarantine", self._choose_quarantined(inputs))
        if self._values:
            self._rewrite("events", self._choose_reasons())
        counts["events"] = self._rewrite("events", self._choose_events())
        return counts

    def _find_inputs(self) -> set[_Input]:
        """Find the events of the row, and those of it that came again."""
        names = sorted({place.name for place in self._erasure.places})
        kinds = pc.field("kind").isin(["row", KIND])
        where = kinds & pc.field("name").isin(names)
        events = self._reader.open("events")
        found: set[_Input] = set()
        for block in self._reader.read_blocks(events, [*TESTED, "seq", "index"], where):
            chosen = pc.or_(self._erased.choose(block), _is(block["kind"], KIND))
            rows = block.filter(chosen)
            found |= {*zip(rows["seq"].to_pylist(), rows["index"].to_pylist(), strict=True)}
        return found

    def _find_unread(self) -> set[int]:
        """Find input that could not be decoded, and has values of the row."""
        if not self._values:
            return set()
        where = pc.field("stage") == _UNDECODED
        quarantine = self._reader.open("quarantine")
        found: set[int] = set()
        for block in self._reader.read_blocks(quarantine, ["seq", "raw", "reason"], where):
            found |= {row["seq"] for row in block.to_pylist() if self._has_values(row)}
        return found

    def _has_values(self, row: Mapping[str, Any]) -> bool:
        content = (row["raw"] or b"") + (row["reason"] or "").encode()
        return any(value in content for value in self._values)

    def _erase_raw(self, seqs: Collection[int]) -> int:
        if not holds_records(self._reader):
            return 0
        return erase_records(self._reader.location, {*seqs, *self._find_folded()})

    def _find_folded(self) -> Iterator[int]:
        """Yield the records of events that a fold has removed: only they themselves tell."""
        fold = read_fold(self._reader)
        if not fold.snapshot_id:
            return
        decode = make_record_worker(self._feed, None, None, self._erased)
        where = pc.field("batch") <= fold.batch
        records = self._reader.read_blocks(self._reader.open("raw"), RECORD_COLUMNS, where)
        batches = (batch for block in records for batch in block.to_batches())
        for events in decode(batches):
            is_of_row = pc.fill_null(pc.equal(events.column("kind"), KIND), False)
            yield from events.column("seq").filter(is_of_row).to_pylist()

    def _rewrite(self, table: str, choice: RowChoice) -> int:
        rewrite = FileRewrite(self._reader, table, choice)
        commit_rewrite(rewrite)
        return rewrite.rows

    def _choose_events(self) -> RowChoice:
        """Choose the events of the row."""
        names = tuple(sorted({place.name for place in self._erasure.places}))
        return RowChoice(TESTED, self._erased.choose, self._erased.change, {"name": names})

    def _choose_reasons(self) -> RowChoice:
        """Choose reasons for which input could not be decoded that quote values of the row."""
        values = [value.decode() for value in self._values]

        def choose(rows: pa.Table) -> pa.Array:
            found = pc.equal(rows["kind"], "quarantined")
            quoting = pc.match_substring_regex(rows["statement"], "|".join(map(re.escape, values)))
            return pc.fill_null(pc.and_(found, quoting), False).combine_chunks()

        def change(rows: pa.Table, chosen: pa.Array) -> pa.Table:
            return _put(rows, "statement", pc.if_else(chosen, ERASED, rows["statement"]))

        return RowChoice(("kind", "statement"), choose, change)

    def _choose_quarantined(self, inputs: Collection[_Input]) -> RowChoice:
        """Choose the quarantined rows of the row: their bytes, and reasons that may quote them."""
        columns = ("stage", "seq", "index", "database", "table", "source", "raw", "reason")

        def is_of_row(row: Mapping[str, Any]) -> bool:
            if row["reason"] == ERASED:
                return False
            if row["stage"] == _LOADED:
                return self._is_loaded(row)
            if row["stage"] == _UNDECODED:
                return self._has_values(row)
            return (row["seq"], row["index"]) in inputs

        def test(rows: pa.Table, is_chosen: Callable[[Mapping[str, Any]], bool]) -> pa.Array:
            return pa.array(list(map(is_chosen, rows.select(columns).to_pylist())), pa.bool_())

        def choose(rows: pa.Table) -> pa.Array:
            return pc.or_(test(rows, is_of_row), test(rows, self._is_behind))

        def change(rows: pa.Table, _: pa.Array) -> pa.Table:
            chosen, is_behind = test(rows, is_of_row), test(rows, self._is_behind)
            nothing = pa.scalar(None, rows.schema.field("raw").type)
            rows = _put(rows, "raw", pc.if_else(chosen, nothing, rows["raw"]))
            rows = _put(rows, "source", pc.if_else(is_behind, rows["table"], rows["source"]))
            return _put(rows, "reason", pc.if_else(chosen, ERASED, rows["reason"]))

        return RowChoice(columns, choose, change)

    def _is_behind(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row that a load could not read is in a range that the key begins."""
        source = row["source"] or ""
        is_own = row["stage"] == _LOADED and self._is_of_table(row) and source != row["table"]
        return is_own and any(text in source for text in self._target.texts)

    def _is_of_table(self, row: Mapping[str, Any]) -> bool:
        own = fold_name(self._target.database), fold_name(self._target.table)
        return (fold_name(row["database"] or ""), fold_name(row["table"] or "")) == own

    def _is_loaded(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row that a load could not read is the row."""
        if not self._is_of_table(row):
            return False
        try:
            image = load((row["raw"] or b"").decode())
        except CONTENT_ERRORS:
            return self._has_values(row)
        return any(
            make_digest(self._erasure.salt, read_values(image, place.columns))
            in self._erasure.digests
            for place in self._erasure.places
        )


def _is(column: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(column, text), False)


def _put(rows: pa.Table, name: str, column: Any) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), column)
