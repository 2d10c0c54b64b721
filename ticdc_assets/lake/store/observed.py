"""What Spark counted while it ran."""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Observation


def read_metrics(observation: Observation) -> dict[str, Any]:
    """Return the metrics of an observed frame; empty if Spark left the frame out of what it ran.

    It leaves out what it finds to have no rows, while it runs too.  Its Python client then fails to
    read the metrics; the client of Spark Connect returns none.
    """
    try:
        return observation.get
    except Py4JJavaError as error:
        if "java.lang.AssertionError" not in str(error.java_exception):
            raise
        return {}
