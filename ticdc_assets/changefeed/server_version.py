"""The release of the TiCDC server, and the rules of older releases that no byte shows.

`server-version` of a changefeed states the release.  Where it is not stated, the newest rules
apply.
"""

import re
from typing import NamedTuple

_VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})(-release.*|[-+].*)?")


class ServerVersion(NamedTuple):
    """A release, such as 6.5.2; `-release.1` after it marks one of the new architecture."""

    major: int
    minor: int
    patch: int
    new_architecture: bool = False


class ServerRules(NamedTuple):
    """What a server does by its release."""

    # Whether folders have no directories of dates and partitions by default.
    has_plain_folders: bool = False
    # Whether it reads old values, for the protocols that do not insist on them.
    reads_old_values: bool = True
    # Whether a CSV file without old values states an update as an insert; None if not known.
    csv_updates_are_inserts: bool | None = None
    # Whether an update of a key is a delete and an insert in CSV files without old values.
    csv_splits_key_updates: bool = True


def parse_server_version(text: str) -> ServerVersion:
    """Read a release such as `v8.5.4` or `7.1.0-alpha`; raise `ValueError`."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError("must be a release of TiCDC, such as 7.5.4")
    major, minor, patch, suffix = match.groups()
    number = int(major), int(minor), int(patch)
    # From 9.0.0 there is no other.
    is_new = (suffix or "").startswith("-release") or number >= (9, 0, 0)
    return ServerVersion(*number, is_new)


def find_rules(server: ServerVersion | None, *, enable_old_value: bool) -> ServerRules:
    """Return the rules of a release, given the changefeed's `enable-old-value`."""
    if server is None:
        # Newer servers ignore the setting; what holds without old values holds with them.
        return ServerRules(
            reads_old_values=enable_old_value,
            csv_updates_are_inserts=None if enable_old_value else True,
        )
    if server >= (7, 2, 0):
        return ServerRules(
            csv_updates_are_inserts=False, csv_splits_key_updates=server >= (7, 5, 0)
        )
    # For CSV, these never read old values; they split updates of keys only without.
    is_forced = (6, 5, 3) <= server < (6, 6, 0) or server >= (7, 1, 1)
    csv_reads = enable_old_value and not is_forced
    return ServerRules(
        has_plain_folders=not is_forced and server < (7, 1, 0),
        reads_old_values=enable_old_value,
        csv_updates_are_inserts=not csv_reads,
        csv_splits_key_updates=not csv_reads,
    )
