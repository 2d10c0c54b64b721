"""Spark's Python workers: pyspark's own daemon, without its fixed costs per task.

Before every task, pyspark makes Python forget what folders contain, for the task may have brought
modules; behind every task, it collects garbage.  This takes a tenth of a second of processor time:
Python reads the directory of the zip file with pyspark's modules again for every package in it, and
looks at every object of every module.

Arrow's own allocator gives the pages of every large column back to the system, which has to clear
them for the next one: that takes an eighth of the processor time of decoding and applying rows.
The allocator of the C library keeps them.

numpy's OpenBLAS starts a thread per core in each worker, which spins for a tenth of a second; no
matrix is multiplied here.

Arrow itself is loaded before workers are forked, and without pandas: once, and not per worker.
"""

import gc
import os
import sys
from typing import BinaryIO
from zipimport import zipimporter

from pyspark import daemon

from ticdc_assets.store.load_arrow import load_arrow

_run_task = daemon.worker_main


def run_task(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Run one task, in a process that the daemon has forked and that runs many."""
    known = len(sys.modules)
    _forget_zip_files()
    _run_task(infile, outfile)
    if len(sys.modules) > known:
        # Modules live as long as the process: nothing of them is ever garbage.
        gc.collect()
        gc.freeze()


def _forget_zip_files() -> None:
    """Let Python open zip files when it next imports from them: no task changes one."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    # Before Arrow is loaded.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    load_arrow()
    daemon.worker_main = run_task
    daemon.manager()  # type: ignore[no-untyped-call]
