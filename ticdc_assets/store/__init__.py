"""How the lake is stored: the contract of every Delta table, commits, and the run lock.

Rules of this package: nothing here knows what a row means.
"""
