"""What MySQL types mean, what DDL statements say and what they do to tables and rows.

Rules of this room: pure functions over `events` values; types are data; no SQL is read by regular
expression and no statement is guessed at.
"""
