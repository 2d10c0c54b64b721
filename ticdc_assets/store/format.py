"""The format of a changefeed's folder in a lake: a number that its table `applied` states.

Every command opens this table before anything else, so a program that is too old for a lake finds
that out at no cost.  A lake from before there were formats states none: its format is 0.
"""

from deltalake import DeltaTable

from ticdc_assets.errors import ConfigError
from ticdc_assets.store.lake import Lake
from ticdc_assets.version import VERSION

# Every format, and the first version of this software that knows it.
FIRST_VERSIONS = {1: "0.1.0"}
FORMAT = max(FIRST_VERSIONS)
# The table that states the format, and its properties that do.
STATING_TABLE = "applied"
_NUMBER = "ticdc.format"
# The version to install, as an older program cannot know it.
_VERSION = "ticdc.format_since"


class LakeTooNew(ConfigError):
    """A newer version of this software has written the lake: this one does nothing with it."""


def state_format(number: int = FORMAT) -> dict[str, str]:
    """Return the properties that state a format."""
    return {_NUMBER: str(number), _VERSION: FIRST_VERSIONS[number]}


def read_format(location: Lake, applied: DeltaTable) -> int:
    """Read the format of a lake from its open table; raise `LakeTooNew` if it is a later one."""
    stated = applied.metadata().configuration
    text = stated.get(_NUMBER, "0")
    if not (text.isascii() and text.isdigit()):
        reason = f"states {text!r} as its {_NUMBER}, which is no number"
        raise ConfigError(reason, file=location.path(STATING_TABLE))
    number = int(text)
    if number <= FORMAT:
        return number
    needed = stated.get(_VERSION)
    version = "a newer version" if needed is None else f"version {needed} or newer"
    reason = (
        f"changefeed {location.changefeed!r} has format {number} in this lake, and this is"
        f" ticdc-assets {VERSION}, which knows formats up to {FORMAT}: install {version} of"
        " ticdc-assets; nothing was changed"
    )
    raise LakeTooNew(reason, file=location.root, setting="--lake")


def check_format(location: Lake, table: str, opened: DeltaTable) -> DeltaTable:
    """Return an open table; raise `LakeTooNew` if it states that its lake is of a later format."""
    if table == STATING_TABLE:
        read_format(location, opened)
    return opened
