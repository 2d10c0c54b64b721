"""Previews of current tables: the row count and the first rows, for the pages of Dagster."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from ticdc_assets.events import TableSchema
from ticdc_assets.rows.columns import (
    COMMIT_TS,
    DELETED_TS,
    INEXACT,
    choose_delta_names,
    find_name_of_deletes,
)
from ticdc_assets.rows.lines import write_texts
from ticdc_assets.rows.table_rows import read_columns
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stored_rows import StoredRows

# Characters per value.
_WIDTH = 60


@dataclass(frozen=True)
class Preview:
    """A row count, and rows as MySQL prints them, with long values cut off."""

    count: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class PreviewedTable:
    """A table to preview: its schema, and its Delta version."""

    schema: TableSchema
    version: int


def preview_tables(
    reader: LakeReader, tables: Mapping[str, PreviewedTable], limit: int
) -> dict[str, Preview]:
    """Preview tables by their incarnations; the row counts come from the Delta log."""

    def preview(id: str) -> Preview:
        stored = StoredRows(reader, f"current/{id}", tables[id].version)
        columns: dict[str, list[str | None]] = {}
        # Only Spark knows how rows are stored with other features.
        if limit and not stored.unknown_features:
            columns = _print_first(stored.read(), tables[id].schema, limit)
        rows = zip(*columns.values(), strict=True)
        return Preview(stored.count(), tuple(columns), tuple(rows))

    with ThreadPoolExecutor() as pool:
        return dict(zip(tables, pool.map(preview, tables), strict=True))


def _print_first(
    blocks: Iterable[Mapping[str, pa.Array]], schema: TableSchema, limit: int
) -> dict[str, list[str | None]]:
    """Print the first rows, by the names of their columns."""
    columns: dict[str, list[str | None]] = defaultdict(list)
    for block in blocks:
        left = limit - len(columns[COMMIT_TS]) if columns else limit
        if left <= 0:
            break
        first = {name: array.slice(0, left) for name, array in block.items()}
        for name, texts in _print(first, schema).items():
            columns[name] += map(_cut, texts)
    return columns


def _print(block: Mapping[str, pa.Array], schema: TableSchema) -> dict[str, Sequence[str | None]]:
    names = choose_delta_names(schema)
    printed = write_texts(read_columns(block, schema), schema)
    texts: dict[str, Sequence[str | None]] = {
        names[column]: found for column, found in printed.items()
    }
    texts[COMMIT_TS] = [str(ts) for ts in block[COMMIT_TS].to_pylist()]
    if DELETED_TS in block and find_name_of_deletes(schema) is None:
        texts[DELETED_TS] = [ts and str(ts) for ts in block[DELETED_TS].to_pylist()]
    if INEXACT in block:
        texts[INEXACT] = list(map(_format_entries, block[INEXACT].to_pylist()))
    return texts


def _format_entries(entries: Sequence[tuple[str, str]] | None) -> str | None:
    if entries is None:
        return None
    return ", ".join(f"{name}: {text}" for name, text in entries)


def _cut(value: str | None) -> str | None:
    if value is None:
        return None
    text = value.encode(errors="backslashreplace").decode()
    return text if len(text) <= _WIDTH else text[:_WIDTH] + "…"
