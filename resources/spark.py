"""Start the Spark session: local, on a cluster, or on a Spark Connect server.

`TICDC_SPARK_MASTER` selects where it runs: `local[*]` (the default), any other master URL of Spark,
or `sc://HOST:PORT`.  Site settings (an S3 endpoint, a cluster's queue) go into Spark's own
spark-defaults.conf in `SPARK_CONF_DIR`, credentials into the environment, where the storage clients
look for them.  Workers run this Python unless `PYSPARK_PYTHON` names another; on a cluster that
Python needs this package installed.

A Spark Connect server is already running: settings that only its start can make are checked here.
"""

import atexit
import logging
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from resources import jars
from resources.class_archive import choose_archive_options
from resources.java import find_java
from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import remember_secrets_in

MASTER = "TICDC_SPARK_MASTER"
MEMORY = "TICDC_SPARK_MEMORY"
LOG = "TICDC_SPARK_LOG"

# The forms of a master's URL, and of a Spark Connect server's.
_MASTER = re.compile(r"local(\[[\w*,\s]+\])?|yarn|(spark|mesos|k8s)://\S+", re.ASCII)
_CONNECT = re.compile(
    r"sc://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]{1,5})?(/(;[\w-]+=[^;]*)*)?", re.ASCII
)

_GIB = 1 << 30
_FEW_CORES = 2

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

# Quotes mean the same whatever a site sets.  Spark Connect warns whenever this one is set.
_LITERAL_SETTINGS = {"spark.sql.parser.escapedStringLiterals": "false"}

# Settings that a running session accepts; the lake's stages rely on them.
_SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Statements contain upstream names and comments, where `${env:…}` is literal text.
    "spark.sql.variable.substitute": "false",
    # Quoted names are names, not patterns.
    "spark.sql.parser.quotedRegexColumnNames": "false",
    # The default, INT96, is deprecated and has no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Half the size of the default, and as fast.
    "spark.sql.parquet.compression.codec": "zstd",
    # A record may be a message of several megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The new rows of a replaceWhere commit, such as batch markers, need not match its condition.
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    # Delta's default of 50 partitions for the state of a table's log costs seconds per commit.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Tasks that list files; Delta's VACUUM would start as many as Spark's default of 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    # Inferring constraints for every column takes a seventh of the planning time of a wide table,
    # and no plan here profits from them.
    "spark.sql.constraintPropagation.enabled": "false",
}

# Parquet's own settings, which Spark passes on but does not know when it starts.  Row images hardly
# repeat: building dictionaries of them takes a tenth of the writing time.
_PARQUET_SETTINGS = {
    "parquet.enable.dictionary#after": "false",
    "parquet.enable.dictionary#before": "false",
}

# Delta's error conditions for a concurrent commit: a lake in an object store has no lock.
_CONCURRENT_COMMIT = re.compile(r"\[DELTA_(CONCURRENT_\w+|METADATA_CHANGED|PROTOCOL_CHANGED)\]")

# Most methods of Spark run often while a session starts and plans, and never matter again.  Java
# optimizes code only after ten times its default number of calls and loops: over a few small
# windows that takes an eighth less CPU time, and loads of some 100,000 rows are not slower.
_OPTIMIZE_LATER = [
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
]

# For sessions that end after little work: optimizing their code takes longer than it saves.  Java
# reserves a small code cache for this mode and gives up compilation when it is full.
LITTLE_WORK = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
}

# Settings that only the start of a session or of a server can make.
_DELTA_SETTINGS = {
    "spark.sql.extensions": _EXTENSION,
    "spark.sql.catalog.spark_catalog": _CATALOG,
}

# Unlike the setting without `default`, it leaves a site's own class path in place.
_CLASS_PATH = "spark.driver.defaultExtraClassPath"

# Schemes whose Hadoop client Spark does not ship, and the store whose jars have it.
_STORES = {"s3a": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure"}
# Hadoop finds the classes of the other clients by itself.
_GCS_SETTINGS = {"spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"}


def get_session(
    lake: str | None = None,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session of this process for a lake at a path or URI; start it on the first call.

    `settings` are Spark settings and override those chosen here.
    """
    url = master or os.environ.get(MASTER) or "local[*]"
    remember_secrets_in(url)
    _require_master(url)
    _silence_query_loggers()
    if url.startswith("sc://"):
        return _connect(url, settings or {})
    java = find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = _choose_driver_settings(url) | _choose_jars(url, lake or "")
    chosen["spark.driver.extraJavaOptions"] = _choose_java_options(java, chosen.get(_CLASS_PATH))
    chosen |= _DELTA_SETTINGS | _SESSION_SETTINGS | _LITERAL_SETTINGS | dict(settings or {})
    builder = SparkSession.builder.appName("ticdc-assets").master(url)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        raise _make_session_error(url, error) from None
    reason = "this process already has a Spark session without Delta Lake; it needs"
    _require_delta(spark, reason, probe=False)
    _apply(spark, _PARQUET_SETTINGS)
    return spark


def _require_master(url: str) -> None:
    """Raise a `ConfigError` for a malformed URL, in which a secret can be anywhere."""
    if url.startswith("sc:"):
        if not _CONNECT.fullmatch(url):
            reason = "must be sc://HOST:PORT, or sc://HOST:PORT/;token=… with parameters"
            raise ConfigError(reason, setting=MASTER)
    elif not _MASTER.fullmatch(url):
        reason = "must be local[*], the URL of a master, or sc://HOST:PORT for Spark Connect"
        raise ConfigError(reason, setting=MASTER)


def describe_failure(error: BaseException) -> str | None:
    """Describe an error of Spark on one line, root cause last; return None for any other error.

    Spark's own text may be a hundred lines of Java.
    """
    if not isinstance(error, PySparkException | Py4JError):
        return None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if condition := _CONCURRENT_COMMIT.search(str(error)):
        return f"another run is at work in this lake and committed first {condition[0]}"
    # The first line of a Java error only names the call that failed.
    reasons = lines[1:2] if isinstance(error, Py4JJavaError) else lines[:1]
    reasons += [line for line in lines if line.startswith("Caused by: ")][-1:]
    return "; ".join(line.removeprefix(": ") for line in reasons) or type(error).__name__


def _choose_driver_settings(master: str) -> dict[str, str]:
    """Choose the settings of the driver, which runs in this process whatever the master."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Recording the Python call site takes a quarter of the time that building a plan takes.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": _locate_file("fairscheduler.xml"),
        "spark.driver.memory": os.environ.get(MEMORY) or f"{_choose_memory() >> 20}m",
        # Nothing is stored there, but Spark creates it, by default in the working directory.
        "spark.sql.warehouse.dir": (_make_temporary_folder() / "warehouse").as_uri(),
    }
    if master.startswith("local"):
        chosen |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * _count_cores(master)),
        }
    return chosen


@cache
def _make_temporary_folder() -> Path:
    """Make a folder that only this user can read, and that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="ticdc-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _choose_java_options(java: Path, class_path: str | None) -> str:
    options = [
        f"-Dlog4j2.configurationFile={_locate_file('log4j2.properties')}",
        # Java keeps rows there, in files that every user can read.
        f"-Djava.io.tmpdir={_make_temporary_folder()}",
        *_OPTIMIZE_LATER,
    ]
    if (os.cpu_count() or 1) <= _FEW_CORES:
        # Concurrent collectors take a sixth of such a small machine.
        options.append("-XX:+UseSerialGC")
    if class_path is not None:
        options += choose_archive_options(java, class_path)
    return shlex.join(options)


def _locate_file(name: str) -> str:
    """Return the URI of a file beside this one; unlike a path it contains no space."""
    return (Path(__file__).parent / name).as_uri()


def _count_cores(master: str) -> int:
    stated = re.match(r"local\[(\d+|\*)", master)
    count = stated[1] if stated else "1"
    return (os.cpu_count() or 1) if count == "*" else int(count)


def _choose_memory() -> int:
    """Return a third of the machine's memory, in bytes: the Python workers need some too."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # the cgroup has no limit
        available = min(available, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return max(_GIB, min(available // 3, 16 * _GIB))


def _choose_jars(master: str, lake: str) -> dict[str, str]:
    """Choose the jars of Delta and of the lake's object store, and how Java loads them."""
    scheme = urlsplit(lake).scheme.lower() if "://" in lake else ""
    if scheme in ("s3", "s3n"):
        raise ConfigError(f"Spark writes to S3 as s3a://, not as {scheme}://", setting=lake)
    chosen = dict(_GCS_SETTINGS) if scheme == "gs" else {}
    paths = jars.find_jars(_STORES.get(scheme))
    count = len(jars.read_lock())
    delta, others = paths[:count], paths[count:]
    if not master.startswith("local") or any(os.pathsep in str(path) for path in delta):
        return chosen | {"spark.jars": ",".join(path.as_uri() for path in paths)}
    # Only classes of the class path that Java starts with can be in an archive.
    chosen[_CLASS_PATH] = os.pathsep.join(map(str, delta))
    if others:
        chosen["spark.jars"] = ",".join(path.as_uri() for path in others)
    return chosen


def _connect(url: str, settings: Mapping[str, str]) -> SparkSession:
    _require_server(url)
    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
        _apply(spark, _SESSION_SETTINGS | _PARQUET_SETTINGS)
        # The server has started its driver already.
        own = {name: settings[name] for name in settings if not name.startswith("spark.driver.")}
        _apply(spark, own)
    except PySparkException as error:
        raise _make_session_error(url, error) from None
    reason = "the Spark Connect server lacks Delta Lake; it must be started with"
    _require_delta(spark, reason, probe=True)
    return spark


def _apply(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)


def _require_delta(spark: SparkSession, reason: str, *, probe: bool) -> None:
    """Raise a `ConfigError` if the session lacks Delta; a stage would fail with a parse error.

    `probe` also runs a statement that only Delta understands: a server's settings prove nothing.
    """
    has_delta = all(
        value in (spark.conf.get(name, None) or "").split(",")
        for name, value in _DELTA_SETTINGS.items()
    )
    if has_delta and probe:
        try:
            spark.sql("DESCRIBE DETAIL delta.`/ticdc-assets/no/such/table`").collect()
        except PySparkException as error:
            # Only Delta has an error condition of its own for a missing table.
            has_delta = (error.getCondition() or "").startswith("DELTA_")
    if not has_delta:
        listed = ", ".join(f"{name}={value}" for name, value in _DELTA_SETTINGS.items())
        raise ConfigError(f"{reason}: spark.jars.packages={jars.DELTA}, {listed}", setting=MASTER)


def _require_server(url: str) -> None:
    """Raise a `ConfigError` if nothing listens; the client itself would retry for ten minutes."""
    address = urlsplit(url)
    try:
        with socket.create_connection((address.hostname, address.port or 15002), timeout=10):
            pass
    except (OSError, ValueError) as error:
        raise _make_session_error(url, error) from None


def _make_session_error(url: str, error: Exception) -> ConfigError:
    # A Spark Connect URL may have a token after the host.
    server = url.partition("/;")[0]
    reason = describe_failure(error) or str(error)
    return ConfigError(f"no session at {server}: {reason}", setting=MASTER)


def _silence_query_loggers() -> None:
    """Stop pyspark from writing every failed query to standard error as JSON with its stack."""
    if not os.environ.get(LOG):
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
