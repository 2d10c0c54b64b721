"""The reference model: events in, tables as a person would SELECT them out, in plain Python.

The executable specification that every faster engine is compared with.  Rules of this room: clarity
before speed, everything in memory, no file is opened; order is by commit ts, never by arrival.
"""
