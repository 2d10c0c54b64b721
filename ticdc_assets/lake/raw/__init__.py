"""Ingest: records and files of the source go into `raw` once, as they are."""
