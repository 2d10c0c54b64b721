"""`metrics` as Prometheus and the node exporter get them, read by Prometheus's own parsers."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from prometheus_client import parser as text_parser
from prometheus_client.openmetrics import parser as open_parser

from tests.cli.conftest import Run
from tests.cli.made_metrics import (
    HOSTILE,
    STATUSES,
    Samples,
    by,
    collect,
    make_collector,
    make_lake,
    parse,
)
from tests.cli.test_status import PROJECT, declare
from ticdc_assets.cli import metrics as command
from ticdc_assets.cli.metric_families import METRICS
from ticdc_assets.events.tso import to_datetime


def test_scrapes_at_a_time_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    declare("a")
    make_lake("a", ["t"])
    collector = make_collector()
    second = threading.Event()
    calls: list[int] = []
    real = command.read_status

    def slow(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            # Another scrape would begin now.
            second.wait(0.5)
        else:
            second.set()
        return real(*arguments)

    monkeypatch.setattr(command, "read_status", slow)
    found: list[Samples] = []
    threads = [threading.Thread(target=lambda: found.append(collect(collector))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert len(found) == 4
    assert all(each == found[0] for each in found)
    monkeypatch.setattr(command, "_CACHE_SECONDS", 0.0)
    collect(collector)
    assert len(calls) == 2


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Run the command in a process, and stop it."""
    declare("a")
    make_lake("a", HOSTILE)
    arguments = ["metrics", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ticdc_assets.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")


def test_prometheus_reads_what_is_served(served: str) -> None:
    def get(accept: str) -> tuple[str, str]:
        request = urllib.request.Request(served, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    kind, text = get("application/openmetrics-text;version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    found = parse(text, open_parser)
    kind, text = get("text/plain;version=0.0.4")
    assert kind.startswith("text/plain")
    assert parse(text, text_parser) == found
    assert {name for name, _ in found} <= set(METRICS)
    statuses = {name: STATUSES[n % len(STATUSES)] for n, name in enumerate(HOSTILE)}
    living = [name for name in HOSTILE if statuses[name] != "dropped"]
    assert set(by(found, "ticdc_table_files", "table", "a")) == set(living[-20:])
    assert abs(time.time() - found["ticdc_collect_timestamp_seconds", ()]) < 60
    resolved = found["ticdc_resolved_timestamp_seconds", (("changefeed", "a"),)]
    assert abs(resolved - time.time()) < 60
    assert resolved == to_datetime(read_resolved_ts()).timestamp()


def read_resolved_ts() -> int:
    rows = DeltaTable("lake/a/applied").to_pyarrow_table(columns=["resolved_ts"])
    return int(rows["resolved_ts"][0].as_py())


def test_a_textfile_is_replaced_as_a_whole(run: Run) -> None:
    declare("a")
    make_lake("a", HOSTILE)
    Path("out").mkdir()
    file = Path("out", "ticdc.prom")
    file.write_text("before")
    inode = file.stat().st_ino
    assert run("metrics", "--textfile", file) == (0, b"", [])
    found = parse(file.read_text(), text_parser)
    assert found["ticdc_up", (("changefeed", "a"), ("part", "lake"))] == 1
    # Another file has the name now: nobody has read half of one.
    assert file.stat().st_ino != inode
    assert os.listdir("out") == ["ticdc.prom"]
    code, _, err = run("metrics", "--textfile", "nowhere/ticdc.prom")
    assert code == 2
    assert "nowhere/ticdc.prom" in err[0]
    assert "--textfile" in err[0]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--textfile", "ticdc.txt"), "must end in .prom"),
        (("--listen", "9464"), "must be HOST:PORT"),
        (("--listen", "::1:9464"), "must be HOST:PORT"),
        (("--listen", "localhost:99999"), "must be HOST:PORT"),
        (("--listen", "192.0.2.1:9464"), "cannot listen on 192.0.2.1:9464"),
        ((), "changefeeds.toml"),
    ],
)
def test_what_cannot_be_served_is_an_error(run: Run, words: tuple[str, ...], reason: str) -> None:
    if words:
        declare("a")
    code, _, err = run("metrics", *words)
    assert code == 2
    assert reason in " ".join(err)


def test_no_secret_is_in_a_metric(run: Run) -> None:
    Path("changefeeds.toml").write_text(
        '[[changefeed]]\nid = "a"\nsink-uri = "s3://bucket/p?protocol=csv&endpoint=http://127.0.0.1:1'
        '&access-key=AKIDS3CRET&secret-access-key=S3CRET"\n'
    )
    code, _, err = run("metrics", "--textfile", "out.prom")
    text = Path("out.prom").read_text()
    assert code == 0
    assert 'ticdc_up{changefeed="a",part="source"} 0.0' in text
    assert "S3CRET" not in text + " ".join(err)
