"""Errors as a caller in Python reads them."""

from collections.abc import Iterator
from contextlib import contextmanager

from ticdc_assets.errors import ConfigError

# What commands call the parameters of this room.
_PARAMETERS = {"--at": "at", "--lake": "uri", "DB.TABLE": "name"}


@contextmanager
def naming_parameters() -> Iterator[None]:
    """Raise errors that name an option of a command as ones that name our parameter."""
    try:
        yield
    except ConfigError as error:
        if error.setting not in _PARAMETERS:
            raise
        setting = _PARAMETERS[error.setting]
        raise ConfigError(error.reason, file=error.file, setting=setting) from None
