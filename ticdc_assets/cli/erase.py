"""`erase`: erase a row for good, and search all files for what is left of it."""

import argparse
from collections.abc import Iterator, Mapping, Sequence

from ticdc_assets.cli import records, texts
from ticdc_assets.cli.lake import open_lake
from ticdc_assets.cli.output import print_records, say, warn
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.source import format_command, open_names
from ticdc_assets.cli.why import parse_key
from ticdc_assets.erase.erase import Erased, require_erasable
from ticdc_assets.erase.erase import erase as erase_row
from ticdc_assets.erase.find import FoundRow, find_row
from ticdc_assets.erase.search import Search, Searched
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.upgrade import upgrade
from ticdc_assets.resources.catalogs import update_catalogs
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.lock import locked
from ticdc_assets.store.object_versions import describe_object_versions
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.row_history import RowHistories

_Key = Mapping[str, str]


def erase(options: argparse.Namespace) -> int:
    """Erase rows from the lake, one after the other."""
    keys = list(_read_keys(options))
    for key in keys:
        _find(options, key)
    lake = open_lake(options)
    with locked(lake.location, "erase", waiting=warn):
        upgrade(lake)
        return max([_erase(options, lake, key) for key in keys])


def _read_keys(options: argparse.Namespace) -> Iterator[_Key]:
    """Read the keys of one or more rows: each begins where a column comes again."""
    histories = RowHistories.open(open_names(options), options.table)
    if not histories.versions:
        raise ConfigError("its rows wait for their schema", setting="DB.TABLE")
    key: dict[str, str] = {}
    for word in options.key:
        part = parse_key([word], histories)
        if key.keys() & part.keys():
            yield key
            key = {}
        key |= part
    yield key


def _erase(options: argparse.Namespace, lake: LakeSession, key: _Key) -> int:
    """Erase a row and search all files for it; return the exit code."""
    applied = open_names(options).applied
    found = _find(options, key)
    _describe(found, options)
    if options.dry_run:
        require_erasable(lake, applied, found.target)
        say("nothing was changed")
        return 0
    progress = Progress()
    try:
        done = erase_row(lake, applied, found.target, progress)
        problems = update_catalogs(lake.location, lake.feed)
        search = Search(LakeReader(lake.location), done.erasure, found.target)
        searched = search.run(
            lambda n, of: progress.show(f"search: {n:,} of {texts.format_count(of, 'file')}")
        )
    finally:
        progress.end()
    for problem in problems:
        warn(problem.describe())
    if done.is_resumed:
        number = done.erasure.id
        warn(f"erasure {number} had been begun: texts that are gone since are not searched", "info")
    elif not any(done.counts.values()):
        warn(f"nothing of the row was in the lake: is the key right? See {_why(options)}")
    _report(searched)
    kept = describe_object_versions(lake.location)
    if kept is not None:
        warn(kept)
    print_records(options, [_make_record(lake, done, searched)], format_erase)
    return 1 if searched.left or found.unsearched else 0


def _why(options: argparse.Namespace) -> str:
    return format_command(options, "why", table=options.table)


def _find(options: argparse.Namespace, key: _Key) -> FoundRow:
    """Find a row by its key; raise a `ConfigError` for a key that is none."""
    return find_row(RowHistories.open(open_names(options), options.table), key)


def _describe(found: FoundRow, options: argparse.Namespace) -> None:
    """Say what was found of the row, and which rows it was or became."""
    loaded = sum(len(load.rows or ()) for load in found.loads)
    events, rows = texts.format_count(found.events, "event"), texts.format_count(loaded, "row")
    if options.format != "json":
        loads = texts.format_count(len(found.loads), "load")
        say(f"{options.table}: {events}, {rows} of {loads}")
    for ts, before, after in found.moves:
        when = f"{ts} ({texts.format_time(ts)})"
        warn(f"{before} became {after} at {when}: erase the other one, too, if it is the same row")
    if found.is_exchanged:
        warn("rows may have come by EXCHANGE PARTITION: erase this one in the other table, too")
    for version in found.unsearched:
        name = f"{version.schema.database}.{version.schema.table}"
        when = f"{version.valid_from} ({texts.format_time(version.valid_from)})"
        warn(f"not erased: {name} from {when} on, which has another key")


def _report(searched: Searched) -> None:
    for path, what in searched.left:
        warn(f"left: {what} in {path}")
    for layer, count in searched.shared.items():
        found = texts.format_count(count, "text")
        warn(f"note: {found} of the row are in other rows, too, in {layer}", "info")


def _make_record(lake: LakeSession, done: Erased, searched: Searched) -> records.Erase:
    erasure, counts = done.erasure, done.counts
    assert erasure.erased_at is not None
    return records.Erase(
        changefeed=lake.feed.id,
        erasure=erasure.id,
        database=erasure.database,
        table=erasure.table,
        requested_at=erasure.requested_at,
        erased_at=erasure.erased_at,
        through_ts=erasure.through_ts,
        through_at=records.find_time(erasure.through_ts),
        raw=counts["raw"],
        quarantine=counts["quarantine"],
        events=counts["events"],
        current=counts["current"],
        history=counts["history"],
        changes=counts["changes"],
        differences=counts["differences"],
        files_removed=done.removed_files,
        bytes_removed=done.removed_bytes,
        files_searched=searched.files,
        bytes_searched=searched.size,
        texts_searched=searched.texts,
        left=[records.Left(path=path, what=what) for path, what in searched.left],
    )


def format_erase(found: Sequence[records.Erase]) -> Iterator[str]:
    """Say what was erased, and what was searched."""
    for done in found:
        layers = ("raw", "quarantine", "events", "current", "history", "changes", "differences")
        counted = ", ".join(f"{layer} {getattr(done, layer):,}" for layer in layers)
        through = f"{done.through_ts} ({texts.format_time(done.through_ts)})"
        yield f"erasure {done.erasure} of {done.database}.{done.table}, through {through}"
        yield f"  rows     {counted}"
        removed = texts.format_count(done.files_removed, "file")
        yield f"  removed  {removed}, {texts.format_size(done.bytes_removed)}"
        files = texts.format_count(done.files_searched, "file")
        size, words = texts.format_size(done.bytes_searched), done.texts_searched
        searched = f"{files}, {size}, for the key and {texts.format_count(words, 'text')}"
        yield f"  searched {searched}"
        yield f"  left     {len(done.left):,}"
