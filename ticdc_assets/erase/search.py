"""Search every file of a changefeed's folder for an erased row: the proof of an erasure.

It trusts no log: it opens all files that are there.  In tables whose rows have the key, a row with
the key is a finding.  Besides, the texts of the row that are long enough are searched in the bytes
of every file, decompressed.  Such a text may be another row's, too, and is found in its tables
then; in any other place, it is a finding, unless other rows have it.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from ticdc_assets.erase.key_match import make_choice, make_image_choice
from ticdc_assets.erase.target import Target
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.events.erased_events import KIND, TESTED, ErasedEvents
from ticdc_assets.lake.raw.erased_records import choose_records, holds_records
from ticdc_assets.log.erasures import Erasure
from ticdc_assets.store.address_log import COPIES
from ticdc_assets.store.contracts import IMAGES
from ticdc_assets.store.delta_log import read_newest_state
from ticdc_assets.store.file_blocks import open_parquet
from ticdc_assets.store.file_rewrites import RowChoice
from ticdc_assets.store.lake import find_folder
from ticdc_assets.store.log_files import LOG_FOLDER
from ticdc_assets.store.old_files import StoredFile, list_stored_files
from ticdc_assets.store.reader import LakeReader, naming
from ticdc_assets.store.stored_rows import StoredRows

# Where the rows of others may have the same texts.
_ROWS = ("raw", "events", "current", "history", "changes")
# Statistics and bounds have the beginning of a text.
_PREFIX = 16
_BLOCK = 16 << 20
_AT_ONCE = 8


@dataclass
class Searched:
    """What was searched, and what was found of the row."""

    files: int = 0
    size: int = 0
    # The texts that were searched.
    texts: int = 0
    # Files that have something of the row, and what.
    left: list[tuple[str, str]] = field(default_factory=list)
    # How many of the texts rows of others have, by layer.
    shared: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Found:
    path: str
    size: int
    rows: int = 0
    texts: frozenset[str] = frozenset()
    # Why it could not be searched.
    problem: str | None = None


class Search:
    """Searches a lake for a row that was erased."""

    def __init__(self, reader: LakeReader, erasure: Erasure, target: Target) -> None:
        self._reader = reader
        self._erasure = erasure
        self._target = target
        self._folder = reader.open_folder("")
        self._forms = {text: _list_forms(text) for text in target.values}
        self._beginnings = {t: _list_forms(t[:_PREFIX]) | f for t, f in self._forms.items()}

    def run(self, progress: Callable[[int, int], None]) -> Searched:
        """Search all files."""
        files = list_stored_files(self._reader, "")
        found: list[_Found] = []
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for each in threads.map(self._search, files):
                found.append(each)
                progress(len(found), len(files))
        done = Searched(len(found), sum(each.size for each in found), len(self._forms))
        others: dict[str, set[str]] = {}
        for each in found:
            if _is_of_rows(each.path) and not each.rows:
                others.setdefault(each.path.partition("/")[0], set()).update(each.texts)
        done.shared = {layer: len(texts) for layer, texts in sorted(others.items()) if texts}
        shared = set().union(*others.values())
        for each in sorted(found, key=lambda each: each.path):
            if each.problem is not None:
                done.left.append((each.path, f"what could not be searched ({each.problem})"))
            elif each.rows:
                done.left.append((each.path, _count_words(each.rows, "row")))
            elif not _is_of_rows(each.path) and (texts := each.texts - shared):
                done.left.append((each.path, _count_words(len(texts), "text")))
        return done

    def _search(self, file: StoredFile) -> _Found:
        """Search a file; one that is gone by now is no finding."""
        try:
            with self._reader.explained(file.path), naming(file.path):
                return self._search_known(file)
        except ConfigError as error:
            if self._folder.get_file_info(file.path).type is fs.FileType.NotFound:
                return _Found(file.path, 0)
            return _Found(file.path, file.size, problem=str(error))

    def _search_known(self, file: StoredFile) -> _Found:
        path = file.path
        rows, texts = 0, set(self._search_bytes(path))
        if path.endswith(".parquet"):
            choice = self._find_choice(path)
            with self._folder.open_input_file(path) as opened:
                parquet = open_parquet(opened)
                forms = self._forms if LOG_FOLDER not in path else self._beginnings
                for group in range(parquet.num_row_groups):
                    table = parquet.read_row_group(group, use_threads=False)
                    rows += _count(table, choice)
                    for column in table.columns:
                        for content in _list_contents(column):
                            texts |= _find(content, forms)
        elif path.endswith(".avro"):
            with self._folder.open_input_file(path) as opened:
                for row in fastavro.reader(io.BytesIO(opened.read())):
                    texts |= _find(b"\n".join(_list_values(row)), self._beginnings)
        return _Found(path, file.size, rows, frozenset(texts))

    def _search_bytes(self, path: str) -> Iterator[str]:
        """Search a file as it is stored, in blocks that overlap."""
        is_log = not path.endswith(".parquet")
        forms = self._beginnings if is_log else self._forms
        rest = b""
        longest = max((len(f) for each in forms.values() for f in each), default=1)
        with self._folder.open_input_stream(path) as opened:
            while block := opened.read(_BLOCK):
                yield from _find(rest + block, forms)
                rest = block[-longest:]

    def _find_choice(self, path: str) -> RowChoice | None:
        """Return what chooses the rows of the key in a data file; None where there are none."""
        if f"{LOG_FOLDER}/" in path:
            return None
        layer = path.partition("/")[0]
        if layer == "events":
            return RowChoice(TESTED, ErasedEvents((self._erasure,)).choose)
        if layer == "raw":
            return self._of_records
        for folder, choice in self._of_tables.items():
            if path.startswith(f"{folder}/"):
                return choice
        return None

    @cached_property
    def _of_records(self) -> RowChoice | None:
        if not holds_records(self._reader):
            return None
        where = pc.field("kind") == KIND
        events = self._reader.read(self._reader.open("events"), ["seq"], where)
        return choose_records(set(events["seq"].to_pylist()))

    @cached_property
    def _of_tables(self) -> Mapping[str, RowChoice]:
        """By the folder of its data files, what chooses the rows of a table."""
        found: dict[str, RowChoice] = {}
        for id, key in self._target.tables.items():
            for name in (f"current/{id}", f"history/{id}", f"changes/{id}"):
                newest = read_newest_state(self._reader, name)
                if newest is None:
                    continue
                stored = StoredRows(self._reader, name, newest[0])
                names = stored.physical_names
                if name.startswith("changes/"):
                    images = {image: stored.read_names(image) for image in IMAGES}
                    found[find_folder(name)] = make_image_choice(key, images, names)
                    continue
                choice = found[find_folder(name)] = make_choice(key, names)
                for address in self._list_addresses() if name.startswith("current/") else ():
                    birth = find_folder(name).rpartition("/")[2]
                    found[f"{address}/{COPIES}{birth}"] = choice
        return found

    def _list_addresses(self) -> list[str]:
        entries = self._folder.get_file_info(fs.FileSelector("current", allow_not_found=True))
        return [entry.path for entry in entries if entry.type is fs.FileType.Directory]


def _is_of_rows(path: str) -> bool:
    is_row_file = path.endswith(".parquet") and f"{LOG_FOLDER}/" not in path
    return is_row_file and path.startswith(tuple(f"{layer}/" for layer in _ROWS))


def _count_words(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _count(rows: pa.Table, choice: RowChoice | None) -> int:
    if choice is None or not {*choice.columns} & {*rows.column_names}:
        return 0
    return pc.sum(choice.choose(rows)).as_py() or 0


def _list_forms(text: str) -> set[bytes]:
    """List the forms that a text may have: as it is, in JSON, and in JSON in JSON."""
    forms = {text}
    for _ in range(2):
        forms |= {json.dumps(each)[1:-1] for each in forms} | {
            json.dumps(each, ensure_ascii=False)[1:-1] for each in forms
        }
    return {each.encode("utf-8", "surrogateescape") for each in forms if _is_encodable(each)}


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _find(content: bytes, forms: Mapping[str, set[bytes]]) -> set[str]:
    return {text for text, each in forms.items() if any(form in content for form in each)}


def _list_values(value: object) -> Iterator[bytes]:
    """Yield the texts and bytes in a value: bounds are bytes."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode("utf-8", "surrogatepass")
    elif isinstance(value, dict):
        for each in value.values():
            yield from _list_values(each)
    elif isinstance(value, list):
        for each in value:
            yield from _list_values(each)


def _list_contents(column: pa.ChunkedArray) -> Iterator[bytes]:
    """Yield the bytes of all texts and binary values in a column, also of nested ones."""
    for chunk in column.chunks:
        yield from _list_of(chunk)


def _list_of(array: pa.Array) -> Iterator[bytes]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _list_of(array.dictionary)
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _list_of(child)
    elif pa.types.is_map(kind):
        yield from _list_of(array.keys)
        yield from _list_of(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _list_of(array.flatten())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        data = array.buffers()[2]
        if data is not None:
            yield data.to_pybytes()
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        yield b"\n".join(item for item in array.cast(pa.large_binary()).to_pylist() if item)
