"""The simulated changefeed as a whole: the same bytes every time, checkpoints that are true."""

import base64
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ticdc_assets.changefeed import load_changefeeds
from ticdc_assets.demo import SimulationOptions, prepare, simulate
from ticdc_assets.errors import ConfigError

FEW = {"transactions": 120, "flush_every": 20}
ALL = [
    SimulationOptions(**FEW, replays=0.3),
    SimulationOptions(**FEW, protocol="canal-json"),
    SimulationOptions(**FEW, transport="dump", protocol="simple", replays=0.3, duplicates=0.1),
    SimulationOptions(**FEW, transport="dump", protocol="simple", encoding="avro"),
    SimulationOptions(**FEW, transport="dump", protocol="canal-json"),
    SimulationOptions(**FEW, transport="dump", protocol="open-protocol"),
    SimulationOptions(**FEW, workload="bulk", updates=0.2, deletes=0.1, rows_each=5),
]


def written(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "changefeeds.toml"
    }


@pytest.mark.parametrize("options", ALL, ids=lambda o: f"{o.workload} {o.protocol} {o.encoding}")
def test_the_same_options_give_the_same_bytes(options: SimulationOptions, tmp_path: Path) -> None:
    for name in ("one", "two"):
        simulate(tmp_path / name, options)
    other = simulate(tmp_path / "three", replace(options, seed=2))

    assert written(tmp_path / "one") == written(tmp_path / "two")
    assert written(tmp_path / "one") != written(other.folder)


def test_metadata_only_grows_and_is_never_ahead_of_the_data(tmp_path: Path) -> None:
    """Whatever is written for a checkpoint later is of after it, unless it is written again."""
    simulation = prepare(tmp_path, SimulationOptions(**FEW, statement_every=7, file_size=3000))
    before: dict[str, bytes] = {}
    last = 0
    for step in simulation:
        files = written(tmp_path / "data")
        checkpoint = json.loads(files["metadata"])["checkpoint-ts"]
        assert checkpoint == step.checkpoint > last
        for path in files.keys() - before.keys():
            for ts in timestamps(path, files[path]):
                assert last < ts <= checkpoint
        same = [path for path in before if path.endswith((".csv", ".json"))]
        assert all(files[path] == before[path] for path in same)
        assert not [path for path in files if ".tmp." in path]
        before, last = files, checkpoint
    assert len(before) > 50


def timestamps(path: str, content: bytes) -> list[int]:
    """What a new file is about: its rows' commit ts, or its statement's."""
    if "/schema_" in path:
        return [int(path.rpartition("/")[2].split("_")[1])]
    if not path.endswith(".csv"):
        return []
    return [int(ts) for ts in re.findall(rb'"(?:I|D)","\w+","shop",(\d+),', content)]


def test_the_index_names_the_last_file_of_its_directory(tmp_path: Path) -> None:
    simulate(tmp_path, SimulationOptions(**FEW, replays=0.5))
    indexes = list((tmp_path / "data").rglob("CDC.index"))

    assert len(indexes) > 5
    for index in indexes:
        names = sorted(path.name for path in index.parent.parent.glob("CDC*.csv"))
        assert index.read_bytes() == names[-1].encode() + b"\n"
        assert [int(name[3:-4]) for name in names] == list(range(1, len(names) + 1))


def test_watermarks_keep_their_word_on_every_partition(tmp_path: Path) -> None:
    options = SimulationOptions(**FEW, transport="dump", protocol="canal-json", partitions=4)
    simulation = simulate(tmp_path, options)
    seen = [0] * 4
    offsets = [0] * 4
    for line in (tmp_path / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        partition = record["partition"]
        assert record["offset"] == offsets[partition]
        offsets[partition] += 1
        message = json.loads(base64.b64decode(record["value_b64"]))
        if message["type"] == "TIDB_WATERMARK":
            assert message["_tidb"]["watermarkTs"] > seen[partition]
            seen[partition] = message["_tidb"]["watermarkTs"]
        else:
            assert message["_tidb"]["commitTs"] > seen[partition]
            assert not message["isDdl"] or partition == 0
    assert seen == [simulation.checkpoints[-1]] * 4


@pytest.mark.parametrize("tables_exist", [False, True])
def test_simple_states_every_schema_before_its_rows_on_every_partition(
    tables_exist: bool, tmp_path: Path
) -> None:
    options = SimulationOptions(
        transport="dump",
        protocol="simple",
        transactions=200,
        statement_every=9,
        tables_exist=tables_exist,
    )
    simulate(tmp_path, options)
    stated: set[tuple[object, ...]] = set()
    kinds: dict[str, int] = {}
    last_row, last_ddl, ahead = 0, 0, 0
    for line in (tmp_path / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        message = json.loads(base64.b64decode(record["value_b64"]))
        kinds[message["type"]] = kinds.get(message["type"], 0) + 1
        if (schema := message.get("tableSchema")) is not None:
            name = schema["schema"], schema["table"], schema["version"]
            stated.add((record["partition"], *name))
        if "sql" in message:
            last_ddl = message["commitTs"]
            ahead += last_row > last_ddl
        elif "schemaVersion" in message:
            name = message["database"], message["table"], message["schemaVersion"]
            assert (record["partition"], *name) in stated
            assert message["commitTs"] > last_ddl
            last_row = max(last_row, message["commitTs"])
    # Each table is introduced once; all three partitions get the same.
    assert kinds["BOOTSTRAP"] >= 3 * 5
    assert kinds["CREATE"] == 3 * (2 if tables_exist else 7)
    assert kinds["BOOTSTRAP"] % 3 == 0
    # Rows of other tables may be ahead of a statement, never behind one.
    assert ahead > 0


@pytest.mark.parametrize("options", ALL[:-1], ids=lambda o: f"{o.protocol} {o.encoding}")
def test_the_declaration_is_what_the_project_reads(
    options: SimulationOptions, tmp_path: Path
) -> None:
    simulation = prepare(tmp_path, options)
    (feed,) = load_changefeeds(simulation.changefeeds).values()

    assert (feed.protocol, feed.transport) == (options.protocol, options.transport)
    assert feed.encoding_format == options.encoding
    if options.protocol == "csv":
        assert feed.csv == options.csv
    assert simulation.changefeeds.read_text() == simulation.feed_toml


def test_a_rate_is_kept(tmp_path: Path) -> None:
    begun = time.monotonic()
    simulation = simulate(tmp_path, SimulationOptions(transactions=40, rate=200.0))

    assert time.monotonic() - begun >= 0.19
    ms = [ts >> 18 for ts in simulation.checkpoints]
    assert abs(ms[-1] / 1000 - time.time()) < 30


def test_options_that_exclude_each_other_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written to"):
        prepare(tmp_path, SimulationOptions(protocol="simple"))
    simulate(tmp_path, SimulationOptions(transactions=1))
    with pytest.raises(ConfigError, match="already"):
        prepare(tmp_path, SimulationOptions())
