"""A changefeed's events as one ordered stream, whoever applies them.

Rules of this package: pure; nothing is opened.  It holds what the plan and the reference model
share: how a source is read into events, which topic a table goes to, up to which resolved ts the
stream is complete, in which order DDLs and rows of one commit ts apply, and how problems read.
"""
