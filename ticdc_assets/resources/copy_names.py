"""How a copy names its tables, by the names that these have upstream."""

import re
from collections.abc import Sequence

from ticdc_assets.errors import ConfigError
from ticdc_assets.upstream.snapshot import TableUnreadable

_PLACE = re.compile(r"\{(schema|table)\}")
_SETTING = "--table-name"
# In this order, without --table-name.
FOLDERS = ("{schema}/{table}", "{schema}.{table}")
WAREHOUSES = (*FOLDERS, "{schema}.db/{table}")


class Template:
    """A template such as `{schema}_{table}`; a point outside of braces divides it in two."""

    def __init__(self, text: str) -> None:
        if "{table}" not in text or _PLACE.sub("", text).count("{"):
            reason = "must have {table} in it, may have {schema}, and nothing else in braces"
            raise ConfigError(reason, setting=_SETTING)
        self._text = text

    def __str__(self) -> str:
        return self._text

    def fill(self, database: str, table: str) -> str:
        """Return the name of a table."""
        return _fill(self._text, database, table)

    def fill_path(self, database: str, table: str) -> str:
        """Return the path of a table below a folder."""
        for name in (database, table):
            if "/" in name or name in (".", ".."):
                raise TableUnreadable("its name cannot be the name of a folder", setting=_SETTING)
        return self.fill(database, table)

    def fill_parts(self, database: str, table: str, schema: str) -> tuple[str, str]:
        """Return the schema and the table; `schema` is where the template names none."""
        head, point, tail = self._text.partition(".")
        if not point:
            return schema, self.fill(database, table)
        return _fill(head, database, table), _fill(tail, database, table)


def make_templates(given: str | None, defaults: Sequence[str]) -> list[Template]:
    """Return the templates to try, in order."""
    return [Template(text) for text in ((given,) if given is not None else defaults)]


def _fill(text: str, database: str, table: str) -> str:
    # In one pass: a name may look like a place.
    names = {"schema": database, "table": table}
    return _PLACE.sub(lambda match: names[match[1]], text)
