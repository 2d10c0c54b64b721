"""Which errors are about one table: it pauses, and the run goes on."""

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from ticdc_assets.errors import CONTENT_ERRORS, ConfigError, describe_content_error

TABLE_ERRORS: tuple[type[Exception], ...] = (*CONTENT_ERRORS, PySparkException, Py4JJavaError)
# SQLSTATE classes 21 (cardinality violation) and 22 (data exception): a row is at fault.
_ROW_ERROR = re.compile(r"SQLSTATE: 2[12]\w{3}")


def find_pause_reason(error: Exception) -> str | None:
    """Return why a table cannot continue; None for a failure that is not about the table.

    `CONTENT_ERRORS` states the boundary for Python.  Of Spark's errors those of analysis count,
    because Spark analyzes before it reads a row, and those of a row's data; any other fails the
    run.  An error that only looks like the table's pauses nothing either: a pause counts once the
    snapshot that records it is written, by the same session into the same storage.
    """
    if isinstance(error, ConfigError):
        # Of the storage, or of another run.
        return None
    if not isinstance(error, PySparkException | Py4JJavaError):
        return describe_content_error(error)
    text = str(error).strip()
    if isinstance(error, AnalysisException) or _ROW_ERROR.search(text):
        return f"Spark does not accept it: {text.splitlines()[0]}"
    return None
