"""Settings that only runs and sensors of Dagster need.

They are read without Dagster, so that `check` reads them too.
"""

import os
import re

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError

OWNERS = "TICDC_OWNERS"
POLL_INTERVAL = "TICDC_SENSOR_SECONDS"
WEBHOOK = "TICDC_ALERT_WEBHOOK"
# How old the newest snapshot gets before watermarks alone are applied.  The lag that a lake states
# is greater than that of its source by so much at most: half of what the graph warns of.
WATERMARK_SECONDS = 300

_DEFAULT_OWNER = "team:data"
_DEFAULT_SECONDS = 15
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


def read_owners() -> list[str]:
    """Return the owners of all assets: e-mail addresses, or teams as `team:data`."""
    stated = os.environ.get(OWNERS) or _DEFAULT_OWNER
    found = [owner.strip() for owner in stated.split(",") if owner.strip()]
    if stated == _DEFAULT_OWNER:
        return found
    # Only Dagster knows its rule, and it takes more than a second to import.
    import dagster as dg

    try:
        dg.AssetSpec("owned", owners=found)
    except dg.DagsterInvalidDefinitionError:
        reason = "must be e-mail addresses, or teams as `team:data`, separated by commas"
        raise ConfigError(f"{reason}, not {stated!r}", setting=OWNERS) from None
    return found


def read_poll_interval(feed: Changefeed) -> int:
    """Return TICDC_SENSOR_SECONDS_<ID>, else TICDC_SENSOR_SECONDS, else 15 seconds."""
    own = f"{POLL_INTERVAL}_{_UNSAFE.sub('_', feed.id).upper()}"
    for name in (own, POLL_INTERVAL):
        if text := os.environ.get(name):
            if not text.isdecimal() or int(text) < 1:
                reason = f"must be a whole number of seconds, at least 1, not {text!r}"
                raise ConfigError(reason, setting=name)
            return int(text)
    return _DEFAULT_SECONDS


def read_webhook() -> str:
    """Return the URL that alerts are posted to; empty without one."""
    url = os.environ.get(WEBHOOK, "")
    # Other schemes, as file:, would take an alert without delivering it.
    if url and not url.lower().startswith(("http://", "https://")):
        raise ConfigError("must be an http or https URL", setting=WEBHOOK)
    return url
