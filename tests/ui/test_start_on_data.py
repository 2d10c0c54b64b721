"""A start on a database that has data, in the UI: load, lineage, history, verification."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_mending import dump
from tests.dev_loop import PROJECT
from tests.lake.canal import change, watermark
from tests.mariadb_server import MariaDb
from tests.servers import free_port
from tests.ui.browser import Page, browser, wait_until_up
from ticdc_assets.resources.catalog import read_catalog
from ticdc_assets.store.lake import Lake

# Seconds to wait for a run: each starts Spark.
RUN = 150
LOADED, CHANGED = 470632715136794624, 470632715136894624
_LAUNCH = """
mutation ($given: ExecutionParams!) {
  launchRun(executionParams: $given) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""

_RELOAD = 'mutation { reloadRepositoryLocation(repositoryLocationName: "ticdc") { __typename } }'


def fill(server: MariaDb) -> None:
    server.run(
        "CREATE OR REPLACE DATABASE shop CHARACTER SET utf8mb4",
        "USE shop",
        "CREATE TABLE orders (id int NOT NULL PRIMARY KEY, title varchar(20))",
        "CREATE TABLE customers (id int NOT NULL PRIMARY KEY, name varchar(20))",
        "INSERT INTO orders SELECT seq, CONCAT('order ', seq) FROM seq_1_to_500",
        "INSERT INTO customers SELECT seq, CONCAT('customer ', seq) FROM seq_1_to_200",
    )


def declare(folder: Path, server: MariaDb) -> Path:
    """Declare a changefeed whose topic has an update of one order, and keep histories."""
    new, old = {"id": "7", "title": "changed"}, {"title": "order 7"}
    messages = [
        watermark(LOADED),
        change("UPDATE", "shop", "orders", LOADED + 1, new, old),
        watermark(CHANGED),
    ]
    topic = dump(folder / "records.jsonl", messages)
    file = server.declare(folder / "changefeeds.toml")
    uri = f"dump://{topic}?protocol=canal-json&enable-tidb-extension=true"
    own = f'start-ts = {LOADED}\nhistory = ["shop.orders"]\n'
    text = file.read_text().replace("file:///nowhere?protocol=csv", uri)
    file.write_text(text.replace("[changefeed.up", f"{own}[changefeed.up"))
    return file


@contextmanager
def dagster(folder: Path, changefeeds: Path, port: int) -> Iterator[None]:
    """Run Dagster's UI and daemon on the project, with a Dagster instance for this test only."""
    home = folder / "dagster"
    home.mkdir()
    shutil.copy(PROJECT / "dagster.yaml", home)
    environment = {
        **os.environ,
        "TICDC_CHANGEFEEDS": str(changefeeds),
        "TICDC_LAKE": str(folder / "lake"),
        "DAGSTER_HOME": str(home),
        "VIRTUAL_ENV": sys.prefix,
    }
    program = Path(sys.executable).with_name("dg")
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [program, "dev", "--port", str(port)],
            cwd=PROJECT,
            env=environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            wait_until_up(port, process, log)
            yield
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(120)


def wait_for_table(lake: Path) -> None:
    """Wait until a run has applied the load: no event states the customers."""
    until = time.monotonic() + RUN
    while ("shop", "customers") not in read_catalog(Lake(str(lake), "f")).named():
        assert time.monotonic() < until
        time.sleep(1)


def reload_definitions(port: int) -> None:
    """Reload the code location, as the button of the UI does."""
    _query(port, _RELOAD, {})


def _query(port: int, query: str, variables: dict[str, Any]) -> Any:
    body = json.dumps({"query": query, "variables": variables}).encode()
    url, headers = f"http://127.0.0.1:{port}/graphql", {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
        return json.load(answer)["data"]


def launch(port: int, job: str, config: dict[str, Any]) -> str:
    """Launch a run as the launchpad does, and return its id."""
    selector = {"repositoryLocationName": "ticdc", "repositoryName": "__repository__"}
    given = {"selector": {**selector, "jobName": job}, "runConfigData": config}
    found = _query(port, _LAUNCH, {"given": given})["launchRun"]
    assert found["__typename"] == "LaunchRunSuccess", found
    return str(found["run"]["runId"])


@pytest.mark.browser
def test_the_ui_shows_where_tables_began_and_whether_they_equal_upstream(
    mariadb: MariaDb, tmp_path: Path
) -> None:
    fill(mariadb)
    changefeeds, port = declare(tmp_path, mariadb), free_port()
    with browser(f"http://127.0.0.1:{port}") as page, dagster(tmp_path, changefeeds, port):
        load = {"from_upstream": True, "at": LOADED}
        run = launch(port, "load_f", {"ops": {"start_f_tables": {"config": load}}})
        page.open(f"/runs/{run}")
        page.shows("Success", "ticdc/rows", within=RUN)
        page.save_screenshot("10-load")
        # The sensor requests the run that takes the tables up.
        wait_for_table(tmp_path / "lake")
        reload_definitions(port)
        page.open_lineage()
        # The graph shows the last part of a key: the history of the orders has a page below.
        page.shows("upstream", "source", "orders", "customers", within=RUN, again=True)
        page.save_screenshot("11-lineage-from-upstream")
        page.open("/assets/f/current/shop/orders")
        page.shows("Row count", "500", "ticdc/resolved_at", within=RUN, again=True)
        page.save_screenshot("12-loaded-table")
        page.open("/assets/f/history/shop/orders.history")
        page.shows("Row count", "501", within=RUN, again=True)
        page.save_screenshot("13-history")
        _verify(page, port, mariadb)


def _verify(page: Page, port: int, server: MariaDb) -> None:
    # An order that the changefeed lacks; customers are equal.
    server.run("USE shop", "UPDATE orders SET title = 'changed' WHERE id IN (7, 9)")
    verify = {"ops": {"compare_f_tables": {"config": {"wait_seconds": 0}}}}
    for _ in range(2):
        run = launch(port, "verify_f", verify)
        page.open(f"/runs/{run}")
        page.shows("Success", within=RUN)
        time.sleep(1)
    page.open("/assets/f/current/shop/orders?view=checks&checkDetail=equals_upstream")
    page.shows("Failed", "ticdc/different_rows", within=60, again=True)
    page.save_screenshot("14-verification")
    page.open("/assets/f/current/shop/customers?view=checks&checkDetail=equals_upstream")
    page.shows("Succeeded", within=60, again=True)
    page.save_screenshot("15-equal")
