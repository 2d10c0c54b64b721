"""The lake: Spark stages from raw input to current tables, on Delta; no Dagster.

Rules of this room: DataFrames and SQL only, so that every stage runs on a local session, a cluster
and Spark Connect alike; protocols, types and DDL are decided in the pure rooms; the progress
of a stage is part of the commit of its data.
"""

import os

# delta-rs starts its logger when it is imported.  What S3's client warns of in its many attempts to
# find a region is 700 characters a line, and the error says it again.
os.environ.setdefault("RUST_LOG", "warn,aws_config=error")
