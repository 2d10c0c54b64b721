"""The Spark session: local, on a cluster's master, or on a Spark Connect server.

Where it runs is said by `TICDC_SPARK_MASTER`: `local[*]` (the default), any master URL that Spark
knows, or `sc://HOST:PORT`.  Spark reads all else that a site needs (an S3 endpoint, a cluster's
queue) from its own spark-defaults.conf in `SPARK_CONF_DIR`; credentials stay where the storage's
own client looks for them, in the environment.  The workers' Python is this one, unless
`PYSPARK_PYTHON` names another; on a cluster it has this package installed.

A server of Spark Connect was started by someone else: what cannot be set from here is asked for.
"""

import logging
import os
import re
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from resources import jars
from resources.java import find_java
from ticdc_assets.errors import ConfigError

MASTER = "TICDC_SPARK_MASTER"
MEMORY = "TICDC_SPARK_MEMORY"
LOG = "TICDC_SPARK_LOG"

_GIB = 1 << 30
_FEW_CORES = 2

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

# What a session can set for itself; the lake's stages rely on these.
_OF_EVERY_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Names and comments of upstream stand in statements: `${env:…}` in one must stay what it is.
    "spark.sql.variable.substitute": "false",
    # INT96, the default, has no statistics and is deprecated.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Half of what the default takes, and no slower.
    "spark.sql.parquet.compression.codec": "zstd",
    # A record may be a message of megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A replaced range is stated by other columns than the ones that its rows are told by.
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    # A log's state in a few partitions; Delta's default of 50 costs seconds a commit.
    "spark.databricks.delta.snapshotPartitions": "2",
    # So many tasks look for files; Delta's VACUUM takes Spark's default of 10,000 by its word.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    # What follows from conditions is inferred for every column of a plan, and of no use here: a
    # seventh of the time that it takes to plan for a table of many columns.
    "spark.sql.constraintPropagation.enabled": "false",
}

# Parquet's own, which Spark passes on but does not know when it starts.  Hardly two row images are
# the same: to look for what repeats costs a tenth of writing them.
_OF_PARQUET = {
    "parquet.enable.dictionary#after": "false",
    "parquet.enable.dictionary#before": "false",
}

# Delta's word for it that a commit came too late: a lake in an object store has no lock.
_OUTRUN = re.compile(r"\[DELTA_(CONCURRENT_\w+|METADATA_CHANGED|PROTOCOL_CHANGED)\]")

# What only a server, or the start of a session, can set.
_OF_DELTA = {
    "spark.sql.extensions": _EXTENSION,
    "spark.sql.catalog.spark_catalog": _CATALOG,
}

# Stores that Spark needs more for than it ships: the jar that must be there, and the package that
# brings it with what it depends on.
_STORES = {
    "s3a": ("hadoop-aws", jars.S3A),
    "gs": ("gcs-connector", None),
    "abfs": ("hadoop-azure", jars.AZURE),
    "abfss": ("hadoop-azure", jars.AZURE),
}
# Hadoop knows by itself who speaks to the other stores.
_OF_GOOGLE = {"spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"}


def get_session(
    lake: str | None = None,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session for a lake at a path or URI; the process has one, and a second call returns it.

    `settings` are Spark's own and go before what is chosen here.
    """
    where = master or os.environ.get(MASTER) or "local[*]"
    _quiet()
    if where.startswith("sc://"):
        return _connected(where, settings or {})
    find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = _jars_for(lake or "", where) | _of_process(where) | _OF_DELTA | _OF_EVERY_SESSION
    builder = SparkSession.builder.appName("ticdc-assets").master(where)
    for name, value in (chosen | dict(settings or {})).items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        raise _no_session(where, error) from None
    reason = "this process has started a Spark session without Delta Lake; it needs"
    _require_delta(spark, reason, tried=False)
    _set(spark, _OF_PARQUET)
    return spark


def describe_failure(error: BaseException) -> str | None:
    """What Spark failed at, in a line; None for an error of another kind.

    Its own form is a hundred lines of Java; what is at the bottom of it is said last.
    """
    if not isinstance(error, PySparkException | Py4JError):
        return None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if found := _OUTRUN.search(str(error)):
        return f"another run is at work in this lake, and has committed before this one {found[0]}"
    # Of an error from Java the first line says which call it was.
    said = lines[1:2] if isinstance(error, Py4JJavaError) else lines[:1]
    said += [line for line in lines if line.startswith("Caused by: ")][-1:]
    return "; ".join(line.removeprefix(": ") for line in said) or type(error).__name__


def _of_process(master: str) -> dict[str, str]:
    """What holds for the driver that is started here, on any master."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # With each call that builds a part of a plan Spark would be told where in Python that is: a
        # quarter of the time that it takes.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": _file("fairscheduler.xml"),
        "spark.driver.memory": os.environ.get(MEMORY) or f"{_memory() >> 20}m",
        "spark.driver.extraJavaOptions": _java_options(),
        # Nothing is kept there, but Spark makes the folder, by default where the process runs.
        "spark.sql.warehouse.dir": Path(tempfile.gettempdir(), "spark-warehouse").as_uri(),
    }
    if master.startswith("local"):
        chosen |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * _cores(master)),
        }
    return chosen


def _java_options() -> str:
    options = f"-Dlog4j2.configurationFile={_file('log4j2.properties')}"
    if (os.cpu_count() or 1) <= _FEW_CORES:
        # Others collect garbage beside the work, which takes a sixth of such a machine.
        options += " -XX:+UseSerialGC"
    return options


def _file(name: str) -> str:
    """One of the files beside this one; a URI, so that a space in the path is none."""
    return (Path(__file__).parent / name).as_uri()


def _cores(master: str) -> int:
    stated = re.match(r"local\[(\d+|\*)", master)
    count = stated[1] if stated else "1"
    return (os.cpu_count() or 1) if count == "*" else int(count)


def _memory() -> int:
    """A third of the machine for the driver, for the Python workers beside it need some too."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no limit is set
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return max(_GIB, min(found // 3, 16 * _GIB))


def _jars_for(lake: str, master: str) -> dict[str, str]:
    """The jars of Delta, and of the store that the lake lies in."""
    scheme = urlsplit(lake).scheme.lower() if "://" in lake else ""
    if scheme in ("s3", "s3n"):
        raise ConfigError(f"Spark writes to S3 as s3a://, not as {scheme}://", setting=lake)
    here = jars.find_jars()
    wanted = []
    if not _has(here, "delta-spark"):
        wanted.append(jars.DELTA)
    needed, package = _STORES.get(scheme, ("", None))
    if package and not _has(here, needed):
        wanted.append(package)
    elif not _has(here, needed) and here and master.startswith("local"):
        reason = f"a lake at {scheme}:// needs {jars.GOOGLE}: put it beside Delta's jars"
        raise ConfigError(reason, setting=jars.FOLDER)
    if wanted and os.environ.get(jars.FOLDER):
        # A folder was named so that nothing is asked of the network.
        raise ConfigError(f"missing there: {', '.join(wanted)}", setting=jars.FOLDER)
    chosen = dict(_OF_GOOGLE) if scheme == "gs" else {}
    if here:
        chosen["spark.jars"] = ",".join(path.as_uri() for path in here)
    if wanted:
        chosen["spark.jars.packages"] = ",".join(wanted)
        chosen["spark.jars.excludes"] = ",".join(jars.EXCLUDES)
    return chosen


def _has(present: list[Path], name: str) -> bool:
    return any(name in path.name for path in present)


def _connected(url: str, settings: Mapping[str, str]) -> SparkSession:
    _require_server(url)
    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
        _set(spark, _OF_EVERY_SESSION | _OF_PARQUET | dict(settings))
    except PySparkException as error:
        raise _no_session(url, error) from None
    reason = "the Spark Connect server lacks Delta Lake; it must be started with"
    _require_delta(spark, reason, tried=True)
    return spark


def _set(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)


def _require_delta(spark: SparkSession, reason: str, *, tried: bool) -> None:
    """See that Delta is there, before a stage fails with Spark's word for it, a parse error."""
    there = all(
        value in (spark.conf.get(name, None) or "").split(",") for name, value in _OF_DELTA.items()
    )
    if there and tried:
        try:
            spark.sql("DESCRIBE DETAIL delta.`/ticdc-assets/no/such/table`").collect()
        except PySparkException as error:
            # Only Delta has a word of its own for a table that is not there.
            there = (error.getCondition() or "").startswith("DELTA_")
    if not there:
        listed = ", ".join(f"{name}={value}" for name, value in _OF_DELTA.items())
        raise ConfigError(f"{reason}: spark.jars.packages={jars.DELTA}, {listed}", setting=MASTER)


def _require_server(url: str) -> None:
    """See that something listens, for the client itself would try again for ten minutes."""
    place = urlsplit(url)
    try:
        with socket.create_connection((place.hostname, place.port or 15002), timeout=10):
            pass
    except (OSError, ValueError) as error:
        raise _no_session(url, error) from None


def _no_session(url: str, error: Exception) -> ConfigError:
    # A URL of Spark Connect may carry a token behind the host, and an error may quote it.
    place, _, parameters = url.partition("/;")
    said = describe_failure(error) or str(error)
    for parameter in filter(None, parameters.split(";")):
        said = said.replace(parameter.partition("=")[2] or parameter, "…")
    return ConfigError(f"no session at {place}: {said}", setting=MASTER)


def _quiet() -> None:
    """Keep pyspark from writing every failed query to standard error, as JSON with its stack."""
    if not os.environ.get(LOG):
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
