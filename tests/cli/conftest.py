"""What tests of commands share: running one in this process, and a small lake to look into.

The lake is the demo's own, with a shop so small that building it is a test among others.
"""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lake.conftest import spark
from ticdc_assets import cli
from ticdc_assets.cli import demo
from ticdc_assets.demo import Simulation
from ticdc_assets.resources import reading

__all__ = ["spark"]

Run = Callable[..., tuple[int, bytes, list[str]]]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process: exit code, standard output, lines of standard error."""
    # A command that ends while a source keeps silent would end the tests, too.
    monkeypatch.setattr(os, "_exit", sys.exit)

    def run(*arguments: object) -> tuple[int, bytes, list[str]]:
        # What Spark has said meanwhile is not the command's.
        capfdbinary.readouterr()
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out, err.decode().splitlines()

    return run


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No declarations and no lake but those of the test."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("TICDC_CHANGEFEEDS", raising=False)
    monkeypatch.delenv("TICDC_LAKE", raising=False)


@pytest.fixture(scope="session")
def here(spark: SparkSession) -> Iterator[SparkSession]:
    """Commands take the tests' session, as it is set up."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (reading, demo):
            patch.setattr(module, "get_session", lambda *_, **__: spark)
        yield spark


@dataclass
class Shop:
    """A shop whose changefeed is in a lake up to its end."""

    simulation: Simulation
    root: Path
    # What `demo` printed, and its exit code.
    said: str
    code: int

    @property
    def options(self) -> tuple[object, ...]:
        return ("--changefeeds", self.simulation.changefeeds, "--lake", self.root)


@pytest.fixture(scope="session")
def shop(here: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder = tmp_path_factory.mktemp("demo")
    made: list[Simulation] = []
    prepare = demo.prepare

    def remembered(*arguments: object) -> Simulation:
        made.append(prepare(*arguments))
        return made[0]

    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setattr(demo, "prepare", remembered)
        patch.setattr(demo, "_TRANSACTIONS", 89)
        patch.setattr(demo, "_FLUSH_EVERY", 45)
        code = cli.main(["demo", "--dir", str(folder)])
    return Shop(made[0], folder / "lake", said.getvalue(), code)
