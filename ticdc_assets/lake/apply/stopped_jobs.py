"""Fail a job by a row that its table cannot continue without."""

from pyspark.sql import Column
from pyspark.sql import functions as F

# Marks the failure of such a job.
_STOPPED = "the table cannot continue: "
# Spark appends it to the message of an error that a query raises.
_SQLSTATE = " SQLSTATE: P0001"


def stop_job(reason: Column) -> Column:
    """Return an expression that fails the job; `find_stop_reason` gets the reason back."""
    return F.raise_error(F.concat(F.lit(_STOPPED), reason))


def find_stop_reason(failure: str) -> str | None:
    """Return the reason given to `stop_job`, if a job failed for one."""
    _, found, reason = failure.partition(_STOPPED)
    return reason.splitlines()[0].removesuffix(_SQLSTATE) if found else None
