"""How long `check` and `status` wait for what they ask, and how they end without an answer."""

import os
import sys

from ticdc_assets.resources.patience import PatientCaller

# In seconds.
PATIENCE = 20.0


def end_command(caller: PatientCaller, code: int) -> int:
    """Return an exit code, or end the process with it if a call still waits.

    Libraries wait at the end of a process for the requests that they have sent.
    """
    if caller.is_left:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
