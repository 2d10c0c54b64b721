"""The lake: Spark stages from raw input to current tables, on Delta; no Dagster.

Rules of this room: DataFrames and SQL only, so that every stage runs on a local session, a cluster
and Spark Connect alike; protocols, types and DDL are decided in the pure rooms; the progress
of a stage is part of the commit of its data.
"""
