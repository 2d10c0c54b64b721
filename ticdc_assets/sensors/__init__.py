"""What starts runs, and what alerts a person when a run or check failed.

Rules of this room: the lake says what was applied, never a cursor; a tick closes what it opens; no
checkpoint is lost, whatever fails.
"""
