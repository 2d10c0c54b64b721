"""The database upstream: what its connections do, the SQL of its servers, and table definitions.

`ticdc_assets.resources.upstream` opens the connections; nothing here does.
"""
