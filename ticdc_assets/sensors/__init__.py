"""What starts runs by itself, and what tells of those that failed.

Rules of this room: what was applied is asked of the lake, never of a cursor; a tick opens nothing
that it leaves open; a checkpoint is never lost, whatever fails in between.
"""
