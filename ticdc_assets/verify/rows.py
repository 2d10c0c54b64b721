"""Read the rows that differ from both sides, and say in which columns and why."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ticdc_assets.events.row_image import EITHER
from ticdc_assets.log.verifications import Difference, write_json
from ticdc_assets.verify.canonical import MD5_MARK, ComparedColumn, format_canonical
from ticdc_assets.verify.narrowing import DifferentRow, do_both
from ticdc_assets.verify.side import Comparison, Side, Texts, Value

# A row by its position and the texts of its key.
_Name = tuple[int, Texts]
FindCause = Callable[[str, Sequence[ComparedColumn]], str]
_SHOWN_CHARACTERS = 200


def describe_differences(
    comparison: Comparison,
    sides: tuple[Side, Side],
    different: Sequence[DifferentRow],
    find_cause: FindCause,
    *,
    with_values: bool,
) -> list[Difference]:
    """Describe rows that differ; leave out those whose values turn out to be equal."""
    if not different:
        return []
    positions = {row.position for row in different}
    ours, theirs = do_both(*(partial(_read, side, comparison, positions) for side in sides))
    found = []
    for row in different:
        name = (row.position, row.key)
        one, other = ours.get(name), theirs.get(name)
        columns = comparison.columns
        if row.what == "differs" and one is not None and other is not None:
            columns = _list_different(comparison, one, other)
            if not columns:
                continue
        values = [
            _format_values(comparison, texts, columns) if with_values else None
            for texts in (one, other)
        ]
        named = columns if row.what == "differs" else ()
        found.append(
            Difference(
                _format_key(comparison, row.key),
                row.what,
                row.copies,
                tuple(column.name for column in named),
                find_cause(row.what, named),
                *values,
            )
        )
    return found


def _read(side: Side, comparison: Comparison, positions: set[int]) -> dict[_Name, Texts]:
    return {
        (position, comparison.select(row, comparison.key)): row
        for position, row in side.read_rows(positions)
    }


def _list_different(
    comparison: Comparison, ours: Texts, theirs: Texts
) -> tuple[ComparedColumn, ...]:
    return tuple(
        column
        for column, one, other in zip(comparison.columns, ours, theirs, strict=True)
        if one != other and not _mean_the_same(column, one, other)
    )


def _mean_the_same(column: ComparedColumn, ours: Value, theirs: Value) -> bool:
    """Return whether different texts may be the same value."""
    if ours is None or theirs is None:
        return False
    if column.type.name == "timestamp":
        # The lake knows that it is one of two moments.
        return theirs.decode() in ours.decode().split(EITHER)
    if "json" in (column.type.name, column.lake_type.name):
        return _normalize_json(ours) == _normalize_json(theirs)
    return False


def _normalize_json(text: bytes) -> str | bytes:
    if text.startswith(MD5_MARK):
        return text
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _format_key(comparison: Comparison, key: Texts) -> str | None:
    if not comparison.key:
        return None
    return write_json(
        {
            column.name: format_canonical(text, column)
            for column, text in zip(comparison.key, key, strict=True)
        }
    )


def _format_values(
    comparison: Comparison, row: Texts | None, columns: Iterable[ComparedColumn]
) -> str | None:
    if row is None:
        return None
    texts = dict(zip(comparison.columns, row, strict=True))
    return write_json({column.name: _format_shown(texts[column], column) for column in columns})


def _format_shown(text: Value, column: ComparedColumn) -> str | None:
    if text is not None and text.startswith(MD5_MARK):
        return text.decode(errors="backslashreplace")
    shown = format_canonical(text, column)
    if shown is None or len(shown) <= _SHOWN_CHARACTERS:
        return shown
    return shown[:_SHOWN_CHARACTERS] + "…"
