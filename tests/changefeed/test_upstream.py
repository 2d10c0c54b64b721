"""The table `[changefeed.upstream]`: what it may have, and that no password is in it."""

from pathlib import Path

import pytest

from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.upstream import Tls, Upstream
from ticdc_assets.errors import ConfigError


def declare(folder: Path, table: str) -> Changefeed:
    file = folder / "changefeeds.toml"
    uri = "file:///data?protocol=csv"
    file.write_text(
        f'[[changefeed]]\nid = "shop"\nsink-uri = "{uri}"\n[changefeed.upstream]\n{table}\n'
    )
    return load_changefeeds(file)["shop"]


def test_a_database_is_declared_with_a_reference_to_its_password(tmp_path: Path) -> None:
    table = 'host = "tidb.internal"\nuser = "verify"\npassword-file = "secret"\nca = "ca.pem"'
    assert declare(tmp_path, table).upstream == Upstream(
        "tidb.internal",
        "verify",
        4000,
        Reference("file", str(tmp_path / "secret")),
        Tls(str(tmp_path / "ca.pem")),
    )
    files = 'ca = "ca.pem"\ncert = "cert.pem"\nkey = "key.pem"'
    upstream = declare(tmp_path, f'host = "h"\nuser = "u"\n{files}').upstream
    places = (str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key"))
    assert upstream == Upstream("h", "u", tls=Tls(*places))
    table = 'host = "::1"\nport = 3306\nuser = "verify"\npassword-env = "SHOP_PASSWORD"'
    upstream = declare(tmp_path, table).upstream
    assert upstream == Upstream("::1", "verify", 3306, Reference("env", "SHOP_PASSWORD"))
    assert upstream.address == "[::1]:3306"
    table = 'host = "h"\nuser = "u"\nprove-every-days = 7\nprove-minutes = 60'
    upstream = declare(tmp_path, table).upstream
    assert upstream == Upstream("h", "u", prove_every_days=7, prove_minutes=60)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ('user = "u"', "host must be"),
        ('host = "a:b@c"\nuser = "u"', "host must be"),
        ('host = "a"', "user is missing"),
        ('host = "a"\nuser = "u"\nport = 70000', "port must be"),
        ('host = "a"\nuser = "u"\nport = true', "port must be"),
        ('host = "a"\nuser = "u"\npassword = "hunter22"', "write password-env or password-file"),
        ('host = "a"\nuser = "u"\npassword-evn = "hunter22"', "did you mean password-env"),
        (
            'host = "a"\nuser = "u"\npassword-env = "A"\npassword-file = "hunter22"',
            "are both set: remove one",
        ),
        ('host = "a"\nuser = "u"\ncert = "c"\nkey = "k"', "ca is missing"),
        ('host = "a"\nuser = "u"\nca = "a"\ncert = "c"', "key is missing"),
        ('host = "a"\nuser = 1', "user must be a string"),
        *(
            (f'host = "a"\nuser = "u"\nprove-every-days = {wrong}', "a number from 1 to 90")
            for wrong in ("0", "91", "true", '"weekly"')
        ),
        ('host = "a"\nuser = "u"\nprove-minutes = 5', "set that, too"),
    ],
)
def test_what_cannot_work_is_an_error_that_quotes_no_value(
    tmp_path: Path, table: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        declare(tmp_path, table)
    assert caught.value.setting == "changefeed shop.upstream"
    assert "hunter" not in str(caught.value)


def test_a_changefeed_that_renames_tables_has_none(tmp_path: Path) -> None:
    config = '[sink]\ndispatchers = [{matcher = ["*.*"], target-schema = "lake"}]'
    (tmp_path / "feed.toml").write_text(config)
    file = tmp_path / "changefeeds.toml"
    file.write_text(
        '[[changefeed]]\nid = "shop"\nsink-uri = "file:///d?protocol=csv"\n'
        'config = "feed.toml"\n'
        '[changefeed.upstream]\nhost = "h"\nuser = "u"\n'
    )
    with pytest.raises(ConfigError, match="target-schema or target-table") as raised:
        load_changefeeds(file)
    assert raised.value.setting == "changefeed shop.upstream"
