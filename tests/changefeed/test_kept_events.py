"""The setting `keep-events-days`."""

from pathlib import Path

import pytest

from tests.changefeed.test_layout import declare
from ticdc_assets.errors import ConfigError


def test_events_are_kept_for_ever_unless_days_are_declared(tmp_path: Path) -> None:
    assert declare(tmp_path, "").keep_events_days is None
    assert declare(tmp_path, "keep-events-days = 7").keep_events_days == 7


@pytest.mark.parametrize("value", ["6", "0", "-1", "36501", "7.5", "true", "'90'", "'90d'", "[]"])
def test_other_values_are_an_error(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="keep-events-days: must be a whole number of days, 7 to"):
        declare(tmp_path, f"keep-events-days = {value}")
