"""Events that no table can have: which differ from their checksums, and why any is left out."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ticdc_assets.errors import (
    CONTENT_ERRORS,
    InvalidValue,
    MalformedMessage,
    MissingPayload,
    RowChecksumMismatch,
    TicdcError,
    describe_content_error,
)
from ticdc_assets.events import Checksum, FilePosition, Op, RowChange, TableSchema
from ticdc_assets.rows.images import SideRows
from ticdc_assets.rows.stored import read_stored
from ticdc_assets.schema.types.checksum import ChecksumVerifier
from ticdc_assets.schema.types.either_moment import check_identity
from ticdc_assets.schema.types.row import RowReader
from ticdc_assets.schema.types.value import Value
from ticdc_assets.stream import problem

# Where an event came from.
ORIGIN = (
    *("batch", "seq", "index", "database", "table"),
    *("commit_ts", "source", "partition", "number"),
)
# For work on the images of a row, which concerns nothing else of its event.
NO_CHANGE = RowChange(op=Op.UPSERT, commit_ts=0, database="", table="", position=FilePosition(""))
# The events that are left out.
_NOTHING = pa.schema(
    [
        *(("batch", pa.int64()), ("seq", pa.int64()), ("index", pa.int64())),
        *(("database", pa.string()), ("table", pa.string()), ("commit_ts", pa.int64())),
        *(("source", pa.string()), ("partition", pa.int32()), ("number", pa.int64())),
        *(("error", pa.string()), ("reason", pa.string()), ("raw", pa.binary())),
    ]
).empty_table()
_UNREADABLE = "a value that Delta's type of the column cannot hold"


def find_mismatches(
    events: pa.Table, new: SideRows, key_only: pa.Array, schema: TableSchema
) -> dict[int, str]:
    """Verify the checksums that came with rows, on the values that their table gets.

    Return how events differ from them, by their places.
    """
    verifier = ChecksumVerifier(schema)
    columns = (events[name].to_pylist() for name in ("before", "after", "checksum"))
    stated = zip(*columns, key_only.to_pylist(), new.invalid.to_pylist(), strict=True)
    typed = _list_rows(new, schema)
    mismatches = {}
    for place, (before, after, checksum, is_key, is_invalid) in enumerate(stated):
        if checksum is None or is_invalid:
            continue
        change = replace(NO_CHANGE, before=before, after=after, handle_key_only=is_key)
        row = None if after is None else typed[place]
        mismatch = compare_checksums(verifier, change, checksum, row)
        if mismatch is not None:
            mismatches[place] = mismatch
    return mismatches


def compare_checksums(
    verifier: ChecksumVerifier,
    change: RowChange,
    stated: Mapping[str, Any],
    typed_row: Mapping[str, Value] | None,
) -> str | None:
    """Return how the images of a change differ from the checksums stated; None if they do not."""
    verdict = verifier.verify(replace(change, checksum=Checksum(**stated)), typed_row)
    return verdict.describe() if verdict.status == "mismatch" else None


def _list_rows(rows: SideRows, schema: TableSchema) -> list[dict[str, Any]]:
    """Return typed rows."""
    types = {column.name: column.type for column in schema.columns}
    names = list(rows.columns)
    values = [read_stored(stored, types[name]) for name, stored in rows.columns.items()]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


class Explainer:
    """Explains why events that were written under one schema are left out of their table."""

    def __init__(
        self, schema: TableSchema, table: TableSchema, *, member_names: bool, fault: str | None
    ) -> None:
        """`fault`: why all of them are."""
        self._read = RowReader(schema, member_names=member_names)
        self._table = table
        self._fault = fault

    def __call__(
        self,
        events: pa.Table,
        is_left_out: pa.Array,
        key_only: pa.Array,
        mismatches: Mapping[int, str],
    ) -> pa.Table:
        """Return where each event is that is left out, its error, the reason, and its image."""
        places = pc.indices_nonzero(is_left_out)
        if not len(places):
            return _NOTHING
        names = [*ORIGIN, "statement", "before", "after"]
        left_out = events.select(names).append_column("key_only", key_only).take(places)
        errors = [
            explain_key_only(row["statement"])
            if row["key_only"]
            else explain(
                self._read,
                self._table,
                (row["before"], row["after"]),
                fault=self._fault,
                mismatch=mismatches.get(place),
            )
            for place, row in zip(places.to_pylist(), left_out.to_pylist(), strict=True)
        ]
        columns = {name: left_out[name] for name in ORIGIN}
        columns["error"] = pa.array([error for error, _ in errors], pa.string())
        # Lone surrogates stand for bytes that are not UTF-8.
        reasons = (reason.encode(errors="backslashreplace").decode() for _, reason in errors)
        columns["reason"] = pa.array(reasons, pa.string())
        raw = pc.coalesce(left_out["after"], left_out["before"], "").cast(pa.binary())
        return pa.table({**columns, "raw": raw})


def explain_key_only(upstream: str | None) -> tuple[str, str]:
    """Return the error and the reason of a row of which the stream has only the key.

    `upstream` states what came of fetching the row (`RowChange.upstream`).
    """
    return MissingPayload.__name__, problem.explain_key_only(upstream)


def explain(
    read: RowReader,
    table: TableSchema,
    sides: Sequence[str | None],
    *,
    fault: str | None,
    mismatch: str | None,
) -> tuple[str, str]:
    """Return the error and the reason why a table cannot have a change with such images.

    `fault`: why no change of its kind can be read; `mismatch`: how it differs from its checksums.
    """
    if fault is not None:
        return MalformedMessage.__name__, fault
    texts = [text for text in sides if text]
    try:
        images = [read(text) for text in texts]
        for text in texts:
            check_identity(table, text)
    except CONTENT_ERRORS as error:
        kind = type(error) if isinstance(error, MalformedMessage | InvalidValue) else TicdcError
        return kind.__name__, describe_content_error(error)
    new = images[-1] if images else {}
    # The old row of an update leaves out what did not change.
    rows = [{**new, **image} for image in images] or [new]
    lacking = [name for name in table.key if any(row.get(name) is None for row in rows)]
    if lacking:
        return MalformedMessage.__name__, f"the row lacks its key: {', '.join(lacking)}"
    if mismatch is not None:
        return RowChecksumMismatch.__name__, mismatch
    return InvalidValue.__name__, _UNREADABLE
