"""Ctrl-C in `dev` ends it with one line, whatever its child processes print."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.servers import HOST
from ticdc_assets.resources.kafka_producer import Producer
from ticdc_assets.resources.spark_settings import MASTER

PROJECT = Path(__file__).resolve().parents[2]

# With another master, `dev` starts no Spark server.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != MASTER}

# Stands in for each program that `dev` starts: prints a stack trace when it is interrupted.
CHILD = f"""#!{sys.executable}
import os, sys, time
from pathlib import Path
if "spark-server" in sys.argv:
    Path(os.environ["TICDC_SPARK_SERVER"]).mkdir()
elif "simulate" in sys.argv:
    folder = Path(sys.argv[sys.argv.index("simulate") + 1])
    folder.mkdir(parents=True)
    uri = f"file://{{folder}}/data?protocol=csv"
    text = f'[[changefeed]]\\nid = "shop"\\nsink-uri = "{{uri}}"\\n'
    (folder / "arguments").write_text(" ".join(sys.argv))
    (folder / "new").write_text(text)
    (folder / "new").rename(folder / "changefeeds.toml")
else:
    print("dagster has started", flush=True)
time.sleep(60)
"""
DEV = """
import sys
from ticdc_assets.cli import main
sys.executable = sys.argv[1]
sys.exit(main(["dev", "--dir", sys.argv[2], "--port", "1", *sys.argv[3:]]))
"""


@pytest.mark.parametrize("sink", [None, "kafka"])
def test_ctrl_c_prints_one_line_and_no_stack_trace(tmp_path: Path, sink: str | None) -> None:
    for name in ("python", "dg"):
        (tmp_path / name).write_text(CHILD)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "dagster.yaml").touch()
    dev = subprocess.Popen(
        [
            *(sys.executable, "-c", DEV, tmp_path / "python", tmp_path / "folder"),
            *(("--sink", sink) if sink else ()),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**ENVIRONMENT, "PYTHONPATH": str(PROJECT)},
        start_new_session=True,
    )
    assert dev.stdout is not None
    while "dagster has started" not in (line := dev.stdout.readline()):
        assert line, dev.communicate()
    arguments = (tmp_path / "folder" / "upstream" / "arguments").read_text().split()
    brokers = arguments[arguments.index("--brokers") + 1] if sink else None
    if brokers is not None:
        # The broker was there before the simulation.
        Producer(brokers).create_topic("topic", 2)
    while not (tmp_path / "folder" / "spark").exists():
        time.sleep(0.1)
    os.killpg(dev.pid, signal.SIGINT)
    out, err = dev.communicate(timeout=60)

    assert dev.returncode == 130
    assert out == ""
    assert err == "ticdc-assets: interrupted; stopping the simulation and Dagster\n"
    if brokers is not None:
        with socket.socket() as probe:
            assert probe.connect_ex((HOST, int(brokers.rpartition(":")[2])))
