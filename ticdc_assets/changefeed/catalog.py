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

_KINDS = ("glue",)
_PREFIX = re.compile(r"[a-z0-9_]{1,64}")
_WORD = re.compile(r"[A-Za-z0-9_.@+=-]{1,128}")
_ENDPOINT = re.compile(r"https?://[A-Za-z0-9._:\[\]-]{1,253}/?")
_ACCOUNT = re.compile(r"[0-9]{12}")
# Setting: what it may be, and how an error says so.
_GLUE = {
    "database-prefix": (_PREFIX, "must be up to 64 lower-case letters, digits and _"),
    "region": (_WORD, "must be the name of a region, such as eu-west-1"),
    "profile": (_WORD, "must be the name of a profile of this machine's AWS configuration"),
    "endpoint": (_ENDPOINT, "must be a URL such as https://host:port, without anything else"),
    "account": (_ACCOUNT, "must be the 12 digits of an AWS account, in quotes"),
}
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


def read_catalogs(table: Mapping[str, Any]) -> tuple[GlueCatalog, ...]:
    """Read the table; raise a ValueError that begins with the name and quotes no value."""
    for kind, settings in table.items():
        if kind not in _KINDS:
            known = list_choices([f"[changefeed.catalog.{each}]" for each in _KINDS])
            raise ValueError(f"{kind} is not a catalog that is known: write {known}")
        is_table = isinstance(settings, dict)
        if not is_table:
            raise ValueError(f"{kind} must be a table, written [changefeed.catalog.{kind}]")
    return tuple(_read_glue(settings) for settings in table.values())


def _read_glue(table: Mapping[str, Any]) -> GlueCatalog:
    for name, value in table.items():
        if name not in _GLUE:
            hint = _SECRETS if betrays_secret(f"{name}=x") else nearest(name, tuple(_GLUE))
            raise ValueError(f"glue.{name} is not one of its settings{hint}")
        pattern, reason = _GLUE[name]
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"glue.{name} {reason}")
    return GlueCatalog(**{name.replace("-", "_"): value for name, value in table.items()})
