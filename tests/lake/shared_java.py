"""One Java machine for all test processes: it loads and compiles the code of Spark once.

`python -m tests.lake.shared_java FOLDER PID` starts the machine, writes its address to FOLDER, and
stops it when the process PID, which runs the tests, has ended.  Every test process opens its own
session in the machine, with its own settings and temporary views.
"""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ticdc_assets.resources.spark import get_session
from ticdc_assets.resources.spark_settings import LITTLE_WORK
from ticdc_assets.store.work_size import FEW_ROWS

# Plans are many and rows are few: every sort takes a page of memory, of 64 MiB by default; and
# hardly any code runs as often as optimizing it takes to pay off.
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_SETTINGS = {
    **FEW_ROWS,
    # What lives long is 200 MB and more, which a small young generation makes Java look through
    # for every 100 MB of plans.
    _JAVA_OPTIONS: f"{LITTLE_WORK[_JAVA_OPTIONS]} -Xmn1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "4g",
    "spark.buffer.pageSize": "1m",
}


@cache
def open_session(folder: Path, tests: int) -> SparkSession:
    """Return a session in the Java machine of a folder, which the first test process starts."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "address").exists():
            _start(folder, tests)
    port, secret = json.loads((folder / "address").read_text())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # How spark-submit tells Python of a machine that is running.
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    connect: Callable[[], Any] = launch_gateway
    try:
        gateway = connect()
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    java = gateway.jvm.org.apache.spark
    running = java.sql.SparkSession.builder().getOrCreate()
    of_java = java.api.java.JavaSparkContext(running.sparkContext())
    conf = SparkConf(_jconf=of_java.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=of_java, conf=conf), running.newSession())


def _start(folder: Path, tests: int) -> None:
    log = folder / "log"
    command = [sys.executable, "-m", "tests.lake.shared_java", str(folder), str(tests)]
    written = (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    actions = [written, (os.POSIX_SPAWN_DUP2, 1, 2)]
    process = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions, setsid=True)
    while not (folder / "address").exists():
        if os.waitpid(process, os.WNOHANG)[0]:
            raise RuntimeError(log.read_text())
        time.sleep(0.05)


def _run(folder: Path, tests: int) -> None:
    spark = get_session(master="local[2]", settings=_SETTINGS)
    gateway: Any = spark.sparkContext._gateway
    parameters = gateway.gateway_parameters
    written = folder / "new-address"
    written.touch(0o600)
    written.write_text(json.dumps([parameters.port, parameters.auth_token]))
    written.rename(folder / "address")
    while Path(f"/proc/{tests}").exists():
        time.sleep(0.5)
    spark.stop()


if __name__ == "__main__":
    _run(Path(sys.argv[1]), int(sys.argv[2]))
