"""The table `[changefeed.catalog]`: the catalogs in which runs register the tables.

Each catalog has a table of its own: `[changefeed.catalog.glue]`.  No credential is in the file:
they are the environment's, or those of a profile.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

from ticdc_assets.changefeed.sink_uri import list_choices, nearest
from ticdc_assets.safe_text import betrays_secret

_PREFIX = re.compile(r"[a-z0-9_]{1,64}")
_WORD = re.compile(r"[A-Za-z0-9_.@+=-]{1,128}")
_ENDPOINT = re.compile(r"https?://[A-Za-z0-9._:\[\]-]{1,253}/?")
_ACCOUNT = re.compile(r"[0-9]{12}")
_THRIFT = re.compile(
    r"thrift://(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?"
)
_THRIFT_PORT = 9083
_URL = re.compile(r"https?://[A-Za-z0-9._:\[\]-]{1,253}(/[A-Za-z0-9._~-]+)*/?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_UNITY_NAME = re.compile(r"[^\x00-\x20./\x7f-\x9f\ud800-\udfff]{1,255}")
_WAREHOUSE = re.compile(r"[A-Za-z0-9._:/@+=,~-]{1,512}")
_PROFILE = re.compile(r"[A-Za-z0-9-]{1,128}")
# Setting: what it may be, and how an error says so.
_Settings = Mapping[str, tuple[re.Pattern[str], str]]
_OF_NAMES: _Settings = {
    "database-prefix": (_PREFIX, "must be up to 64 lower-case letters, digits and _"),
}
_GLUE: _Settings = {
    **_OF_NAMES,
    "region": (_WORD, "must be the name of a region, such as eu-west-1"),
    "profile": (_WORD, "must be the name of a profile of this machine's AWS configuration"),
    "endpoint": (_ENDPOINT, "must be a URL such as https://host:port, without anything else"),
    "account": (_ACCOUNT, "must be the 12 digits of an AWS account, in quotes"),
}
_HIVE: _Settings = {**_OF_NAMES, "uri": (_THRIFT, "must be a URI such as thrift://host:9083")}
_UNITY: _Settings = {
    **_OF_NAMES,
    "uri": (_ENDPOINT, "must be the URL of the server, such as https://host:8080, without a path"),
    "catalog": (_UNITY_NAME, "must be the name of a catalog in it"),
    "token-env": (_VARIABLE, "must be the name of the environment variable that holds the token"),
}
_ICEBERG_REST: _Settings = {
    **_OF_NAMES,
    "uri": (_URL, "must be the URL of the catalog, such as https://host/api/catalog"),
    "warehouse": (_WAREHOUSE, "must be what the catalog calls its warehouse"),
    "profile": (
        _PROFILE,
        "must be the name of a catalog in this machine's pyiceberg configuration",
    ),
}
_SECRETS = "; credentials come from the environment or a profile, never from this file"


@dataclass(frozen=True, slots=True)
class GlueCatalog:
    """The Glue Data Catalog of an account in a region; by default, of the environment's."""

    kind: ClassVar[str] = "glue"
    database_prefix: str = ""
    region: str | None = None
    profile: str | None = None
    endpoint: str | None = None
    account: str | None = None


@dataclass(frozen=True, slots=True)
class HiveCatalog:
    """A Hive Metastore."""

    kind: ClassVar[str] = "hive"
    uri: str
    database_prefix: str = ""

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port."""
        found = _THRIFT.fullmatch(self.uri)
        assert found
        return found["host"].strip("[]"), int(found["port"] or _THRIFT_PORT)


@dataclass(frozen=True, slots=True)
class UnityCatalog:
    """A catalog of a Unity Catalog server."""

    kind: ClassVar[str] = "unity"
    uri: str
    catalog: str
    database_prefix: str = ""
    # The variable that holds the token; without one, the server gets none.
    token_env: str | None = None


@dataclass(frozen=True, slots=True)
class IcebergRestCatalog:
    """A catalog that speaks Iceberg's REST protocol, for the tables that `iceberg` names."""

    kind: ClassVar[str] = "iceberg-rest"
    uri: str
    database_prefix: str = ""
    warehouse: str | None = None
    # Under which name pyiceberg's configuration has the credentials.
    profile: str | None = None


CatalogSettings = GlueCatalog | HiveCatalog | UnityCatalog | IcebergRestCatalog
_KINDS: Mapping[str, tuple[_Settings, type[CatalogSettings]]] = {
    GlueCatalog.kind: (_GLUE, GlueCatalog),
    HiveCatalog.kind: (_HIVE, HiveCatalog),
    UnityCatalog.kind: (_UNITY, UnityCatalog),
    IcebergRestCatalog.kind: (_ICEBERG_REST, IcebergRestCatalog),
}


def read_catalogs(table: Mapping[str, Any]) -> tuple[CatalogSettings, ...]:
    """Read the table; raise a ValueError that begins with the name and quotes no value."""
    return tuple(_read_catalog(kind, settings) for kind, settings in table.items())


def _read_catalog(kind: str, table: Any) -> CatalogSettings:
    if kind not in _KINDS:
        known = list_choices([f"[changefeed.catalog.{each}]" for each in _KINDS])
        raise ValueError(f"{kind} is not a catalog that is known: write {known}")
    is_table = isinstance(table, dict)
    if not is_table:
        raise ValueError(f"{kind} must be a table, written [changefeed.catalog.{kind}]")
    allowed, chosen = _KINDS[kind]
    settings: dict[str, str] = {}
    for name, value in table.items():
        if name not in allowed:
            is_secret = betrays_secret(f"{name}=x")
            hint = _SECRETS if is_secret else nearest(name, tuple(allowed))
            raise ValueError(f"{kind}.{name} is not one of its settings{hint}")
        pattern, reason = allowed[name]
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"{kind}.{name} {reason}")
        settings[name.replace("-", "_")] = value
    for field in fields(chosen):
        if field.default is MISSING and field.name not in settings:
            raise ValueError(f"{kind}.{field.name} is missing: it {allowed[field.name][1]}")
    return chosen(**settings)
