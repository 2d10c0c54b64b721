"""The table `[changefeed.copy]`: what it may have, and that no password is in it."""

from pathlib import Path

import pytest

from ticdc_assets.changefeed import Changefeed, load_changefeeds
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.copy import DeclaredCopy
from ticdc_assets.changefeed.upstream import Tls
from ticdc_assets.errors import ConfigError


def declare(folder: Path, table: str) -> Changefeed:
    file = folder / "changefeeds.toml"
    head = '[[changefeed]]\nid = "shop"\nsink-uri = "file:///nowhere?protocol=csv"\n'
    file.write_text(f"{head}[changefeed.copy]\n{table}\n")
    return load_changefeeds(file)["shop"]


def test_all_settings(tmp_path: Path) -> None:
    table = """uri = "postgresql://verify@replica/shop"
        table-name = "{schema}_{table}"
        password-file = "secret"
        ca = "ca.pem"
        cert = "cert.pem"
        key = "/keys/key.pem\""""
    assert declare(tmp_path, table).copy == DeclaredCopy(
        "postgresql://verify@replica/shop",
        "{schema}_{table}",
        Reference("file", f"{tmp_path}/secret"),
        Tls(f"{tmp_path}/ca.pem", f"{tmp_path}/cert.pem", "/keys/key.pem"),
    )


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("", "uri is missing"),
        ('uri = "mysql://u:hunter2-secret@h/d"', "uri has a password in it"),
        ('uri = "delta:/x"\npassword = "hunter2-secret"', "password is not one of its settings"),
        (
            'uri = "mysql://u@h"\npassword-env = "A"\npassword-file = "b"',
            "password-env and password-file are both set",
        ),
        ('uri = "duckdb:/x"\npassword-env = "A"', "password-env has an effect only on a copy in"),
        ('uri = "delta:/x"\nca = "a"', "ca has an effect only on a copy in a server"),
        ('uri = "mysql://u@h"\nca = "a"\ncert = "b"', "key is missing"),
        ('uri = "mysql://u@h"\nca = "a"\nkey = "b"', "cert is missing"),
        ('uri = "mysql://u@h"\ncert = "a"\nkey = "b"', "ca is missing"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(
    tmp_path: Path, table: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        declare(tmp_path, table)
    assert raised.value.setting == "changefeed shop.copy"
    assert reason in str(raised.value)
    assert "hunter2" not in str(raised.value)
