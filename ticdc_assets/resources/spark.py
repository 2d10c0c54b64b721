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
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ticdc_assets.errors import ConfigError
from ticdc_assets.resources import jars, shared_session
from ticdc_assets.resources.interrupt import keep_interrupt_handler
from ticdc_assets.resources.java import java_home
from ticdc_assets.resources.spark_server import FOLDER
from ticdc_assets.resources.spark_settings import (
    DELTA_SETTINGS,
    MASTER,
    PARQUET_SETTINGS,
    SESSION_SETTINGS,
    choose_java_home,
    choose_settings,
    reach_server,
    require_master,
)
from ticdc_assets.safe_text import remember_secrets_in

LOG = "TICDC_SPARK_LOG"
LOST_SERVER = "the Spark server ended during this run"

# Delta's error conditions for a concurrent commit: a lake in an object store has no lock.
_CONCURRENT_COMMIT = re.compile(r"\[DELTA_(CONCURRENT_\w+|METADATA_CHANGED|PROTOCOL_CHANGED)\]")


def get_session(
    lake: str | None = None,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session of this process for a lake at a path or URI; start it on the first call.

    `settings` are Spark settings and override those chosen here.
    """
    stated = master or os.environ.get(MASTER)
    shared = None if stated else shared_session.open_shared_session()
    url = stated or shared or "local[*]"
    remember_secrets_in(url)
    require_master(url)
    _silence_query_loggers()
    if url.startswith("sc://"):
        return _connect(url, settings or {}, is_shared=url == shared)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = choose_settings(url, lake) | dict(settings or {})
    builder = SparkSession.builder.appName("ticdc-assets").master(url)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    try:
        with java_home(choose_java_home()), keep_interrupt_handler():
            spark = builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        raise _make_session_error(url, error) from None
    reason = "this process already has a Spark session without Delta Lake; it needs"
    _require_delta(spark, reason, probe=False)
    _apply(spark, PARQUET_SETTINGS)
    return spark


def close_session(spark: SparkSession) -> None:
    """Close a session of a server, which keeps it otherwise; a local one ends with its process."""
    if _is_of_server(spark):
        shared_session.close(spark)


def describe_session(spark: SparkSession) -> str:
    """Say where a session runs: a run shows whether it found the server that runs share."""
    if _is_of_server(spark):
        return "a session of a server"
    if os.environ.get(FOLDER) and not os.environ.get(MASTER):
        return f"a session of its own, for no server answers in {FOLDER}"
    return "a session of its own"


def _is_of_server(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def has_lost_server(error: BaseException) -> bool:
    """Whether an error came of the end of the server that runs share."""
    module = type(error).__module__
    is_of_server = module.startswith("grpc.") or module == "pyspark.errors.exceptions.connect"
    return is_of_server and shared_session.has_lost_server()


def describe_failure(error: BaseException) -> str | None:
    """Describe an error of Spark on one line, root cause last; return None for any other error.

    Spark's own text may be a hundred lines of Java.
    """
    if has_lost_server(error):
        return LOST_SERVER
    if not isinstance(error, PySparkException | Py4JError):
        return None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if condition := _CONCURRENT_COMMIT.search(str(error)):
        return f"another run is at work in this lake and committed first {condition[0]}"
    # The first line of a Java error only names the call that failed.
    reasons = lines[1:2] if isinstance(error, Py4JJavaError) else lines[:1]
    reasons += [line for line in lines if line.startswith("Caused by: ")][-1:]
    return "; ".join(line.removeprefix(": ") for line in reasons) or type(error).__name__


def _connect(url: str, settings: Mapping[str, str], *, is_shared: bool) -> SparkSession:
    _require_server(url)
    _allow_deep_plans()
    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
        atexit.register(close_session, spark)
        if is_shared:
            shared_session.retry_briefly(spark)
        _apply(spark, SESSION_SETTINGS | PARQUET_SETTINGS)
        # The server has started its driver already.
        own = {name: settings[name] for name in settings if not name.startswith("spark.driver.")}
        _apply(spark, own)
    except PySparkException as error:
        raise _make_session_error(url, error) from None
    reason = "the Spark Connect server lacks Delta Lake; it must be started with"
    _require_delta(spark, reason, probe=True)
    return spark


def _allow_deep_plans() -> None:
    """Let plans nest as deeply as a server accepts: in Python, protobuf stops at 100 levels.

    A new table that a window takes through some DDLs has more.
    """
    with suppress(ImportError):
        # Protobuf written in Python has no such limit.
        import_module("google._upb._message").SetAllowOversizeProtos(True)


def _apply(spark: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)


def _require_delta(spark: SparkSession, reason: str, *, probe: bool) -> None:
    """Raise a `ConfigError` if the session lacks Delta; a stage would fail with a parse error.

    `probe` also runs a statement that only Delta understands: a server's settings prove nothing.
    """
    has_delta = all(
        value in (spark.conf.get(name, None) or "").split(",")
        for name, value in DELTA_SETTINGS.items()
    )
    if has_delta and probe:
        try:
            spark.sql("DESCRIBE DETAIL delta.`/ticdc-assets/no/such/table`").collect()
        except PySparkException as error:
            # Only Delta has an error condition of its own for a missing table.
            has_delta = (error.getCondition() or "").startswith("DELTA_")
    if not has_delta:
        listed = ", ".join(f"{name}={value}" for name, value in DELTA_SETTINGS.items())
        raise ConfigError(f"{reason}: spark.jars.packages={jars.DELTA}, {listed}", setting=MASTER)


def _require_server(url: str) -> None:
    """Raise a `ConfigError` if nothing listens; the client itself would retry for ten minutes."""
    try:
        reach_server(url)
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
        # The last one is switched off, until Dagster configures logging.
        names = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
        for name in (*names, "pyspark.sql.connect.logging"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
