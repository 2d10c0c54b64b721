"""The reference model: events in, tables out, in plain Python.

It is the executable specification that tests compare every faster engine with, and the engine of
the `replay` command; nothing else in the product imports it.  Rules of this package: clarity before
speed, everything in memory, no I/O; order is by commit ts, never by arrival.
"""
