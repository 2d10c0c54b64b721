"""Ctrl-C while Spark works."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keep_interrupt_handler() -> Iterator[None]:
    """Restore the handler of SIGINT after the block, which starts Spark.

    PySpark installs a handler that calls the JVM to cancel its jobs.  That fails with stack traces
    if Ctrl-C comes while another call waits for the JVM, which is nearly always.  Without that
    handler, Ctrl-C raises KeyboardInterrupt, and the JVM ends together with this process.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        # PySpark leaves it alone in any other thread.
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
