"""The asset graph, as Dagster sees it: a thin shell around the lake's stages.

Rules of this room: nothing is worked out here that a test without Dagster could see; every text
that comes from a user's table is written so that no page takes it for markup; rows are only shown
where somebody asked for a preview.
"""
