"""What the simulated changefeed wrote, replayed by the reference model, is its own truth."""

from dataclasses import replace
from pathlib import Path

import pytest

from ticdc_assets.changefeed import CsvDialect, load_changefeeds
from ticdc_assets.demo import Simulation, SimulationOptions, prepare, simulate
from ticdc_assets.demo import encode_truth as truth_lines
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.resources.dump import read_dump
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.stream.reading import read_folder_events, read_topic_events

CSV_DEFAULT = CsvDialect()
CSV_ODD = CsvDialect(
    delimiter="|,",
    quote="",
    null="\\NULL!",
    terminator="\n",
    include_commit_ts=True,
    binary_encoding="hex",
)
MANNERS = {
    "csv": SimulationOptions(),
    "csv odd": SimulationOptions(csv=CSV_ODD, date_separator="none", file_size=2000),
    "csv replayed": SimulationOptions(replays=0.3, file_size=5000),
    "csv existing": SimulationOptions(tables_exist=True, date_separator="month"),
    "storage canal": SimulationOptions(protocol="canal-json", replays=0.2),
    "storage canal existing": SimulationOptions(protocol="canal-json", tables_exist=True),
    "simple json": SimulationOptions(transport="dump", protocol="simple"),
    "simple json existing": SimulationOptions(
        transport="dump", protocol="simple", tables_exist=True
    ),
    "simple json replayed": SimulationOptions(
        transport="dump", protocol="simple", replays=0.3, duplicates=0.05, partitions=5
    ),
    "simple avro": SimulationOptions(
        transport="dump", protocol="simple", encoding="avro", replays=0.2, duplicates=0.05
    ),
    "canal": SimulationOptions(transport="dump", protocol="canal-json"),
    "canal replayed": SimulationOptions(
        transport="dump", protocol="canal-json", replays=0.3, duplicates=0.05, dispatch="table"
    ),
    "open": SimulationOptions(transport="dump", protocol="open-protocol"),
    "open replayed": SimulationOptions(
        transport="dump", protocol="open-protocol", replays=0.3, duplicates=0.05
    ),
}


def replayed(simulation: Simulation) -> ModelReplay:
    """Everything that was written, as its declaration says."""
    (feed,) = load_changefeeds(simulation.changefeeds).values()
    replay = ModelReplay(feed)
    if feed.transport == "storage":
        folder = open_sink_folder(feed)
        replay.add(read_folder_events(feed, folder.paths(), folder.read))
    else:
        replay.add(read_topic_events(feed, read_dump(Path(feed.location)), None))
    return replay


def tables(replay: ModelReplay) -> dict[tuple[str, str], list[bytes]]:
    return {(t.schema.database, t.schema.table): encode_rows(t) for t in replay.model.tables}


@pytest.mark.parametrize("manner", MANNERS)
def test_a_replay_gives_the_truth_at_every_sampled_checkpoint(manner: str, tmp_path: Path) -> None:
    simulation = simulate(tmp_path, replace(MANNERS[manner], transactions=450, flush_every=15))
    replay = replayed(simulation)

    assert replay.default_ts == simulation.checkpoints[-1]
    for checkpoint in (*simulation.checkpoints[3:-1:6], simulation.checkpoints[-1]):
        replay.advance(checkpoint)
        found, true = tables(replay), truth_lines(simulation.truth(checkpoint))
        if simulation.options.tables_exist:
            # Nothing tells of a table that was there before and is empty.
            true = {name: rows for name, rows in true.items() if rows or name in found}
        assert found == true, checkpoint
    assert [problem for problem in replay.model.problems if problem.data_may_differ] == []
    assert replay.model.waiting_rows() == []


def test_csv_without_commit_ts_gives_the_truth_at_the_end(tmp_path: Path) -> None:
    simulation = simulate(tmp_path, SimulationOptions(csv=CSV_DEFAULT, transactions=400))
    replay = replayed(simulation)

    replay.advance(simulation.checkpoints[-1])
    assert tables(replay) == truth_lines(simulation.truth())


@pytest.mark.parametrize("transport", ["storage", "dump"])
def test_bulk_gives_the_truth(transport: str, tmp_path: Path) -> None:
    options = SimulationOptions(
        protocol="canal-json",
        workload="bulk",
        transactions=40,
        rows_each=20,
        updates=0.4,
        deletes=0.1,
        flush_every=7,
        tables=3,
    )
    simulation = simulate(tmp_path, replace(options, transport=transport))
    replay = replayed(simulation)

    assert simulation.rows > 600
    for checkpoint in simulation.checkpoints:
        replay.advance(checkpoint)
        assert tables(replay) == truth_lines(simulation.truth(checkpoint))


@pytest.mark.parametrize("manner", ["csv replayed", "storage canal", "simple json replayed"])
def test_what_is_on_disk_after_each_step_gives_the_truth_of_its_checkpoint(
    manner: str, tmp_path: Path
) -> None:
    options = replace(MANNERS[manner], transactions=90, flush_every=15, statement_every=8)
    simulation = prepare(tmp_path, options)
    for step in simulation:
        replay = replayed(simulation)
        assert replay.default_ts == step.checkpoint
        replay.advance(step.checkpoint)
        assert tables(replay) == truth_lines(simulation.truth())
