"""What the lake records of itself: what was applied, folded, erased, loaded and verified.

Rules of this package: no Spark; a record is written by one commit, and nothing here changes rows of
tables.
"""
