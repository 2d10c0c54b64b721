"""Spark sessions: the errors for what is missing, and where they run."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.resources.programs import executable
from tests.servers import SHORT_LIVED_JVM, cluster, connect_server, free_port
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources import jars
from ticdc_assets.resources.java import find_java
from ticdc_assets.resources.spark import get_session
from ticdc_assets.resources.spark_settings import MEMORY, choose_settings

PROJECT = Path(__file__).resolve().parents[2]
MARKED = "any_spark and not soak and not all_golden and not all_cases"


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own: a process has a single session."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PROJECT)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set JAVA_HOME to a folder without Java."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return tmp_path / "java"


def test_the_error_for_a_missing_java_says_what_to_install(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"JAVA_HOME: Spark needs Java 17 .* apt-get install"):
        get_session(master="local[1]")


def test_memory_that_java_does_not_accept_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY, " 4G ")
    assert choose_settings("local[1]", None)["spark.driver.memory"] == "4G"
    for stated in ("4", "4gb", "1.5g", "-4g", "0g", "4 g", "lots"):
        monkeypatch.setenv(MEMORY, stated)
        with pytest.raises(ConfigError, match=f"^{MEMORY}: must be a whole number with the unit"):
            choose_settings("local[1]", None)


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_302", "9"])
def test_an_old_java_is_an_error(home: Path, version: str) -> None:
    executable(home / "bin" / "java", f"echo 'openjdk version \"{version}\" 2020-01-01' >&2")
    with pytest.raises(ConfigError, match=r"Java 17 or newer, .*/bin/java is not"):
        find_java()


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_new_enough_java_is_used(home: Path, version: str) -> None:
    script = f"echo 'Picked up options' >&2; echo 'openjdk version \"{version}\" 2025' >&2"
    assert java_of(home, script) == home / "bin" / "java"


def java_of(home: Path, script: str) -> Path:
    executable(home / "bin" / "java", script)
    return find_java()


def test_a_missing_connect_server_is_an_error_at_once_without_its_token() -> None:
    url = f"sc://127.0.0.1:{free_port()}"
    reason = os.strerror(errno.ECONNREFUSED)
    with pytest.raises(ConfigError, match=f"no session at {url}: .*{reason}$"):
        get_session(master=f"{url}/;token=sesame;user_id=joe")


LOCAL = """
import os, stat, sys, tempfile
from ticdc_assets.resources.spark import get_session
from ticdc_assets.resources.spark_settings import LITTLE_WORK
from ticdc_assets.store.work_size import FEW_ROWS
lake = os.path.abspath("lake")
spark = get_session(lake, master="local[2]", settings=LITTLE_WORK | FEW_ROWS)
assert get_session(lake, master="local[2]") is spark

def workers(batches):
    import gc, pyarrow, sys, ticdc_assets.events
    assert sum(map(len, batches)) == 1
    found = {"python": [sys.executable], "frozen": [gc.get_freeze_count()]}
    yield pyarrow.record_batch(found)
    assert "pandas" not in sys.modules

[made] = os.listdir(tempfile.gettempdir())
assert stat.S_IMODE(os.stat(f"{tempfile.gettempdir()}/{made}").st_mode) == 0o700

for task in range(2):
    found = spark.range(0, 1, 1, 1).mapInArrow(workers, "python string, frozen bigint").collect()
    assert [(row.python, row.frozen > 0) for row in found] == [(sys.executable, task > 0)], found

# A user's function, in the same workers.
def frames(batches):
    import pandas
    yield pandas.DataFrame({"a": [1.0, None]})

assert spark.range(0, 1, 1, 1).mapInPandas(frames, "a double").collect() == [(1.0,), (None,)]

table = f"delta.`{lake}/t`"
row = "SELECT timestamp'2024-01-02 03:04:05' at"
spark.sql(f"CREATE TABLE {table} USING delta CLUSTER BY (at) AS {row}")
for zone in ("UTC", "Asia/Tokyo"):
    spark.conf.set("spark.sql.session.timeZone", zone)
    print(spark.sql(f"SELECT CAST(at AS string) FROM {table}").first()[0])
for failing in ("nope", "CAST('x' AS int)", "assert_true(id < 0)"):
    try:
        spark.sql(f"SELECT {failing} FROM range(9)").collect()
    except Exception as error:
        print(error.getCondition())

# What Delta itself takes for the number of logs that it keeps.
of_delta = spark._jvm.org.apache.spark.sql.delta.sources.DeltaSQLConf
kept = of_delta.DELTA_LOG_CACHE_SIZE()
print(spark._jsparkSession.sessionState().conf().getConf(kept))
"""


def test_a_local_session_is_in_utc_strict_quiet_private_and_leaves_no_files(tmp_path: Path) -> None:
    place = tmp_path / "jars of ours"
    place.mkdir()
    for jar in jars.find_jars():
        shutil.copy(jar, place)
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    places = {jars.FOLDER: str(place), "TMPDIR": str(temporary)}

    done = run(LOCAL, work, TZ="America/Lima", **places)

    assert done.stdout.splitlines() == [
        "2024-01-02 03:04:05",
        "2024-01-02 12:04:05",
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "CAST_INVALID_INPUT",
        "USER_RAISED_EXCEPTION",
        "50",
    ], done.stderr
    # The JVM prints this line, and no option turns it off.
    noise = [line for line in done.stderr.splitlines() if "incubator modules" not in line]
    assert noise == []
    assert [path.name for path in work.iterdir()] == ["lake"]
    assert list(temporary.iterdir()) == []


WITHOUT_DELTA = """
from ticdc_assets.resources.spark import get_session
from ticdc_assets.errors import ConfigError
try:
    get_session("lake")
except ConfigError as error:
    print(error)
"""


def test_the_error_for_a_connect_server_without_delta_says_what_it_needs(tmp_path: Path) -> None:
    with connect_server(tmp_path, with_delta=False) as url:
        done = run(WITHOUT_DELTA, tmp_path, TICDC_SPARK_MASTER=url)
    assert done.stdout == (
        "TICDC_SPARK_MASTER: the Spark Connect server lacks Delta Lake; it must be started with: "
        f"spark.jars.packages={jars.DELTA}, "
        "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension, "
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog\n"
    ), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "server", [connect_server, pytest.param(cluster, marks=pytest.mark.all_golden)]
)
def test_stages_run_on_every_kind_of_session(
    server: Callable[[Path], AbstractContextManager[str]], tmp_path: Path
) -> None:
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider"]
    command += ["-m", MARKED, f"--basetemp={tmp_path}/of it", f"--junitxml={report}"]
    # Collecting the others takes longer than these run.
    files = (PROJECT / "tests/lake").glob("test_*.py")
    marked = [path for path in files if "mark.any_spark" in path.read_text()]
    with server(tmp_path) as url:
        done = subprocess.run(
            [*command, *marked],
            cwd=PROJECT,
            env=os.environ | SHORT_LIVED_JVM | {"TICDC_TEST_SPARK": url},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    suite = ElementTree.parse(report).getroot()[0]
    assert int(suite.attrib["tests"]) > int(suite.attrib["skipped"])
