"""A changefeed's output as one ordered stream of events, for every engine that applies it.

Rules of this package: it is pure and opens nothing.  It holds what the plan and the reference model
share: reading a source into events, the topic of a table, the resolved ts, the order of DDLs and
rows within one commit ts, and the problems that both report.
"""
