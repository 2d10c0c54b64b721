"""The asset graph, as Dagster sees it: a thin shell around `run` and `checks`.

Rules of this room: it computes nothing that a test without Dagster could see; every text from a
user's table is escaped, so that no page takes it for markup; values of rows appear in previews
only.  Metadata answers in this order: is it correct, how far behind, what changed, what needs me.
Names of ops and jobs begin with different words: ids of changefeeds may be `x` and `x_job`, and an
op `advance_x_job` of the second would have the name of the first one's job.
"""
