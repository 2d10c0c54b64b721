"""`ticdc-assets dev`, as the README starts it, watched in a browser from outside."""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dev_loop import dev_loop
from tests.servers import free_port
from tests.ui.browser import Page, browser

# Seconds for a run: Spark starts in each, beside whatever else this machine does.
RUN = 400


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    port, log = free_port(), tmp_path / "log"
    with (
        browser(f"http://127.0.0.1:{port}") as page,
        dev_loop(tmp_path / "shop", port, log) as dev,
    ):
        _until_up(port, dev, log)
        yield page


def _until_up(port: int, dev: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert dev.poll() is None, log.read_text(errors="replace")
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(1)
    raise AssertionError(log.read_text(errors="replace"))


@pytest.mark.browser
def test_who_opens_the_ui_sees_what_runs_and_whether_it_is_right(
    page: Page, tmp_path: Path
) -> None:
    # The sensor sees a checkpoint, and asks for a run by itself.
    page.open("/runs")
    page.shows("advance_shop_job", "shop_checkpoint", "Success", within=RUN)
    page.keep("1-runs")

    # A record that cannot be read comes in behind it.
    newest = max((tmp_path / "shop/upstream/data/shop/orders").glob("*/*/CDC*.csv"))
    broken = newest.with_name("CDC00000000000000999999.csv")
    broken.write_bytes(b'"I","orders","shop",470632715136794630,"broken"\r\n')

    # The tables that this run made are in the graph.
    page.open("/asset-groups")
    page.shows("source", "raw", "events", "orders", "customers", within=60, again=True)
    page.keep("2-lineage")

    # A table's page: its rows, and its columns with MySQL types.
    page.open("/assets/shop/current/shop/orders")
    page.shows("Row count", "bigint(20) unsigned NOT NULL", "ticdc/resolved_at", within=60)
    page.keep("3-table")

    # The record has turned a check red, which says where it is and why.
    page.open("/assets/shop/quarantine?view=checks&checkDetail=quarantine_is_empty")
    place = str(broken.relative_to(tmp_path / "shop/upstream/data"))
    page.shows("Failed", "fields where", place, within=2 * RUN, again=True)
    page.keep("4-quarantine")

    # What the checks of a table found.
    page.open("/assets/shop/current/shop/orders?view=checks")
    page.shows("keys_are_unique", "Succeeded", within=RUN, again=True)
    page.keep("5-checks")

    # A table that came meanwhile is in the graph.
    page.open("/asset-groups")
    page.shows("reviews", within=2 * RUN, again=True)
    page.keep("6-new-table")
    page.open("/assets/shop/current/shop/reviews")
    page.shows("Row count", "ticdc/resolved_at", within=60, again=True)
    page.keep("7-new-table")
