"""The asset graph, as Dagster sees it: a thin shell around `run` and `checks`.

Rules of this room: it computes nothing that a test without Dagster could see; every text from a
user's table is escaped, so that no page takes it for markup; values of rows appear in previews
only.  Metadata answers in this order: is it correct, how far behind, what changed, what needs me.
"""
