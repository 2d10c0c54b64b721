"""Runs as processes elsewhere: Dagster starts one command, which reports through dagster-pipes.

`external` is the side of the Dagster project, `__main__` the command, and `reports` what passes
between the two.  A run does there what it does in the daemon's process (`assets.advance`).
"""

from ticdc_assets.pipes.external import ExternalRuns

__all__ = ["ExternalRuns"]
