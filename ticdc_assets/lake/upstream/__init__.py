"""The database upstream, as `verify` and `load` read it: a snapshot, and the SQL of its servers.

`resources.upstream` opens the connections; nothing here does.
"""
