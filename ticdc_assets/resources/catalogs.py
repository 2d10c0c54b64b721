"""Open the catalogs that a changefeed declares, and bring them to the newest snapshot of its lake.

A catalog that does not answer holds neither a run nor the end of its process: connections and reads
have time limits, no call begins after a while, and a thread that still waits is left behind.
"""

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ticdc_assets.catalogs import Catalog, read_registration, record_failure, register_tables
from ticdc_assets.catalogs.calls import limited_calls, require_time
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.catalog import (
    CatalogSettings,
    GlueCatalog,
    HiveCatalog,
    IcebergRestCatalog,
    UnityCatalog,
)
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.iceberg.published import read_iceberg_problems
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.resources.catalog_calls import (
    AT_ONCE,
    ATTEMPTS,
    CONNECT_SECONDS,
    READ_SECONDS,
    limit_calls,
)
from ticdc_assets.resources.patience import PatientCaller
from ticdc_assets.safe_text import describe_error, is_secret_name, remember_secret
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.stream.problem import Problem

if TYPE_CHECKING:
    from requests import PreparedRequest

_PROFILE = "catalog.iceberg-rest.profile"
# In seconds.  What works ends by itself much earlier.
_PATIENCE = 60.0


def open_catalog(settings: CatalogSettings) -> Catalog:
    """Open a catalog, with the credentials that it takes; it is not called yet."""
    match settings:
        case GlueCatalog():
            return _open_glue(settings)
        case HiveCatalog():
            return _open_hive(settings)
        case UnityCatalog():
            return _open_unity(settings)
        case IcebergRestCatalog():
            return _open_iceberg_rest(settings)


def _open_glue(settings: GlueCatalog) -> Catalog:
    # Importing it takes half a second.
    import boto3  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]

    from ticdc_assets.catalogs.glue import Glue

    limits = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=AT_ONCE,
    )
    try:
        session = boto3.Session(profile_name=settings.profile, region_name=settings.region)
        client = session.client("glue", endpoint_url=settings.endpoint, config=limits)
        client.meta.events.register("before-send.glue", lambda **_: require_time())
    except (BotoCoreError, ValueError) as error:
        reason = f"cannot be opened: {describe_error(error)}"
        raise ConfigError(reason, setting="catalog.glue") from None
    return Glue(settings, client)


def _open_hive(settings: HiveCatalog) -> Catalog:
    # Importing its protocol takes a while.
    from pymetastore.hive_metastore import ThriftHiveMetastore
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import (
        TBufferedTransport,
    )

    from ticdc_assets.catalogs.hive import Hive

    class Socket(TSocket):  # type: ignore[misc]
        def write(self, buff: bytes) -> None:
            require_time()
            super().write(buff)

    socket = Socket(*settings.address)
    socket.setTimeout(READ_SECONDS * 1000)
    transport = TBufferedTransport(socket)
    client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
    return Hive(settings, transport, client)


def _open_unity(settings: UnityCatalog) -> Catalog:
    from requests import Session

    from ticdc_assets.catalogs.unity import Unity

    session = Session()
    limit_calls(session)
    if settings.token_env is not None:
        token = os.environ.get(settings.token_env)
        if not token:
            reason = f"the environment variable {settings.token_env} is not set"
            raise ConfigError(reason, setting="catalog.unity.token-env")
        remember_secret(token)

        def authorize(request: "PreparedRequest") -> "PreparedRequest":
            request.headers["Authorization"] = f"Bearer {token}"
            return request

        # As a header of the session, one from a file of passwords would replace it.
        session.auth = authorize
    return Unity(settings, session)


def _open_iceberg_rest(settings: IcebergRestCatalog) -> Catalog:
    # Importing it takes most of a second.
    from pyiceberg.utils.config import Config

    from ticdc_assets.catalogs.iceberg_rest import IcebergRest
    from ticdc_assets.resources.iceberg_client import LimitedClient

    stated: dict[str, Any] = {}
    if settings.profile is not None:
        try:
            stated |= Config().get_catalog_config(settings.profile) or {}
        except Exception as error:
            # Whatever its parser of YAML raises.
            reason = f"pyiceberg's configuration cannot be read: {describe_error(error)}"
            raise ConfigError(reason, setting=_PROFILE) from None
        if not stated:
            reason = f"pyiceberg's configuration has no catalog {settings.profile!r}"
            raise ConfigError(reason, setting=_PROFILE)
    stated["uri"] = settings.uri
    if settings.warehouse is not None:
        stated["warehouse"] = settings.warehouse
    _remember_secrets(stated)
    return IcebergRest(settings, lambda: LimitedClient(settings.profile or "ticdc", **stated))


def _remember_secrets(stated: Mapping[str, Any]) -> None:
    for name, value in stated.items():
        if isinstance(value, Mapping):
            _remember_secrets(value)
        elif is_secret_name(name):
            remember_secret(str(value))


def update_catalogs(lake: Lake, feed: Changefeed) -> list[Problem]:
    """Bring all declared catalogs to the newest snapshot; no error is raised."""
    if not feed.catalogs:
        return []
    try:
        snapshot = read_existing_snapshot(LakeReader(lake))
    except ConfigError:
        # Nothing is applied yet.
        return []

    def update(settings: CatalogSettings) -> list[Problem]:
        with limited_calls(_PATIENCE):
            return register_tables(lake, snapshot, open_catalog(settings), feed.iceberg)

    calls = {settings.kind: partial(update, settings) for settings in feed.catalogs}
    problems: list[Problem] = []
    for kind, found in PatientCaller(_PATIENCE).call_all(calls).items():
        if isinstance(found, ConfigError):
            found = record_failure(lake, kind, found)
        problems += found
    return problems


def read_catalog_problems(
    feeds: Iterable[Changefeed], root: str, caller: PatientCaller
) -> dict[str, list[str]]:
    """Return what the last run found in the catalogs of several changefeeds; no error is raised.

    Iceberg tables that are not there, or not up to date, count as such.
    """

    def read(feed: Changefeed) -> list[str]:
        lake = Lake(root, feed.id)
        found = (read_registration(lake, settings.kind) for settings in feed.catalogs)
        registered = [problem for registration in found for problem in registration.problems]
        iceberg = read_iceberg_problems(lake) if feed.iceberg else []
        return [*registered, *(problem.describe() for problem in iceberg)]

    declared = (feed for feed in feeds if feed.catalogs or feed.iceberg)
    calls = {("catalogs", feed.id): partial(read, feed) for feed in declared}
    return {
        id: [str(found)] if isinstance(found, ConfigError) else found
        for (_, id), found in caller.call_all(calls).items()
    }
