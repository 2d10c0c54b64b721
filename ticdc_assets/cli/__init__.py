"""The command line, `ticdc-assets`: one module per group of commands.

Rules of this package: a command finds the changefeed and the lake, calls a stage and prints what it
returns; it has no logic of its own.  Results go to standard output, messages about the run to
standard error.  Only the module of `replay` imports the reference model.
"""

import os

# numpy's OpenBLAS starts a thread per core, which spins for a tenth of a second; no matrix is
# multiplied here.  It reads the variable when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from ticdc_assets.cli.command import main

__all__ = ["main"]
