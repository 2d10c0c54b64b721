"""What looks into a lake, held against the shop whose changes it is made of."""

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.cli.conftest import Run, Shop
from ticdc_assets.demo import encode_truth
from ticdc_assets.resources import reading
from ticdc_assets.views import asof

TABLE = "shop.orders"
PROJECT = Path(__file__).resolve().parents[2]


def truth(shop: Shop, ts: int) -> dict[str, list[bytes]]:
    return {
        ".".join(name): lines for name, lines in encode_truth(shop.simulation.truth(ts)).items()
    }


@pytest.mark.slow
def test_the_demo_proves_every_table_and_ends_well(shop: Shop) -> None:
    last = shop.simulation.checkpoints[-1]
    assert shop.code == 0, shop.said
    proof = shop.said.partition("its last checkpoint:")[2].partition("Every table is equal.")[0]
    said = {line.split()[0]: line.split()[1:] for line in proof.splitlines() if line.strip()}
    expected = truth(shop, last)
    assert {name: int(words[0].replace(",", "")) for name, words in said.items()} == {
        name: len(lines) for name, lines in expected.items()
    }
    assert {words[-1] for words in said.values()} == {"equal"}


def test_what_the_demo_says_to_try_next_works(shop: Shop, run: Run) -> None:
    commands = shop.said.partition("To try next:")[2].splitlines()
    program = [sys.executable, "-m", "ticdc_assets.cli"]
    lines = [shlex.split(line) for line in commands if line.strip()]
    assert all(words[:3] == program for words in lines)
    tried = [words[3:] for words in lines]
    assert {"tables", "show", "events", "schema", "ledger"} <= {words[0] for words in tried}
    for words in tried:
        if words[0] != "rebuild":
            code, out, err = run(*words)
            assert (code, err) == (0, []), words
            assert out


def test_patterns_select_the_tables_that_are_listed(shop: Shop, run: Run) -> None:
    def list_tables(*patterns: str) -> list[str]:
        code, out, _ = run("tables", *patterns, *shop.options)
        assert code == 0
        return [line.split()[0] for line in out.decode().splitlines()[1:]]

    assert list_tables("shop.order*") == ["shop.order_items", "shop.orders"]
    assert list_tables("SHOP.ORDERS") == ["shop.orders"]
    assert list_tables("shop.*", "!shop.order?*") == [
        name for name in list_tables() if not name.startswith("shop.order")
    ]


def test_tables_has_a_line_each_with_its_rows(shop: Shop, run: Run) -> None:
    code, out, _ = run("tables", *shop.options)
    assert code == 0
    head, *lines = [line.split() for line in out.decode().splitlines()]
    assert head[0] == "table"
    expected = truth(shop, shop.simulation.checkpoints[-1])
    assert {line[0]: int(line[1].replace(",", "")) for line in lines} == {
        name: len(rows) for name, rows in expected.items()
    }
    assert {line[-1] for line in lines} == {"live"}


def test_show_prints_a_table_as_the_source_had_it_at_any_tso(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "get_session", lambda *_: pytest.fail("Spark starts"))
    first, second = shop.simulation.checkpoints[1:3]
    between = (first + second) // 2
    for ts in (second, between):
        given = ("show", TABLE, "--format", "json", "--at", ts, *shop.options)
        assert run(*given) == (0, b"".join(truth(shop, ts)[TABLE]), [])
    # The newest is the default.
    code, out, _ = run("show", TABLE, "--format", "json", *shop.options)
    assert (code, out) == (0, b"".join(truth(shop, shop.simulation.checkpoints[-1])[TABLE]))


def test_of_a_large_table_spark_prints_the_same_and_show_says_so(
    shop: Shop, run: Run, here: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shop.simulation.checkpoints[1:3]
    between = (first + second) // 2
    with monkeypatch.context() as patch:
        patch.setattr(asof, "_MOST_VALUES", 0)
        for ts in (second, between):
            words = ("show", TABLE, "--format", "json", "--at", ts, *shop.options)
            code, out, (note,) = run(*words)
            assert (code, out) == (0, b"".join(truth(shop, ts)[TABLE]))
            assert re.fullmatch(r"note: this takes Spark: orders has [0-9,]+ rows", note)
        in_order = run("show", TABLE, "--at", between, *shop.options)[:2]
    assert run("show", TABLE, "--at", between, *shop.options) == (*in_order, [])


def test_show_out_writes_the_files_that_replay_writes(shop: Shop, run: Run, tmp_path: Path) -> None:
    at = ("--at", ",".join(map(str, shop.simulation.checkpoints[1:])))
    changefeeds = shop.options[:2]
    assert run("replay", *changefeeds, *at, "--out", tmp_path / "replay") == (0, b"", [])
    assert run("show", *shop.options, *at, "--out", tmp_path / "show") == (0, b"", [])
    assert contents(tmp_path / "show") == contents(tmp_path / "replay")
    assert any(contents(tmp_path / "show").values())


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_csv_has_the_values_of_json_lines(shop: Shop, run: Run) -> None:
    at = ("--at", sum(shop.simulation.checkpoints[1:3]) // 2)
    for ts in ((), at):
        _, out, _ = run("show", TABLE, "--format", "csv", *ts, *shop.options)
        rows = list(csv.DictReader(io.StringIO(out.decode())))
        _, lines, _ = run("show", TABLE, "--format", "json", *ts, *shop.options)
        expected = [json.loads(line) for line in lines.splitlines()]
        assert len(rows) > 10
        # For people, a key that is a number is in the order of numbers.
        expected.sort(key=lambda row: int(row["id"]))
        assert rows == [{name: value or "" for name, value in row.items()} for row in expected]


def test_events_are_printed_as_decode_does_by_commit_ts(shop: Shop, run: Run) -> None:
    _, out, _ = run("decode", *shop.options[:2])
    of_table = {
        event["position"]: event
        for event in map(json.loads, out.splitlines())
        if f"{event.get('database')}.{event.get('table')}" == TABLE
    }
    rows = [e for e in of_table.values() if e["event"] == "row change"]
    code, out, err = run("events", TABLE, "--format", "json", *shop.options)
    assert (code, err) == (0, [])
    found = [json.loads(line) for line in out.splitlines()]
    dated = [event["commit_ts"] for event in found if "commit_ts" in event]
    assert dated == sorted(dated)
    mine = [event for event in found if event["event"] == "row change"]
    assert len(mine) == len(rows)
    # A lake writes the types that a row states in one order.
    for event in mine:
        same = of_table[event["position"]]
        assert {**event, "observed": None} == {**same, "observed": None}
    _, out, _ = run("events", TABLE, "--format", "json", "--limit", 3, *shop.options)
    assert [json.loads(line) for line in out.splitlines()] == found[-3:]


def test_schema_says_what_each_statement_changed(shop: Shop, run: Run) -> None:
    code, out, _ = run("schema", "shop.customers", *shop.options)
    text = out.decode()
    assert code == 0
    assert "+ id " in text
    assert "key: id" in text
    assert "~ name varchar(" in text
    assert "→ name varchar(200)" in text
    assert "~ phone → mobile " in text
    assert "- fax " in text
    # A table is found by every name it has had.
    old, new = (run("schema", name, *shop.options)[1] for name in REVIEWS)
    assert old == new
    assert b"renamed: shop.reviews \xe2\x86\x92 shop.product_reviews" in new


REVIEWS = ("shop.reviews", "shop.product_reviews")


def test_what_is_not_there_is_said_before_spark_starts(
    shop: Shop, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "get_session", None)
    last = shop.simulation.checkpoints[-1]
    seconds = (last >> 18) // 1000
    nothing = "no table shop.nothing in the lake: the changefeed has sent nothing of a table"
    renamed = "no table shop.reviews in the lake: it was renamed to shop.product_reviews at "
    full = tmp_path / "full"
    full.mkdir()
    (full / "letter.txt").touch()
    for words, reason in (
        *(((command, "shop.nothing"), nothing) for command in ("show", "events", "schema")),
        *(((command, "shop.nothing"), nothing) for command in ("quarantine", "resume", "rebuild")),
        (("tables", "shop.nothing"), nothing),
        (("tables", "shop.x*"), "PATTERN: no table of the lake matches 'shop.x*'"),
        (("rebuild", TABLE, "shop.nothing"), nothing),
        (("show", "Shop.Order"), "did you mean shop.orders or shop.order_items?"),
        (("show", "shop.reviews"), renamed),
        (("resume", "shop.reviews"), renamed),
        (("show", TABLE, "--at", last + (1 << 18)), "UTC) is not applied yet; the lake has"),
        (("show", TABLE, "--at", "now"), f"to {last} ("),
        (("show", "--out", "new", "--at", f"{last},now"), "UTC) is not applied yet"),
        (("show", "shop.nothing", "--at", last - (1 << 18)), nothing),
        (("show", TABLE, "--at", 5), "--at: 5 (1970-01-01 00:00:00.000 UTC) is before everything"),
        (
            ("snapshot", "--into", "new", "--at", 5),
            "UTC) is before everything in the lake",
        ),
        (("show", TABLE, "--at", seconds), f"{seconds} is no TSO but Unix time in seconds: give"),
        (("snapshot", "--into", full), "is not empty, and holds no snapshot"),
        (("resume", TABLE), f"{TABLE} is live, not paused"),
        (("rebuild", TABLE, "--all"), f"--all: cannot be combined with names of tables ({TABLE})"),
        (("rebuild",), "DB.TABLE: name tables, or --all for every table"),
        (("maintain", "--retain-days", 1), "--retain-days: must be at least 7, not 1"),
    ):
        code, out, err = run(*words, *shop.options)
        assert (code, out, len(err)) == (2, b"", 1), words
        assert reason in err[0]
    assert not Path("new").exists()
    code, _, err = run("tables", *shop.options[:2], "--lake", tmp_path / "nowhere")
    assert code == 2
    assert f"{tmp_path}/nowhere: --lake: holds nothing of changefeed 'shop' yet" in err[0]


def test_json_has_what_the_text_has(shop: Shop, run: Run) -> None:
    def read(*words: object) -> list[dict[str, Any]]:
        code, out, err = run(*words, *shop.options, "--format", "json")
        assert (code, err) == (0, []), words
        return [json.loads(line) for line in out.splitlines()]

    expected = truth(shop, shop.simulation.checkpoints[-1])
    tables, with_paths = read("tables"), read("tables", "--paths")
    for table in (*tables, *with_paths):
        assert table.pop("age_seconds") > 0
    assert with_paths == tables
    assert {f"{t['database']}.{t['table']}": t["rows"] for t in tables} == {
        name: len(rows) for name, rows in expected.items()
    }
    assert {t["resolved_ts"] for t in tables} == {shop.simulation.checkpoints[-1]}
    assert all(Path(t["path"]).is_dir() for t in tables)

    source, *of_tables = read("ledger")
    assert (source["record"], source["balances"], source["faults"]) == ("source", True, [])
    _, out, _ = run("ledger", *shop.options)
    lines = {line.split()[0]: line.split()[1:] for line in out.decode().splitlines()[2:-1]}
    names = ("input", "applied", "superseded", "quarantined", "waiting", "repeated", "erased")
    assert {t["table"]: [f"{t[name]:,}" for name in names] for t in of_tables} == lines

    versions = read("schema", "shop.customers")
    _, out, _ = run("schema", "shop.customers", *shop.options)
    text = out.decode()
    for version in versions:
        assert str(version["valid_from_ts"]) in text
        assert all(change in text for change in version["changes"])
    assert versions[0]["changes"] == []
    assert [c["name"] for c in versions[-1]["columns"]] == list(
        json.loads(
            run("show", "shop.customers", "--format", "json", "--limit", 1, *shop.options)[1]
        )
    )
    assert read("quarantine") == []


def test_commands_that_read_start_no_spark(shop: Shop, run: Run, tmp_path: Path) -> None:
    at = ("--at", ",".join(map(str, shop.simulation.checkpoints[1:])))
    every = (
        ("tables", "--all"),
        ("schema", TABLE),
        ("events", TABLE, "--limit", "3"),
        ("show", TABLE, "--limit", "3"),
        ("show", *at, "--out", tmp_path / "out"),
        ("quarantine",),
        ("ledger",),
    )
    commands = [[*map(str, words), *map(str, shop.options)] for words in every]
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, json.dumps(commands)],
        capture_output=True,
        cwd=PROJECT,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, b"")
    printed = process.stdout.split(b"\0")[:-1]
    assert len(printed) == len(commands)
    for words, text in zip(commands, printed, strict=True):
        assert (text == b"") == ("--out" in words), words


WITHOUT_SPARK = """
import json, sys
sys.modules["pyspark"] = sys.modules["py4j"] = None
from ticdc_assets import cli
for words in json.loads(sys.argv[1]):
    code = cli.main(words)
    print(end="\\0", flush=True)
    if code:
        sys.exit(f"{words}: exit code {code}")
"""


def test_the_paths_of_tables_are_those_that_the_document_finds(
    shop: Shop, run: Run, here: SparkSession
) -> None:
    code, out, err = run("tables", "--paths", *shop.options)
    assert (code, err) == (0, [])
    lines = [line.split() for line in out.decode().splitlines()[1:]]
    rows = truth(shop, shop.simulation.checkpoints[-1])
    assert {name for name, *_ in lines} == set(rows)
    for name, address, version, path in lines:
        for stored in (DeltaTable(path, int(version)), DeltaTable(address)):
            assert stored.to_pyarrow_table().num_rows == len(rows[name])
    document = (PROJECT / "docs" / "lake.md").read_text()
    (sql,) = re.findall(
        r"(?s)```sql\n(SELECT `database`, `table`, location, version\n.*?);\n```", document
    )
    found = here.sql(sql.replace("/data/lake/shop", f"{shop.root}/shop")).collect()
    assert sorted([name, version, path] for name, _, version, path in lines) == sorted(
        [f"{database}.{table}", str(version), f"{shop.root}/shop/{location}"]
        for database, table, location, version in found
    )
