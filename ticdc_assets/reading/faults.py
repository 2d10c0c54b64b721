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


def explain_argument(setting: str, accepted: str, given: object) -> ConfigError:
    """Return the error that says what a parameter takes, and what it was given instead."""
    # Its type alone: its value may be large, or secret.
    shown = "None" if given is None else f"a value of the type {type(given).__qualname__}"
    return ConfigError(f"must be {accepted}, not {shown}", setting=setting)
