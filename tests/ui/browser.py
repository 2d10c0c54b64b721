"""A headless browser that sees the UI as a person does."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.servers import HOST

# Screenshots of the last test run, for people.
SHOTS = Path(__file__).parents[2] / "artefacts" / "ui"
_ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-dev-shm-usage", "--window-size=1600,1000", "--hide-scrollbars"),
)

# Seconds.
_LOAD_AGAIN = 20


class Page:
    """The page that the browser shows."""

    def __init__(self, driver: webdriver.Chrome, base: str) -> None:
        self._driver = driver
        self._base = base
        self._address = base

    @property
    def text(self) -> str:
        try:
            return str(self._driver.find_element(By.TAG_NAME, "body").text)
        except StaleElementReferenceException:
            return ""

    def open(self, path: str) -> None:
        self._address = self._base + path
        self._driver.get(self._address)

    def open_lineage(self) -> None:
        """Open the graph of all assets, with its groups expanded as a person does."""
        self.open("/asset-groups")
        self.shows("Materialize all")
        until = time.monotonic() + 60
        # The page may not listen to keys yet, and the keys fold groups that are expanded.
        while "expanded=" not in self._driver.current_url:
            assert time.monotonic() < until, self.text
            keys = ActionChains(self._driver)
            keys.key_down(Keys.ALT).send_keys("e").key_up(Keys.ALT).perform()
            time.sleep(3)
        self._address = self._driver.current_url

    def shows(self, *texts: str, within: float = 60, again: bool = False) -> None:
        """Wait until the page shows all texts; with `again`, reload it meanwhile."""

        def missing() -> list[str]:
            shown = self.text
            return [text for text in texts if text not in shown]

        loaded = time.monotonic()
        until = loaded + within
        while lacking := missing():
            now = time.monotonic()
            if now > until:
                self.save_screenshot("lacking")
                raise AssertionError(f"{self._driver.current_url} lacks {lacking}:\n{self.text}")
            # A page that is loaded again and again never gets to lay out its graph.
            if again and now - loaded > _LOAD_AGAIN:
                # The page of an asset that is not there yet has gone to another address.
                self._driver.get(self._address)
                loaded = now
            time.sleep(1)

    def save_screenshot(self, name: str) -> None:
        """Save a screenshot for people to see."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        time.sleep(1)
        assert self._driver.save_screenshot(str(SHOTS / f"{name}.png"))


def wait_until_up(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the UI listens; raise an error with the server's log if it ends."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert server.poll() is None, log.read_text(errors="replace")
        with socket.socket() as tried:
            if tried.connect_ex((HOST, port)) == 0:
                return
        time.sleep(1)
    raise AssertionError(log.read_text(errors="replace"))


@contextmanager
def browser(base: str) -> Iterator[Page]:
    """Open a browser; skip the test if none is installed."""
    program, helper = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or helper is None:
        # Browsers come with the system: no dependency of the project could install one.
        pytest.skip("no browser (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(helper))
    try:
        yield Page(driver, base)
    finally:
        driver.quit()
