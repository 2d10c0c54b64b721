"""How the lake is stored: the contract of every Delta table, commits, and the run lock.

Rules of this package: nothing here knows what a row means.
"""

import os

# delta-rs starts its logger when it is imported.  What S3's client warns of in its many attempts to
# find a region is 700 characters a line, and the error says it again.
os.environ.setdefault("RUST_LOG", "warn,aws_config=error")
