"""The history of tables: every version of every row, in a Delta table per incarnation.

Rules: one commit, with the stage's mark, makes an update count; whatever follows the last mark is
undone.  A history is computed from `events` and the applied log alone, as current tables are.
"""
