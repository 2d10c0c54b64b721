"""`ticdc-assets dev`, started as in the README and seen in a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dev_loop import dev_loop
from tests.servers import free_port
from tests.ui.browser import Page, browser, wait_until_up

# Seconds to wait for a run: each starts Spark.
RUN = 400


@pytest.fixture
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Page]:
    """Open a browser on a simulated changefeed; the parameter is where that writes."""
    port, log = free_port(), tmp_path / "log"
    with (
        browser(f"http://127.0.0.1:{port}") as page,
        dev_loop(tmp_path / "shop", port, log, sink=getattr(request, "param", None)) as dev,
    ):
        wait_until_up(port, dev, log)
        yield page


@pytest.mark.browser
def test_the_ui_shows_what_runs_and_whether_the_data_is_correct(page: Page, tmp_path: Path) -> None:
    # The sensor sees a checkpoint and requests a run.
    page.open("/runs")
    page.shows("advance_shop_job", "shop_checkpoint", "Success", within=RUN)
    page.save_screenshot("1-runs")

    # Then a record arrives that cannot be decoded.
    newest = max((tmp_path / "shop/upstream/data/shop/orders").glob("*/*/CDC*.csv"))
    broken = newest.with_name("CDC00000000000000999999.csv")
    broken.write_bytes(b'"I","orders","shop",470632715136794630,"broken"\r\n')

    # The tables that the run created are in the graph.
    page.open_lineage()
    page.shows("source", "raw", "events", "orders", "customers", within=60, again=True)
    page.save_screenshot("2-lineage")

    # The page of a table shows its rows, and its columns with MySQL types.
    page.open("/assets/shop/current/shop/orders")
    page.shows("Row count", "bigint(20) unsigned NOT NULL", "ticdc/resolved_at", within=60)
    page.save_screenshot("3-table")

    # A check fails for the record as long as a table lacks it, and shows its position and reason.
    page.open("/assets/shop/quarantine?view=checks&checkDetail=tables_lack_nothing")
    place = str(broken.relative_to(tmp_path / "shop/upstream/data"))
    page.shows("Failed", "fields; ", place, within=2 * RUN, again=True)
    page.save_screenshot("4-quarantine")

    # The page of a table shows its checks.
    page.open("/assets/shop/current/shop/orders?view=checks")
    page.shows("keys_are_unique", "Succeeded", within=RUN, again=True)
    page.save_screenshot("5-checks")

    # A table that was created meanwhile, and got its last name, is in the graph; that of all assets
    # draws what its window has room for only.
    page.open("/assets/shop/current/shop/product_reviews?view=lineage")
    page.shows("product_reviews.schema", "Materialized", within=2 * RUN, again=True)
    page.save_screenshot("6-new-table")
    page.open("/assets/shop/current/shop/product_reviews")
    page.shows("Row count", "ticdc/resolved_at", within=60, again=True)
    page.save_screenshot("7-new-table")


@pytest.mark.browser
@pytest.mark.parametrize("page", ["kafka"], indirect=True)
def test_the_source_says_how_far_each_partition_is_read(page: Page) -> None:
    page.open("/runs")
    page.shows("advance_shop_job", "shop_checkpoint", "Success", within=RUN)
    page.open_lineage()
    page.shows("source", "raw", "events", "orders", "customers", within=60, again=True)
    page.save_screenshot("8-lineage-of-a-topic")
    page.open("/assets/shop/source")
    page.shows("ticdc/records_behind", "ticdc/partitions", within=RUN, again=True)
    page.save_screenshot("9-partitions")
