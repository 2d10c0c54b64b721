"""`demo --upstream`: the shop works on a real TiDB, in a database of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import HOST
from tests.tidb_server import Tidb
from ticdc_assets.cli import demo, main
from ticdc_assets.cli.demo_upstream import open_database, parse_address, start_server
from ticdc_assets.cli.process_groups import ProcessGroups
from ticdc_assets.demo.change import CREATE_DATABASE, Ddl
from ticdc_assets.errors import ConfigError

PROJECT = Path(__file__).resolve().parents[2]


def run_demo(tidb: Tidb, folder: Path, *options: str, user: str = "root") -> int:
    address = f"mysql://{user}@{HOST}:{tidb.port}"
    return main(["demo", "--dir", str(folder), "--upstream", address, *options])


@pytest.mark.slow
def test_the_shop_works_on_a_tidb_and_leaves_other_databases_alone(
    tidb: Tidb,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "_TRANSACTIONS", 269)
    monkeypatch.setattr(demo, "_FLUSH_EVERY", 110)
    tidb.run(
        "DROP DATABASE IF EXISTS shop",
        "CREATE DATABASE IF NOT EXISTS others",
        "CREATE TABLE IF NOT EXISTS others.t (id int PRIMARY KEY)",
    )
    assert run_demo(tidb, tmp_path, "--protocol", "simple") == 0
    assert "Every table is equal." in capsys.readouterr().out
    lake = ["--changefeeds", str(tmp_path / "upstream" / "changefeeds.toml")]
    lake += ["--lake", str(tmp_path / "lake")]
    assert main(["verify", *lake]) == 0
    assert capsys.readouterr().out.count(": equal at ") == 6
    assert main(["check", *lake]) == 0, capsys.readouterr()
    ((orders,),) = tidb.run("SELECT COUNT(*) FROM shop.orders")
    assert orders > 60

    # The next one begins without it.
    with open_database(parse_address(f"mysql://root@{HOST}:{tidb.port}")):
        assert tidb.run("SHOW DATABASES LIKE 'shop'") == []
    assert tidb.run("SHOW TABLES FROM others") == [("t",)]


def test_a_database_that_somebody_else_made_is_left_as_it_is(
    tidb: Tidb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tidb.run(
        "DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop", "CREATE TABLE shop.mine (i int)"
    )

    assert run_demo(tidb, tmp_path) == 2
    assert "a database shop that this program did not make" in capsys.readouterr().err
    assert tidb.run("SHOW TABLES FROM shop") == [("mine",)]
    tidb.run("DROP DATABASE shop")


def test_a_database_of_another_case_is_somebody_elses(
    tidb: Tidb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tidb.run("DROP DATABASE IF EXISTS shop", "CREATE DATABASE Shop")

    assert run_demo(tidb, tmp_path / "new") == 2
    assert "a database shop that this program did not make" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert tidb.run("SHOW DATABASES LIKE 'Shop'") == [("Shop",)]
    tidb.run("DROP DATABASE Shop")


@pytest.mark.parametrize("command", ["demo", "simulate", "dev"])
def test_a_folder_that_is_used_already_leaves_the_shop_of_the_run_before(
    command: str,
    tidb: Tidb,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(PROJECT)
    marker = "made_by_ticdc_assets"
    tidb.run("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")
    tidb.run(f"CREATE TABLE shop.{marker} (id int PRIMARY KEY)")
    used = tmp_path / "upstream"
    (used / "data").mkdir(parents=True)
    folder = [str(used)] if command == "simulate" else ["--dir", str(tmp_path)]
    address = f"mysql://root@{HOST}:{tidb.port}"

    assert main([command, *folder, "--upstream", address]) == 2
    assert "already holds the output of a changefeed" in capsys.readouterr().err
    assert tidb.run("SHOW TABLES FROM shop") == [(marker,)]
    tidb.run("DROP DATABASE shop")


def test_a_shop_that_goes_away_is_an_error_that_says_why(tidb: Tidb) -> None:
    tidb.run("DROP DATABASE IF EXISTS shop")
    with open_database(parse_address(f"mysql://root@{HOST}:{tidb.port}")) as database:
        assert database is not None
        create = Ddl(0, CREATE_DATABASE, "CREATE DATABASE `shop`", "shop")
        database.make(create)
        tidb.run("DROP DATABASE shop")
        table = Ddl(0, CREATE_DATABASE, "CREATE TABLE `shop`.`t` (`id` INT PRIMARY KEY)", "shop")
        with pytest.raises(ConfigError, match="the only writer of its database: start it anew"):
            database.make(table)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tidb", "must be mysql:// and"),
        ("postgres://root@here:1", "must be mysql:// and"),
        ("mysql://here", "must be mysql:// and"),
        ("mysql://root@here:port", "must be mysql:// and"),
        ("mysql://root@here/shop", "must be mysql:// and"),
        ("mysql://root:secret@here", "the password must be in the environment"),
    ],
)
def test_an_address_that_is_none_is_an_error(
    address: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--dir", str(tmp_path / "new"), "--upstream", address]) == 2
    shown = capsys.readouterr().err
    assert reason in shown
    assert "secret" not in shown
    assert not (tmp_path / "new").exists()


def test_the_password_is_read_from_the_environment(
    tidb: Tidb,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TICDC_DEMO_PASSWORD", "wrong-horse-8")

    assert run_demo(tidb, tmp_path, user="verify") == 2
    shown = capsys.readouterr().err
    assert "Access denied" in shown
    assert "--upstream: " in shown
    assert "its password in TICDC_DEMO_PASSWORD; grant it all rights on shop.*" in shown
    assert "wrong-horse-8" not in shown


def test_a_variable_without_a_password_is_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICDC_DEMO_PASSWORD", "")

    assert parse_address("mysql://root@here").password is None


@contextmanager
def run_processes() -> Iterator[ProcessGroups]:
    """Stop the processes at the end, which ignores signals from then on."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    processes = ProcessGroups(dict(os.environ))
    try:
        yield processes
    finally:
        processes.stop()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_a_tidb_is_started_for_the_shop_and_stopped(tidb: Tidb, tmp_path: Path) -> None:
    with run_processes() as processes:
        upstream = parse_address(start_server(processes, tmp_path / "tidb"))
        assert upstream.port != tidb.port
        with open_database(upstream) as database:
            assert database is not None
            assert database.truth() == {}
    with socket.socket() as probe:
        assert probe.connect_ex((upstream.host, upstream.port)) != 0


def test_without_a_tidb_to_start_the_error_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    with run_processes() as processes, pytest.raises(ConfigError, match="needs Go"):
        start_server(processes, tmp_path / "tidb")


# Starts processes, one with a child of its own, says which, and waits.
PARENT = """
import sys, time
from ticdc_assets.cli.process_groups import ProcessGroups
groups = ProcessGroups({})
sleep = "import subprocess, sys; subprocess.run(['sleep', '300'])"
print(*(groups.start([sys.executable, "-c", sleep]).pid for _ in range(2)), flush=True)
time.sleep(300)
"""


def test_what_a_killed_process_has_started_ends() -> None:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    groups = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(groups) == 2
    assert find_alive(groups) == groups
    parent.kill()
    parent.wait()
    parent.stdout.close()

    deadline = time.monotonic() + 60
    while find_alive(groups) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert find_alive(groups) == []


def find_alive(groups: Sequence[int]) -> list[int]:
    """Return the process groups that have a process which is no zombie."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    ).stdout
    alive = {int(line.split()[0]) for line in listed.splitlines() if "Z" not in line.split()[1]}
    return [group for group in groups if group in alive]
