"""The histories and changes of tables: every version and every change of every row.

A Delta table per incarnation and kind.  Rules: one commit, with the stage's mark, makes an update
count; whatever follows the last mark is undone.  Tables are computed from `events`, the applied log
and current tables alone, as current tables are.
"""
