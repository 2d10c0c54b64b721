"""Around a task, a worker does no more than the task needs."""

import gc
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pytest

from ticdc_assets.resources import spark_worker


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Run a function as a task is run."""

    def run(work: Callable[[], object]) -> None:
        def task(infile: io.BytesIO, outfile: io.BytesIO) -> None:
            # As pyspark does before each task.
            importlib.invalidate_caches()
            work()

        monkeypatch.setattr(spark_worker, "_run_task", task)
        spark_worker.run_task(io.BytesIO(), io.BytesIO())

    yield run
    gc.unfreeze()


def list_zip_files() -> list[str]:
    return [p for p, found in sys.path_importer_cache.items() if isinstance(found, zipimporter)]


def test_modules_of_a_zip_file_are_found_by_every_task(
    run: Callable[[Callable[[], object]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ZipFile(tmp_path / "modules.zip", "w") as file:
        file.writestr("zipped_house/__init__.py", "")
        file.writestr("zipped_house/room.py", "")
    monkeypatch.syspath_prepend(str(tmp_path / "modules.zip"))
    opened: list[list[str]] = []

    run(lambda: importlib.import_module("zipped_house"))
    assert list_zip_files()
    run(lambda: opened.append(list_zip_files()))
    assert opened == [[]]
    run(lambda: importlib.import_module("zipped_house.room"))


def test_only_modules_are_exempt_from_garbage_collection(
    run: Callable[[Callable[[], object]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_for_a_task.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = gc.get_freeze_count()

    run(lambda: None)
    assert gc.get_freeze_count() == before
    run(lambda: importlib.import_module("made_for_a_task"))
    assert gc.get_freeze_count() > before
