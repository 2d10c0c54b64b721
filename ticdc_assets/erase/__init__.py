"""Erase a row for good: from current, history and changes, events, quarantine and `raw`.

Rules of this room: first the lake states that the row is erased, without its key, and from then on
nothing that decodes or loads brings it back.  Then every table that has the row gets a version
without it, and all files and logs of before go at once.  Whatever is killed on the way is done
again from the beginning by the same command, so each step may be done twice.
"""
