"""Folders of other tools than Dumpling: what their files are, which no load can read."""

import re
from collections.abc import Iterable

# Of a full backup, and of a log backup.
_BACKUP = re.compile(
    r"(.*/)?(backupmeta(/.*)?|backup\.lock|global_checkpoint/.*|[^/]*_(default|write)\.sst)"
)
# Pebble's, in which the local backend sorts; its checkpoints.
_SORTED = re.compile(
    r"(.*/)?([^/]*\.sst|MANIFEST-[0-9]+|OPTIONS-[0-9]+|tidb_lightning_checkpoint[^/]*\.pb)"
)
_INSTEAD = (
    "read the database with load --from-upstream, or export it with Dumpling; what is only in these"
    " files, restore or import into a TiDB first"
)


def recognize_foreign(paths: Iterable[str]) -> str | None:
    """Say what the files of another tool are, and what to load in their place; else None."""
    paths = list(paths)
    if any(map(_BACKUP.fullmatch, paths)):
        what = "a backup of BR's (backupmeta, *.sst)"
    elif any(map(_SORTED.fullmatch, paths)):
        what = "a folder in which TiDB Lightning sorts (sorted-kv-dir)"
    else:
        return None
    return f"is {what}, which holds TiKV's keys and values and no rows: {_INSTEAD}"
