"""The table `[changefeed.catalog]`: the catalogs in which runs register the tables.

Each catalog has a table of its own: `[changefeed.catalog.glue]`.  No credential is in the file:
they are the environment's, or those of a profile.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
_KINDS = {"glue": _GLUE, "hive": _HIVE}
_SECRETS = "; credentials come from the environment or a profile, never from this file"


@dataclass(frozen=True, slots=True)
class GlueCatalog:
    """The Glue Data Catalog of an account in a region; by default, of the environment's."""

    database_prefix: str = ""
    region: str | None = None
    profile: str | None = None
    endpoint: str | None = None
    account: str | None = None

    @property
    def kind(self) -> str:
        return "glue"


@dataclass(frozen=True, slots=True)
class HiveCatalog:
    """A Hive Metastore."""

    uri: str
    database_prefix: str = ""

    @property
    def kind(self) -> str:
        return "hive"

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port."""
        found = _THRIFT.fullmatch(self.uri)
        assert found
        return found["host"].strip("[]"), int(found["port"] or _THRIFT_PORT)


CatalogSettings = GlueCatalog | HiveCatalog


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
    settings: dict[str, str] = {}
    for name, value in table.items():
        if name not in _KINDS[kind]:
            is_secret = betrays_secret(f"{name}=x")
            hint = _SECRETS if is_secret else nearest(name, tuple(_KINDS[kind]))
            raise ValueError(f"{kind}.{name} is not one of its settings{hint}")
        pattern, reason = _KINDS[kind][name]
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"{kind}.{name} {reason}")
        settings[name.replace("-", "_")] = value
    if kind == "glue":
        return GlueCatalog(**settings)
    if "uri" not in settings:
        raise ValueError(f"hive.uri is missing: it {_HIVE['uri'][1]}")
    return HiveCatalog(**settings)
