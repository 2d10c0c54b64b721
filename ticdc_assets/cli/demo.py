"""`demo`: a simulated shop, its changefeed, and a lake that is held against the shop."""

import argparse
import shlex
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from resources.reading import open_source
from resources.spark import get_session
from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.cli import texts
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.schema_text import schema_lines
from ticdc_assets.cli.show import table_lines
from ticdc_assets.demo import Options, Simulation, encode_truth, prepare
from ticdc_assets.lake.advance import AdvanceResult, advance
from ticdc_assets.lake.store.lake import Lake, LakeSession
from ticdc_assets.lake.store.lock import locked
from ticdc_assets.lake.views import overview
from ticdc_assets.lake.views.asof import AsOfView, as_of
from ticdc_assets.stream.problem import Problem

# One more happens first, when the warehouse is filled, and the last statements at the end add some:
# three runs.
_TRANSACTIONS = 899
_FLUSH_EVERY = 310
_TABLE = "shop.orders"


def demo(options: argparse.Namespace) -> int:
    """Simulate, advance, prove."""
    folder = options.dir or Path(tempfile.mkdtemp(prefix="ticdc-demo-"))
    # Beside the lake, which may be there from before.
    simulation = prepare(folder / "upstream", _options(options.protocol))
    feed = next(iter(load_changefeeds(simulation.changefeeds).values()))
    location = Lake(str((folder / "lake").absolute()), feed.id)
    print(f"A shop, and what TiCDC writes of it as {feed.protocol}, in {folder}")
    begun = time.monotonic()
    lake = LakeSession(get_session(location.root), location, feed)
    print(f"Spark is up after {time.monotonic() - begun:.0f} s\n")
    runs: list[AdvanceResult] = []
    source = None
    for step in simulation:
        if not step.transactions:
            # Tables without rows; the first run takes them in with what follows.
            continue
        source = source or open_source(feed)
        progress = Progress()
        with locked(location):
            runs.append(advance(lake, source, progress=progress))
        progress.end()
        print(
            f"advance: {texts.count(step.transactions, 'transaction')} have happened,"
            f" {texts.count(runs[-1].decoded.rows, 'row change')} are new,"
            f" all applied up to {texts.moment(runs[-1].applied.resolved_ts)}"
            f" in {progress.seconds:.0f} s",
            flush=True,
        )
    applied = overview.read_existing_snapshot(lake)
    lines = overview.list_tables(lake, applied, dropped=False)
    print("\n" + "\n".join(_stages(feed.transport, runs, lines)))
    print("\n" + "\n".join(table_lines(lines)))
    print(f"\nThe schema of {_TABLE}, version by version:\n")
    print("\n".join(schema_lines(overview.read_schema_versions(lake, _TABLE))))
    print("\nThe tables against the shop itself, at its last checkpoint:\n")
    equal = _proof(simulation, as_of(lake, simulation.checkpoints[-1]))
    problems = [problem for run in runs for problem in run.applied.problems]
    for problem in problems:
        print(problem.describe())
    print(f"\n{'Every table is equal.' if equal else 'NOT EQUAL: this is a bug.'}\n")
    print("\n".join(_next(simulation, location)))
    return 0 if equal and not _serious(problems) else 1


def _options(protocol: str) -> Options:
    start = datetime.now(UTC) - timedelta(seconds=_TRANSACTIONS * 0.03)
    options = Options(transactions=_TRANSACTIONS, flush_every=_FLUSH_EVERY, start=start)
    match protocol:
        case "canal-json":
            return replace(options, protocol="canal-json")
        case "simple":
            return replace(options, protocol="simple", transport="dump")
        case "open-protocol":
            return replace(options, protocol="open-protocol", transport="dump")
    return options


def _stages(
    transport: str, runs: list[AdvanceResult], lines: list[overview.TableOverview]
) -> list[str]:
    items = sum(run.ingested.items for run in runs)
    size = texts.size(sum(run.ingested.bytes for run in runs))
    things = texts.count(items, "file" if transport == "storage" else "record")
    rows = sum(run.decoded.rows for run in runs)
    ddls = sum(run.decoded.ddls for run in runs)
    quarantined = sum(run.decoded.quarantined for run in runs)
    kept = sum(line.rows or 0 for line in lines)
    runs_text = texts.count(len(runs), "run")
    return [
        f"source   {things}, {size}",
        "  ↓",
        f"raw      all of it as it came, in {runs_text}",
        f"  ↓        ↘ quarantine   {quarantined:,} that could not be decoded",
        f"events   {rows:,} row changes, {ddls:,} DDLs and schemas",
        "  ↓        ↘ schema history",
        f"current  {texts.count(len(lines), 'table')}, {kept:,} rows",
    ]


def _proof(simulation: Simulation, shown: AsOfView) -> bool:
    """Compare every table with the truth; say of each how it went."""
    truth = encode_truth(simulation.truth(shown.ts))
    tables = {(t.schema.database, t.schema.table): t for t in shown.tables()}
    rows = []
    for name in sorted({*truth, *tables}):
        expected, table = truth.get(name), tables.get(name)
        if table is None:
            verdict = "is not in the lake"
        elif expected is None:
            verdict = "is not in the shop"
        elif table.is_stopped:
            verdict = f"{table.status}: {table.reason}"
        else:
            ours = list(shown.lines(table))
            same = ours == expected
            verdict = "equal" if same else f"differs, {len(ours):,} rows in the lake"
        count = texts.count(len(expected or ()), "row")
        rows.append([".".join(name), count, verdict])
    print("\n".join(texts.aligned(rows, frozenset((1,)))))
    return all(verdict == "equal" for _, _, verdict in rows)


def _serious(problems: list[Problem]) -> bool:
    return any(problem.data_may_differ for problem in problems)


def _next(simulation: Simulation, lake: Lake) -> list[str]:
    at = shlex.join(["--changefeeds", str(simulation.changefeeds), "--lake", lake.root])
    earlier = simulation.checkpoints[1]
    commands = [
        f"tables {at}",
        f"show {_TABLE} --at {earlier} --limit 5 {at}",
        f"events {_TABLE} --limit 10 {at}",
        f"schema {_TABLE} {at}",
        f"ledger {at}",
        f"rebuild {_TABLE} {at}",
    ]
    return ["To try next:", *(f"  .venv/bin/ticdc-assets {command}" for command in commands)]
