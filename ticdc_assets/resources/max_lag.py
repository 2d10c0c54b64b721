"""How far a lake may lag behind before that is a problem."""

import os

from ticdc_assets.changefeed.sink_uri import go_duration
from ticdc_assets.errors import ConfigError

MAX_LAG = "TICDC_MAX_LAG"
_DEFAULT = "10m"


def read_max_lag() -> float:
    """Return TICDC_MAX_LAG in seconds, by default ten minutes."""
    text = os.environ.get(MAX_LAG) or _DEFAULT
    try:
        return go_duration(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} {error}", setting=MAX_LAG) from None
