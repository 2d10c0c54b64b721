"""The class-data archive: sessions use the one of their Java and jars, and start without one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.resources.programs import executable
from tests.servers import SPARK_HOME
from ticdc_assets.resources import class_archive, jars
from ticdc_assets.resources.java import find_java

DELTA_LOG = "org.apache.spark.sql.delta.DeltaLog"
PROJECT = Path(__file__).resolve().parents[2]

# Starts a session that looks for archives in a given folder; Java's log states the origin of each
# class.
SESSION = """
import sys
from pathlib import Path
from ticdc_assets.resources import class_archive
from ticdc_assets.resources.spark import get_session
from ticdc_assets.resources.spark_settings import LITTLE_WORK
class_archive.FOLDER = Path(sys.argv[1])
log = {name: f"{value} -Xlog:class+load:file={sys.argv[2]}" for name, value in LITTLE_WORK.items()}
spark = get_session(master="local[1]", settings=log)
print(spark._jvm.java.lang.Class.forName("org.apache.spark.sql.delta.DeltaLog").getName())
"""


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SESSION, *map(str, arguments)],
        env={k: v for k, v in os.environ.items() if k != "SPARK_CONF_DIR"}
        | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_another_java_or_another_jar_has_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "FOLDER", tmp_path)
    java, jar = executable(tmp_path / "java", "true"), tmp_path / "delta.jar"
    jar.write_text("a jar")
    expected = class_archive.locate_archive(java, [jar])
    assert class_archive.choose_archive_options(java, str(jar)) == []
    expected.touch()
    options = class_archive.choose_archive_options(java, str(jar))
    assert options[0] == f"-XX:SharedArchiveFile={expected}"
    for changed in (java, jar):
        times = changed.stat().st_atime_ns, changed.stat().st_mtime_ns
        os.utime(changed, ns=(times[0], times[1] + 1))
        assert class_archive.choose_archive_options(java, str(jar)) == []
        os.utime(changed, ns=times)
    assert class_archive.choose_archive_options(java, str(jar)) == options


@pytest.mark.slow
def test_a_session_maps_its_classes(tmp_path: Path) -> None:
    folder = copy_archive(tmp_path).parent
    log = tmp_path / "classes.log"
    done = run(folder, log)
    noise = [line for line in done.stderr.splitlines() if "incubator modules" not in line]
    assert (done.stdout, noise) == ("org.apache.spark.sql.delta.DeltaLog\n", [])
    assert list_sources(log) == ["shared objects file (top)"]


def test_java_starts_quietly_from_a_damaged_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = copy_archive(tmp_path)
    monkeypatch.setattr(class_archive, "FOLDER", archive.parent)
    archive.chmod(0o600)
    archive.write_bytes(bytes(100) + archive.read_bytes()[100:])
    delta, log = os.pathsep.join(map(str, jars.find_jars())), tmp_path / "classes.log"
    options = class_archive.choose_archive_options(find_java(), delta)
    assert f"-XX:SharedArchiveFile={archive}" in options
    class_path = os.pathsep.join([delta, str(SPARK_HOME / "jars" / "*")])
    # Java loads a class before it says that this is no program.
    command = [str(find_java()), *options, f"-Xlog:class+load:file={log}", "-cp", class_path]
    done = subprocess.run([*command, DELTA_LOG], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.stderr.startswith(f"Error: Main method not found in class {DELTA_LOG}")
    (source,) = list_sources(log)
    assert source.endswith(".jar")


def copy_archive(folder: Path) -> Path:
    setup = class_archive.locate_archive(find_java(), jars.find_jars())
    assert setup.is_file(), "there is no archive: run make setup"
    (folder / "some archives").mkdir()
    return Path(shutil.copy(setup, folder / "some archives"))


def list_sources(log: Path) -> list[str]:
    """Return where Java got a class from, each time that it loaded it."""
    lines = log.read_text().splitlines()
    return [line.partition(" source: ")[2] for line in lines if f" {DELTA_LOG} source:" in line]
