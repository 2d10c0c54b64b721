"""Connections with TLS to copies, and upstream: certificates of the server and of the client."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.certificates import make_certificates
from tests.lake.copies import ITEMS, compare, make_items, put_items
from tests.lake.upstream_copy import UpstreamCopy
from tests.mariadb_server import MariaDb, run_mariadb
from tests.postgres_server import OWNER, Postgres, run_postgres
from tests.servers import HOST
from tests.sql_server import USER, VARIABLE
from ticdc_assets.changefeed.client_settings import Reference
from ticdc_assets.changefeed.upstream import Tls
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.verifications import TableVerification
from ticdc_assets.resources.upstream import UpstreamDatabase
from ticdc_assets.upstream.snapshot import UpstreamError

ROWS = ", ".join(map(str, make_items(3)))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder, "server")
    return folder


@pytest.fixture(scope="module")
def mariadb_with_tls(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """A MariaDB whose declared user needs a certificate."""
    pem = files / "server.pem"
    named = (f"--ssl-{name}={file}" for name, file in (("cert", pem), ("key", pem)))
    with run_mariadb(
        tmp_path_factory.mktemp("mariadb"), *named, f"--ssl-ca={files}/ca.pem"
    ) as server:
        server.run("CREATE DATABASE shop", "USE shop", ITEMS, f"INSERT INTO items VALUES {ROWS}")
        server.run(*(f"ALTER USER {USER}@'{host}' REQUIRE X509" for host in (HOST, "localhost")))
        yield server


@pytest.fixture(scope="module")
def postgres_with_tls(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL whose user is the one of the certificate, without a password."""
    folder = tmp_path_factory.mktemp("postgres")
    for name in ("server.pem", "ca.pem"):
        shutil.copy(files / name, folder / name)
        if os.getuid() == 0:
            shutil.chown(folder / name, "postgres", "postgres")
    (folder / "server.pem").chmod(0o600)
    settings = {
        "ssl": "on",
        "ssl_cert_file": f"{folder}/server.pem",
        "ssl_key_file": f"{folder}/server.pem",
        "ssl_ca_file": f"{folder}/ca.pem",
    }
    access = f"host all {OWNER} {HOST}/32 scram-sha-256\nhostssl all {USER} {HOST}/32 cert\n"
    with run_postgres(folder, settings, access) as server:
        server.run(
            f"CREATE ROLE {USER} LOGIN",
            *(
                "CREATE SCHEMA shop",
                f"GRANT USAGE ON SCHEMA shop TO {USER}",
                "SET search_path = shop",
            ),
            *(ITEMS, f"INSERT INTO items VALUES {ROWS}", f"GRANT SELECT ON items TO {USER}"),
        )
        yield server


@pytest.fixture(params=["mariadb_with_tls", "postgres_with_tls"])
def uri(request: pytest.FixtureRequest) -> str:
    server = request.getfixturevalue(request.param)
    if isinstance(server, Postgres):
        return server.uri.replace(OWNER, USER)
    return f"mysql://{USER}@{HOST}:{server.port}/shop"


@pytest.fixture
def lake(tmp_path: Path) -> UpstreamCopy:
    lake = UpstreamCopy.make(None, tmp_path / "lake", None)  # type: ignore[arg-type]
    put_items(lake, make_items(3))
    return lake


def contrast(lake: UpstreamCopy, uri: str, tls: Tls | None) -> TableVerification:
    password = Reference("env", VARIABLE) if uri.startswith("mysql") else None
    (found,) = compare(lake, uri, password=password, tls=tls)
    return found


def name_files(files: Path, *names: str) -> Tls:
    return Tls(*(str(files / f"{name}.pem") for name in names))


def test_a_certificate_of_the_client_opens_a_copy(
    lake: UpstreamCopy, uri: str, files: Path
) -> None:
    found = contrast(lake, uri, name_files(files, "ca", "client", "client-key"))
    assert (found.verdict, found.reason, found.upstream_rows) == ("equal", None, 3)


@pytest.mark.parametrize(
    ("names", "mariadb", "postgres"),
    [
        # The server is not who it says that it is.
        (("other-ca", "client", "client-key"), "check ca, cert and key", "verify failed"),
        # The client is not.
        (("ca", "other", "other-key"), "", "unknown ca"),
        (("ca",), "Access denied", "requires a valid client certificate"),
        ((), "Access denied", "pg_hba.conf"),
        (("ca", "client", "other-key"), "KEY_VALUES_MISMATCH", "key values mismatch"),
        # A key with a password: no run waits for somebody to type it.
        (("ca", "client", "locked-key"), "check ca, cert and key", "locked-key.pem"),
    ],
)
def test_what_does_not_fit_is_said_and_no_row_is_read(
    lake: UpstreamCopy,
    uri: str,
    files: Path,
    names: tuple[str, ...],
    mariadb: str,
    postgres: str,
) -> None:
    found = contrast(lake, uri, name_files(files, *names) if names else None)
    assert (found.verdict, found.upstream_rows) == ("skipped", None)
    assert (mariadb if uri.startswith("mysql") else postgres) in (found.reason or "")


def test_a_certificate_of_another_host_is_not_accepted(
    lake: UpstreamCopy, uri: str, files: Path
) -> None:
    # An address of this machine that the certificate does not name.
    elsewhere = uri.replace(HOST, "127.0.0.2")
    found = contrast(lake, elsewhere, name_files(files, "ca", "client", "client-key"))
    assert found.verdict == "skipped"


@pytest.mark.parametrize("place", range(3))
def test_a_file_that_is_not_there_is_named_with_its_option(
    lake: UpstreamCopy, uri: str, files: Path, place: int
) -> None:
    names = ["ca", "client", "client-key"]
    names[place] = "nowhere"
    found = contrast(lake, uri, name_files(files, *names))
    assert found.reason == f"the file cannot be read: {files}/nowhere.pem"


def test_upstream_takes_the_same_files(mariadb_with_tls: MariaDb, files: Path) -> None:
    def open_as(*names: str) -> UpstreamDatabase:
        tls = name_files(files, *names) if names else None
        return UpstreamDatabase("shop", replace(mariadb_with_tls.upstream, tls=tls))

    with open_as("ca", "client", "client-key").open_snapshot(None) as upstream:
        ((_, cipher),) = upstream.query("SHOW STATUS LIKE 'Ssl_cipher'")
        assert cipher
        assert len(upstream.query("SELECT * FROM shop.items")) == 3
    setting = r"^changefeed shop\.upstream: "
    with pytest.raises(UpstreamError, match=setting + "ca: .*CERTIFICATE_VERIFY_FAILED"):
        open_as("other-ca", "client", "client-key").open_snapshot(None).__enter__()
    with pytest.raises(UpstreamError, match=setting + "user: .*denied"):
        open_as("ca").open_snapshot(None).__enter__()
    with pytest.raises(ConfigError, match=setting + "key: the file cannot be read"):
        open_as("ca", "client", "nowhere").open_snapshot(None).__enter__()
