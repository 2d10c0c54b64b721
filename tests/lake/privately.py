"""The rules of `[changefeed.privacy]` in plain Python, and a search of every byte of a lake."""

import base64
import gzip
import hashlib
import hmac
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from tests.truth import Name, Row, TrueTable

KEY = "a key of these tests that is long enough"


def write_hash(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()[:32]


def write_mask(text: str) -> str:
    return "*" * len(text) if len(text) < 8 else "*" * (len(text) - 4) + text[-4:]


def apply_rules(table: TrueTable, rules: Mapping[Name, Mapping[str, str]]) -> TrueTable:
    """Return a true table as the lake has to have it; a column without a rule stays as it is."""
    chosen = rules.get(table.name, {})
    columns, places = [], []
    for place, column in enumerate(table.columns):
        rule = chosen.get(column["name"])
        if rule == "drop":
            continue
        places.append((place, rule, column["data_type"]))
        is_text = rule in ("hash", "mask")
        columns.append({**column, "data_type": "text"} if is_text else column)
    rows = tuple(
        tuple(_apply(rule, row[place], type) for place, rule, type in places) for row in table.rows
    )
    return replace(table, columns=tuple(columns), rows=rows)


def _apply(rule: str | None, text: str | None, type: str) -> str | None:
    if text is None or rule == "null":
        return None
    if rule is None:
        return text
    if type in ("binary", "varbinary", "blob"):
        # Truth has hexadecimal digits, a row image base64.
        text = base64.b64encode(bytes.fromhex(text)).decode()
    return write_hash(text) if rule == "hash" else write_mask(text)


def list_values(
    rows: Iterable[tuple[Name, Row]], rules: Mapping[Name, Mapping[str, str]], least: int
) -> set[str]:
    """List the texts that may be nowhere in a lake: those of columns with rules alone."""
    hidden, shown = set(), set()
    for name, row in rows:
        for column, text in row.items():
            if text is not None:
                (hidden if column in rules.get(name, {}) else shown).add(text)
    together = "\n".join(shown)
    return {text for text in hidden if len(text) >= least and text not in together}


def find_in_files(folder: Path, values: Iterable[str]) -> dict[str, set[str]]:
    """Return which of some values are in which files: in their bytes, and in what these hold."""
    found: dict[str, set[str]] = {}
    texts = {value: value.encode() for value in values}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        content = b"\n".join(_read_contents(path))
        here = {value for value, text in texts.items() if text in content}
        if here:
            found[str(path.relative_to(folder))] = here
    return found


def _read_contents(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    yield content
    if content[:2] == b"\x1f\x8b":
        yield gzip.decompress(content)
    if content[:4] == b"PAR1":
        # Its statistics are in the bytes as they are; the values may be compressed.
        for batch in pq.ParquetFile(pa.BufferReader(content)).iter_batches():
            for row in batch.to_pylist():
                yield from _list_bytes(row)
    if content[:4] == b"Obj\x01":
        import fastavro

        for row in fastavro.reader(io.BytesIO(content)):
            yield from _list_bytes(row)
    if path.suffix == ".json":
        for line in content.splitlines():
            yield from _list_bytes(json.loads(line))


def _list_bytes(value: Any) -> Iterator[bytes]:
    """Yield all texts and bytes in a value; JSON in a text as what it says, too."""
    match value:
        case bytes():
            yield value
        case str():
            yield value.encode("utf-8", "surrogatepass")
            if value[:1] in ("{", "["):
                with suppress(ValueError):
                    yield from _list_bytes(json.loads(value))
        case dict():
            for key, item in value.items():
                yield from _list_bytes(key)
                yield from _list_bytes(item)
        case list() | tuple():
            for item in value:
                yield from _list_bytes(item)
        case None:
            return
        case _:
            yield str(value).encode()
