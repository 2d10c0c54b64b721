"""Changefeeds as their files declare them."""

from collections.abc import Callable

import pytest

from ticdc_assets.changefeed import Changefeed, load_changefeeds


@pytest.fixture(scope="module")
def declare(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Changefeed]:
    folder = tmp_path_factory.mktemp("feeds")

    def declare(uri: str, config: str = "", entry: str = "") -> Changefeed:
        (folder / "feed.toml").write_text(config)
        declared = f"[[changefeed]]\nid = 'feed'\nsink-uri = '{uri}'\nconfig = 'feed.toml'\n{entry}"
        (folder / "changefeeds.toml").write_text(declared)
        return load_changefeeds(folder / "changefeeds.toml")["feed"]

    return declare
