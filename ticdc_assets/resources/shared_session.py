"""A session at the Spark server that runs share, from its start to its end.

A server outlives its clients: what a client leaves there stays until the server ends.  So a session
is closed with its process, and the next client closes those of processes that were killed, whose
last statements might otherwise commit after it has begun.

Spark Connect's client is imported where it is used: it takes a second, and needs pandas.
"""

import gc
import os
import warnings
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from ticdc_assets.resources.spark_server import (
    TOKEN,
    ClientSession,
    find_server,
    register_session,
    take_abandoned_sessions,
)

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

_opened: ClientSession | None = None


def open_shared_session() -> str | None:
    """Return the URL of this process's session at the server; None if no server runs."""
    global _opened
    if _opened is None and (server := find_server()):
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        # The client takes it from there, now and whenever it connects again.
        os.environ[TOKEN] = server.token
        for abandoned in take_abandoned_sessions(server):
            release_session(ConnectSession(abandoned.url))
            abandoned.forget()
        collect_released()
        _opened = register_session(server)
    return None if _opened is None else _opened.url


def retry_briefly(spark: "SparkSession | ConnectSession") -> None:
    """Give a server up after seconds: one on this machine that has ended returns elsewhere."""
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    policy = DefaultPolicy(
        max_retries=5, initial_backoff=100, backoff_multiplier=2, max_backoff=1000
    )
    # The two kinds of sessions have no type in common.
    assert isinstance(spark, ConnectSession)
    spark.client.set_retry_policies([policy])
    # The error that follows says the same.
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")


def close(spark: SparkSession) -> None:
    """Close the session of this process, at any server."""
    global _opened
    release_session(spark)
    if _opened is not None:
        _opened.forget()
        _opened = None


def release_session(spark: "SparkSession | ConnectSession") -> None:
    """Close a session; wait for no server that has ended."""
    retry_briefly(spark)
    spark.stop()


def collect_released() -> None:
    """Free the sessions that were released, here and now.

    A freed session closes its client once more, and waits for what other sessions of the process
    have sent.  If the garbage collector freed it in the thread that gRPC authenticates calls with,
    these would wait for that thread in turn, for ever.
    """
    gc.collect()


def has_lost_server() -> bool:
    """Whether the server of this process's session has ended."""
    return _opened is not None and not _opened.server.is_answering()
