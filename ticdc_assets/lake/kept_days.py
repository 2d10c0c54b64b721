"""For how many days what can be removed is kept; importing this imports nothing else."""

# Old Delta versions; addresses and Iceberg tables keep theirs for as long.
RETAIN_DAYS = 7
# A reader may have opened a version so long ago, and a load that is running may have begun.
MIN_RETAIN_DAYS = 7
# What `verify` found, but for the newest result of each table.
VERIFICATION_DAYS = 90
# Runs in Dagster's database, but for those that changed an asset last.
RUN_DAYS = 30
