"""Choose Spark's settings: for the stages of the lake, for Delta, and for this machine.

Site settings (an S3 endpoint, a cluster's queue) go into Spark's own spark-defaults.conf.  This
imports no Spark, which takes seconds.
"""

import atexit
import os
import re
import shlex
import shutil
import socket
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from ticdc_assets.errors import ConfigError
from ticdc_assets.resources import jars
from ticdc_assets.resources.class_archive import choose_archive_options
from ticdc_assets.resources.java import find_java, make_quiet_home

MASTER = "TICDC_SPARK_MASTER"
MEMORY = "TICDC_SPARK_MEMORY"

# The forms of a master's URL, and of a Spark Connect server's.
_MASTER = re.compile(r"local(\[[\w*,\s]+\])?|yarn|(spark|mesos|k8s)://\S+", re.ASCII)
_CONNECT = re.compile(
    r"sc://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]{1,5})?(/(;[\w-]+=[^;]*)*)?", re.ASCII
)
_CONNECT_PORT = 15002
# In seconds.
_CONNECT_TIMEOUT = 10
_MEMORY_FORM = re.compile(r"[1-9][0-9]*[mgt]", re.IGNORECASE)
_GIB = 1 << 30
_FEW_CORES = 2
_SITE_ENDPOINT = re.compile(r"^\s*spark\.hadoop\.fs\.s3a\.(\S+\.)?endpoint\b", re.MULTILINE)

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

# Quotes mean the same whatever a site sets.  Spark Connect warns whenever this one is set.
_LITERAL_SETTINGS = {"spark.sql.parser.escapedStringLiterals": "false"}

# Settings that a running session accepts; the lake's stages rely on them.
SESSION_SETTINGS = {
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
    # Frames of more rows reach the tasks as Arrow; of fewer, the plan itself holds the rows.
    "spark.sql.execution.arrow.localRelationThreshold": "1m",
    # The new rows of a replaceWhere commit, such as batch markers, need not match its condition.
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    # Delta's default of 50 partitions for the state of a table's log costs seconds per commit.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Delta keeps the plans of each log that it has read for an hour: 3 MB of Java's heap per table.
    # Its default of 10,000 tables would fill any.
    "spark.databricks.delta.delta.log.cacheSize": "50",
    # Tasks that list files; Delta's VACUUM would start as many as Spark's default of 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    # Inferring constraints for every column takes a seventh of the planning time of a wide table,
    # and no plan here profits from them.
    "spark.sql.constraintPropagation.enabled": "false",
}

# Parquet's own settings, which Spark passes on but does not know when it starts.  Row images hardly
# repeat: building dictionaries of them takes a tenth of the writing time.
PARQUET_SETTINGS = {
    "parquet.enable.dictionary#after": "false",
    "parquet.enable.dictionary#before": "false",
}

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
DELTA_SETTINGS = {
    "spark.sql.extensions": _EXTENSION,
    "spark.sql.catalog.spark_catalog": _CATALOG,
}

# Unlike the setting without `default`, it leaves a site's own class path in place.
_CLASS_PATH = "spark.driver.defaultExtraClassPath"

# Schemes whose Hadoop client Spark does not ship, and the store whose jars have it.
_STORES = {"s3a": "s3", "s3": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure"}
# Hadoop finds the classes of the other clients by itself.
_S3_SETTINGS = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
_GCS_SETTINGS = {"spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"}


def require_master(url: str) -> None:
    """Raise a `ConfigError` for a malformed URL, in which a secret can be anywhere."""
    if url.startswith("sc:"):
        if not _CONNECT.fullmatch(url):
            reason = "must be sc://HOST:PORT, or sc://HOST:PORT/;token=… with parameters"
            raise ConfigError(reason, setting=MASTER)
    elif not _MASTER.fullmatch(url):
        reason = "must be local[*], the URL of a master, or sc://HOST:PORT for Spark Connect"
        raise ConfigError(reason, setting=MASTER)


def reach_server(url: str) -> None:
    """Connect to a Spark Connect server; raise `OSError` or `ValueError` if nothing listens."""
    address = urlsplit(url)
    place = address.hostname, address.port or _CONNECT_PORT
    with socket.create_connection(place, timeout=_CONNECT_TIMEOUT):
        pass


def choose_settings(master: str, lake: str | None) -> dict[str, str]:
    """Choose all settings of a driver that is to be started, for a lake at a path or URI."""
    java = find_java()
    chosen = _choose_driver_settings(master) | choose_jars(master, lake or "")
    chosen["spark.driver.extraJavaOptions"] = _choose_java_options(java, chosen.get(_CLASS_PATH))
    return chosen | DELTA_SETTINGS | SESSION_SETTINGS | _LITERAL_SETTINGS


def choose_java_home() -> Path | None:
    """Return the `JAVA_HOME` with which a driver is to be started; None for the present one."""
    return make_quiet_home(find_java(), _make_temporary_folder())


def _choose_driver_settings(master: str) -> dict[str, str]:
    """Choose the settings of the driver, which runs in this process whatever the master."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark describes every plan for its UI: in few words that takes 3% less CPU time.
        "spark.sql.ui.explainMode": "simple",
        # Recording the Python call site takes a quarter of the time that building a plan takes.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Of a cluster's Python, too: it has this package.
        "spark.python.daemon.module": "ticdc_assets.resources.spark_worker",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": _locate_file("fairscheduler.xml"),
        "spark.driver.memory": read_memory() or f"{_choose_memory() >> 20}m",
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


def read_memory() -> str:
    """Return what TICDC_SPARK_MEMORY states: Java takes fewer forms than Spark documents."""
    stated = os.environ.get(MEMORY, "").strip()
    if stated and not _MEMORY_FORM.fullmatch(stated):
        reason = "must be a whole number with the unit m, g or t, such as 4g"
        raise ConfigError(reason, setting=MEMORY)
    return stated


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


def _choose_s3_endpoint() -> dict[str, str]:
    """Choose the S3 server that the environment names, unless the site's settings name one.

    What is done without Spark reads the same variables.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint or _SITE_ENDPOINT.search(_read_site_settings()):
        return {}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def _read_site_settings() -> str:
    folder = os.environ.get("SPARK_CONF_DIR")
    with suppress(OSError):
        return Path(folder or "", "spark-defaults.conf").read_text() if folder else ""
    return ""


def choose_jars(master: str, lake: str) -> dict[str, str]:
    """Choose the jars of Delta and of the lake's object store, and how Java loads them."""
    scheme = urlsplit(lake).scheme.lower() if "://" in lake else ""
    store = _STORES.get(scheme)
    paths = jars.find_jars(store)
    chosen = dict(_GCS_SETTINGS) if store == "gcs" else {}
    if store == "s3":
        chosen = _S3_SETTINGS | _choose_s3_endpoint()
    count = len(jars.read_lock())
    delta, others = paths[:count], paths[count:]
    if not master.startswith("local") or any(os.pathsep in str(path) for path in delta):
        return chosen | {"spark.jars": ",".join(path.as_uri() for path in paths)}
    # Only classes of the class path that Java starts with can be in an archive.
    chosen[_CLASS_PATH] = os.pathsep.join(map(str, delta))
    if others:
        chosen["spark.jars"] = ",".join(path.as_uri() for path in others)
    return chosen
