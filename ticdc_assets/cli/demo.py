"""`demo`: a simulated shop, its changefeed, and a lake that is compared with the shop."""

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.cli import texts
from ticdc_assets.cli.demo_upstream import open_database, parse_address
from ticdc_assets.cli.output import say
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.schema_text import format_schema_history, make_schemas
from ticdc_assets.cli.show import format_tables, make_table
from ticdc_assets.demo import Simulation, SimulationOptions, check_is_new, encode_truth, prepare
from ticdc_assets.lake.advance import AdvanceResult, advance
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.resources.lake import make_absolute
from ticdc_assets.resources.reading import open_source
from ticdc_assets.resources.spark import get_session
from ticdc_assets.resources.spark_settings import LITTLE_WORK
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.lock import locked
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views import overview
from ticdc_assets.views.asof import AsOfView, as_of

# With the transaction that fills the warehouse and the DDLs at the end, this makes three runs.
_TRANSACTIONS = 899
_FLUSH_EVERY = 310
_TABLE = "shop.orders"


def demo(options: argparse.Namespace) -> int:
    """Simulate a shop, advance a lake in several runs, and compare the two."""
    upstream = None if options.upstream is None else parse_address(options.upstream)
    if options.dir is not None:
        # Before the shop of an earlier run is removed.
        check_is_new(options.dir / "upstream")
    with open_database(upstream) as database:
        folder = options.dir or Path(tempfile.mkdtemp(prefix="ticdc-demo-"))
        simulated = replace(_options(options.protocol), upstream=upstream)
        return _demonstrate(folder, prepare(folder / "upstream", simulated, database))


def _demonstrate(folder: Path, simulation: Simulation) -> int:
    root = make_absolute(str(folder / "lake"), setting="--dir")
    feed = next(iter(load_changefeeds(simulation.changefeeds).values()))
    location = Lake(root, feed.id)
    say(f"A simulated shop and its changefeed ({feed.protocol}) in {folder}")
    start_spark = partial(get_session, location.root, settings=LITTLE_WORK)
    lake = LakeSession(start_spark, location, feed)
    say()
    runs: list[AdvanceResult] = []
    source = None
    for step in simulation:
        if not step.transactions:
            # Only empty tables so far; the first run ingests them with the next step.
            continue
        source = source or open_source(feed)
        progress = Progress()
        with locked(location, "advance"):
            runs.append(advance(lake, source, progress=progress))
        progress.end()
        say(
            f"advance: {texts.format_count(step.transactions, 'transaction')} so far,"
            f" {texts.format_count(runs[-1].decoded.rows, 'new row change')},"
            f" applied up to {texts.format_time(runs[-1].applied.resolved_ts)}"
            f" in {progress.seconds:.0f} s"
        )
    reader = LakeReader(location)
    applied = read_existing_snapshot(reader)
    lines = overview.list_tables(reader, applied, dropped=False)
    _say_part(_format_stages(feed.transport, runs, lines))
    _say_part(format_tables([make_table(location, applied, line, {}) for line in lines]))
    _say_part([f"Schema history of {_TABLE}:"])
    versions = overview.read_schema_versions(reader, _TABLE)
    _say_part(format_schema_history(list(make_schemas(feed.id, versions))))
    _say_part(["The tables compared with the shop at its last checkpoint:", ""])
    are_equal = _compare_tables(simulation, as_of(lake, simulation.checkpoints[-1]))
    problems = [problem for run in runs for problem in run.applied.problems]
    for problem in problems:
        say(problem.describe())
    _say_part(["Every table is equal." if are_equal else "NOT EQUAL: this is a bug."])
    _say_part(_format_next_steps(simulation, location))
    data_may_differ = any(problem.data_may_differ for problem in problems)
    return 0 if are_equal and not data_may_differ else 1


def _say_part(lines: Iterable[str]) -> None:
    for line in ("", *lines):
        say(line)


def _options(protocol: str) -> SimulationOptions:
    start = datetime.now(UTC) - timedelta(seconds=_TRANSACTIONS * 0.03)
    options = SimulationOptions(transactions=_TRANSACTIONS, flush_every=_FLUSH_EVERY, start=start)
    match protocol:
        case "canal-json":
            return replace(options, protocol="canal-json")
        case "simple":
            return replace(options, protocol="simple", transport="dump")
        case "open-protocol":
            return replace(options, protocol="open-protocol", transport="dump")
    return options


def _format_stages(
    transport: str, runs: list[AdvanceResult], lines: list[overview.TableOverview]
) -> list[str]:
    items = sum(run.ingested.items for run in runs)
    size = texts.format_size(sum(run.ingested.bytes for run in runs))
    inputs = texts.format_count(items, "file" if transport == "storage" else "record")
    rows = sum(run.decoded.rows for run in runs)
    ddls = sum(run.decoded.ddls for run in runs)
    quarantined = sum(run.decoded.quarantined for run in runs)
    current_rows = sum(line.rows or 0 for line in lines)
    runs_text = texts.format_count(len(runs), "run")
    return [
        f"source   {inputs}, {size}",
        "  ↓",
        f"raw      the unchanged input, in {runs_text}",
        f"  ↓        ↘ quarantine   {quarantined:,} that could not be decoded",
        f"events   {rows:,} row changes, {ddls:,} DDLs and schemas",
        "  ↓        ↘ schema history",
        f"current  {texts.format_count(len(lines), 'table')}, {current_rows:,} rows",
    ]


def _compare_tables(simulation: Simulation, shown: AsOfView) -> bool:
    """Compare every table with the shop, print the results, and return whether all are equal."""
    truth = encode_truth(simulation.truth(shown.ts))
    tables = {(t.schema.database, t.schema.table): t for t in shown.tables()}
    rows = []
    for name in sorted({*truth, *tables}):
        expected, table = truth.get(name), tables.get(name)
        if table is None:
            verdict = "missing in the lake"
        elif expected is None:
            verdict = "missing in the shop"
        elif table.is_stopped:
            verdict = f"{table.status}: {table.reason}"
        else:
            lines = list(shown.lines(table))
            is_equal = lines == expected
            verdict = "equal" if is_equal else f"differs, {len(lines):,} rows in the lake"
        count = texts.format_count(len(expected or ()), "row")
        rows.append([".".join(name), count, verdict])
    for line in texts.align_columns(rows, frozenset((1,))):
        say(line)
    return all(verdict == "equal" for _, _, verdict in rows)


def _format_next_steps(simulation: Simulation, lake: Lake) -> list[str]:
    options = shlex.join(["--changefeeds", str(simulation.changefeeds), "--lake", lake.root])
    earlier = simulation.checkpoints[1]
    commands = [
        f"tables {options}",
        f"show {_TABLE} --at {earlier} --limit 5 {options}",
        f"events {_TABLE} --limit 10 {options}",
        f"schema {_TABLE} {options}",
        f"ledger {options}",
        f"rebuild {_TABLE} {options}",
    ]
    if simulation.options.upstream is not None:
        commands.append(f"verify {options}")
    program = shlex.join(_find_program(sys.argv[0]))
    return ["To try next:", *(f"  {program} {command}" for command in commands)]


def _find_program(called: str) -> list[str]:
    """Return the words that run this program again."""
    name = "ticdc-assets"
    if Path(called).name != name:
        return [sys.executable, "-m", "ticdc_assets.cli"]
    found = shutil.which(name)
    return [name if found and Path(found).samefile(called) else called]
