"""Two changefeeds in one process: each uses its own credentials, and the environment stays."""

import json
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources import storage
from ticdc_assets.resources.storage import open_sink_folder
from ticdc_assets.safe_text import redact

ROLE = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<Credentials><AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleResult></AssumeRoleResponse>"""
AZURE_KEYS = {"a": "YWFhYWFhYWE=", "b": "YmJiYmJiYmI="}


class Store:
    """A server that has no file, grants tokens, and records who asks."""

    def __init__(self) -> None:
        self.credentials: list[str] = []
        self.url = ""

    def answer(self, path: str, body: str, authorization: str) -> tuple[int, str]:
        if path == "/token":
            claims = jwt.decode(parse_qs(body)["assertion"][0], options={"verify_signature": False})
            assert claims["aud"] == f"{self.url}/token"
            return 200, json.dumps({"access_token": f"token of {claims['iss']}"})
        if "Action=AssumeRole" in body:
            self.credentials.append(authorization)
            return 200, ROLE
        self.credentials.append(authorization)
        return 404, ""


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            authorization = self.headers["Authorization"] or ""
            code, text = made.answer(self.path, body, authorization)
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text.encode())

        do_GET = do_HEAD = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_port}"
        yield made
        server.shutdown()
        thread.join()


def s3_keys(url: str, folder: Path) -> Callable[[str], tuple[str, str]]:
    def declare(name: str) -> tuple[str, str]:
        keys = f"access-key=AKID{name}&secret-access-key=secret-{name}"
        return f"s3://b/p?protocol=csv&endpoint={url}&{keys}", f"Credential=AKID{name}/"

    return declare


def s3_profiles(url: str, folder: Path) -> Callable[[str], tuple[str, str]]:
    def declare(name: str) -> tuple[str, str]:
        with (folder / "credentials").open("a") as file:
            file.write(f"[{name}]\naws_access_key_id=AKID{name}\naws_secret_access_key=secret\n")
        uri = f"s3://b/p?protocol=csv&endpoint={url}&profile={name}"
        return uri, f"Credential=AKID{name}/"

    return declare


def google_accounts(url: str, folder: Path) -> Callable[[str], tuple[str, str]]:
    def declare(name: str) -> tuple[str, str]:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        account = {"client_email": name, "private_key": key.decode(), "token_uri": f"{url}/token"}
        (folder / f"{name}.json").write_text(json.dumps(account))
        uri = f"gcs://b/p?protocol=csv&endpoint={url}&credentials-file={folder}/{name}.json"
        return uri, f"Bearer token of {name}"

    return declare


def azure_keys(url: str, folder: Path) -> Callable[[str], tuple[str, str]]:
    def declare(name: str) -> tuple[str, str]:
        account = f"account-name=account{name}&account-key={AZURE_KEYS[name]}"
        uri = f"azure://b/p?protocol=csv&endpoint={url}/account{name}&{account}"
        return uri, f"SharedKey account{name}:"

    return declare


@pytest.mark.parametrize("make", [s3_keys, s3_profiles, google_accounts, azure_keys])
def test_each_changefeed_uses_its_own_credentials(
    make: Callable[[str, Path], Callable[[str], tuple[str, str]]],
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Those of the environment are another's.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "environment")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    declare = make(store.url, tmp_path)
    declared = {name: declare(name) for name in "ab"}
    before = dict(os.environ)
    for name in "aba":
        uri, expected = declared[name]
        # As a worker opens it.
        opened = pickle.loads(pickle.dumps(partial(open_sink_folder, changefeed_from_uri(uri))))()
        store.credentials.clear()
        with suppress(OSError):
            opened.read("metadata")
        assert store.credentials
        assert all(expected in stated for stated in store.credentials)
    assert dict(os.environ) == before


def test_a_profile_may_assume_a_role(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", store.url)
    uri, expected = s3_profiles(store.url, tmp_path)("a")
    folder = open_sink_folder(changefeed_from_uri(f"{uri}&role-arn=arn:aws:iam::1:role/x&region=x"))
    with suppress(OSError):
        folder.read("metadata")
    assumed, used = store.credentials[0], store.credentials[1]
    assert expected in assumed
    assert "Credential=AKIDROLE/" in used


def test_a_long_run_exchanges_its_credentials_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, used = google_accounts(store.url, tmp_path)("a")
    opened = open_sink_folder(changefeed_from_uri(uri))
    key = (tmp_path / "a.json").read_text()
    (tmp_path / "a.json").write_text(key.replace('"client_email": "a"', '"client_email": "b"'))
    for limit, expected in ((3600.0, used), (0.0, "Bearer token of b")):
        monkeypatch.setattr(storage, "_REOPEN_AFTER", limit)
        store.credentials.clear()
        with suppress(OSError):
            opened.read("metadata")
        assert store.credentials
        assert all(stated == expected for stated in store.credentials)
    (tmp_path / "a.json").unlink()
    with pytest.raises(OSError, match="cannot be read here"):
        opened.read("metadata")


def test_a_token_of_google_is_redacted(store: Store, tmp_path: Path) -> None:
    uri, _ = google_accounts(store.url, tmp_path)("a")
    open_sink_folder(changefeed_from_uri(uri))
    assert redact("<token of a>") == "<…>"


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("s3://b/p?protocol=csv&region=x&profile=nobody", "profile"),
        ("gcs://b/p?protocol=csv&credentials-file=/nowhere.json", "credentials-file"),
        ("gcs://b/p?protocol=csv&credentials-file=/dev/null", "not the key of a service account"),
    ],
)
def test_credentials_that_are_not_here_are_an_error_and_no_others_are_used(
    uri: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        open_sink_folder(changefeed_from_uri(uri))
    assert error.value.setting == "sink-uri"


def test_the_environments_azure_key_is_for_its_account_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "one")
    monkeypatch.setenv("AZURE_STORAGE_KEY", AZURE_KEYS["a"])
    keys: list[str | None] = []

    def open_azure(account: str, **settings: str) -> None:
        keys.append(settings.get("account_key"))

    monkeypatch.setattr(storage.fs, "AzureFileSystem", open_azure)
    for account in ("", "&account-name=one", "&account-name=two"):
        open_sink_folder(changefeed_from_uri(f"azure://b/p?protocol=csv{account}"))
    assert keys == [AZURE_KEYS["a"], AZURE_KEYS["a"], None]
