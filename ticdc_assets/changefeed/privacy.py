"""The table `[changefeed.privacy]`: which columns are stored as they are, and what of others.

Of several entries that select a table, the last one decides on all of its columns, so that no
value is stored because of an entry that was forgotten: what no entry keeps is left out.  The key is
never in the file: `key-env` names a variable of the environment, which every process that hashes or
encrypts reads by itself.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ticdc_assets.changefeed.sink_uri import list_choices, nearest
from ticdc_assets.changefeed.table_entries import read_entries
from ticdc_assets.changefeed.table_pattern import match_table, read_patterns
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.safe_text import quote_given, remember_secret

Rule = Literal["keep", "drop", "null", "hash", "mask"]
RULES: tuple[Rule, ...] = ("keep", "drop", "null", "hash", "mask")
# Under these, different values of a column stay different.
KEY_RULES: tuple[Rule, ...] = ("keep", "hash")
# How `raw` has the records of topics.
RawRecords = Literal["plain", "encrypted"]
_RAW = ("plain", "encrypted")
_NAMES = ("key-env", "raw", "table")
_EVERY = "*"
_LEAST_KEY = 32


@dataclass(frozen=True, slots=True)
class TablePrivacy:
    """The rules for the columns of the tables that patterns select."""

    tables: tuple[str, ...]
    # By column; a column without a rule is left out, unless the entry keeps all others.
    rules: tuple[tuple[str, Rule], ...]
    keeps_others: bool = False

    def find_rule(self, column: str) -> Rule:
        """Return the rule for a column; case is ignored, as MySQL does for names of columns."""
        folded = fold_name(column)
        others: Rule = "keep" if self.keeps_others else "drop"
        return next((rule for name, rule in self.rules if fold_name(name) == folded), others)

    def names(self, column: str) -> bool:
        """Whether a list of the entry names a column."""
        return any(fold_name(name) == fold_name(column) for name, _ in self.rules)


@dataclass(frozen=True, slots=True)
class Privacy:
    """The entries, the variable that has the key, and how `raw` has the records of topics."""

    tables: tuple[TablePrivacy, ...]
    key_env: str | None = None
    raw: RawRecords = "plain"

    def find_entry(self, database: str, table: str) -> TablePrivacy | None:
        """Return the entry that decides on the columns of a table; None if none selects it."""
        for entry in reversed(self.tables):
            if match_table(entry.tables, database, table):
                return entry
        return None

    @property
    def needs_key(self) -> bool:
        """Whether anything is hashed or encrypted."""
        hashes = any(rule == "hash" for entry in self.tables for _, rule in entry.rules)
        return hashes or self.raw == "encrypted"

    def read_key(self) -> bytes:
        """Read the key, which is a secret from now on; raise `ConfigError` without one."""
        key = os.environ.get(self.key_env or "")
        setting = "changefeed.privacy.key-env"
        if not key:
            reason = f"there is no environment variable {self.key_env}: set it to the key"
            raise ConfigError(reason, setting=setting)
        if len(key) < _LEAST_KEY:
            reason = (
                f"the key in {self.key_env} has {len(key)} characters, and needs at least"
                f" {_LEAST_KEY}: make one by openssl rand -hex 32"
            )
            raise ConfigError(reason, setting=setting)
        remember_secret(key)
        return key.encode("utf-8", "surrogateescape")


def read_privacy(table: Mapping[str, Any], *, has_records: bool) -> Privacy:
    """Read the table; raise a ValueError that begins with the name and quotes no value.

    `has_records`: the changefeed writes to topics, so that `raw` has the records themselves.
    """
    for name in table:
        if name not in _NAMES:
            hint = "; write key-env" if name == "key" else nearest(name, _NAMES)
            raise ValueError(f"{name} is not one of its settings{hint}")
    key_env = table.get("key-env")
    if key_env is not None and (not isinstance(key_env, str) or not key_env):
        raise ValueError("key-env must be the name of an environment variable")
    privacy = Privacy(
        _read_entries(table.get("table")), key_env, _read_raw(table.get("raw"), has_records)
    )
    if privacy.needs_key and key_env is None:
        raise ValueError("key-env is missing: name the environment variable that has the key")
    return privacy


def check_keys(privacy: Privacy, keys: Mapping[str, tuple[str, ...]]) -> None:
    """Raise a ValueError if a rule takes a column away by which a declared key finds rows."""
    for name, columns in keys.items():
        database, _, table = name.partition(".")
        entry = privacy.find_entry(database, table)
        for column in columns:
            rule = "drop" if entry is None else entry.find_rule(column)
            if rule not in KEY_RULES:
                raise ValueError(
                    f"table: column {column[:80]} of {name[:80]} is in its key, which keys states,"
                    f" and rows cannot be found again by a column with the rule {rule}: keep it, or"
                    " hash it"
                )


def _read_raw(value: Any, has_records: bool) -> RawRecords:
    if not has_records:
        if value is not None:
            raise ValueError("raw works on topics only, as raw has no data of a folder: remove it")
        return "plain"
    match value:
        case "plain":
            return "plain"
        case "encrypted":
            return "encrypted"
        case None:
            reason = "is missing: records in raw have all values, so choose how they are kept"
            raise ValueError(f"raw {reason}: {list_choices(_RAW)}")
    raise ValueError(f"raw must be {list_choices(_RAW)}, not {quote_given(str(value))}")


def _read_entries(entries: Any) -> tuple[TablePrivacy, ...]:
    try:
        found = read_entries(entries, "changefeed.privacy.table", _read_entry)
    except ValueError as error:
        raise ValueError(f"table: {error}") from None
    if not found:
        raise ValueError("table has no entry: write [[changefeed.privacy.table]]")
    return found


def _read_entry(entry: Mapping[str, Any]) -> TablePrivacy:
    names = ("tables", *RULES)
    for name in entry:
        if name not in names:
            raise ValueError(f"{name} is not one of its settings{nearest(name, names)}")
    rules: dict[str, tuple[str, Rule]] = {}
    keeps_others = False
    for rule in RULES:
        for column in _read_columns(entry, rule):
            if column == _EVERY:
                if rule != "keep":
                    raise ValueError(f'{rule} must name columns: "*" stands in keep alone')
                keeps_others = True
                continue
            folded = fold_name(column)
            if folded in rules:
                lists = f"{rules[folded][1]} and {rule}"
                raise ValueError(
                    f"column {column[:80]} is twice in its lists ({lists}): remove one"
                )
            rules[folded] = column, rule
    if not rules and not keeps_others:
        raise ValueError(f"names no column: set {list_choices(RULES)}, or remove it")
    return TablePrivacy(read_patterns(entry.get("tables")), tuple(rules.values()), keeps_others)


def _read_columns(entry: Mapping[str, Any], rule: Rule) -> list[str]:
    columns = entry.get(rule, [])
    if not isinstance(columns, list) or not all(isinstance(c, str) and c for c in columns):
        raise ValueError(f'{rule} must be a list of columns such as ["email"]')
    return columns
