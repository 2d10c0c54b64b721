"""Apply the privacy of a changefeed to values: row images and columns of texts.

A hash is the HMAC-SHA-256 of a value's text, cut to 128 bits, as hexadecimal text: two different
values do not have the same one, and without the key nobody finds a value by trying.  Equal values
of any column have equal hashes, so that tables can be joined by them.

Row checksums are left out of the rows of such tables, and so are digests of claim-check objects:
either would tell whether a guess of the value is right.
"""

import hmac
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec.structs import replace

from ticdc_assets.changefeed.privacy import Privacy, Rule, TablePrivacy
from ticdc_assets.errors import InvalidValue, MalformedMessage
from ticdc_assets.events import Column, RowChange, TableSchema
from ticdc_assets.events.escaped_text import escape_text, unescape_text
from ticdc_assets.events.row_image import dump, load
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.value_reader import read_value
from ticdc_assets.schema.types.value_writer import Writer, make_image_writer
from ticdc_assets.stream.privacy import can_apply, restore_schema

_HASH_BYTES = 16
_KEPT_CHARACTERS = 4
# An image of no row: whoever applies it quarantines the row.
_NO_IMAGE = "[]"

# In the reason of an error, whatever is quoted may be a value.
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_BEHIND_KEY = re.compile(r" after \(.*", re.DOTALL)


class PrivateValues:
    """Applies rules to values; reads the key when the first value is hashed."""

    def __init__(self, privacy: Privacy) -> None:
        self._privacy = privacy
        self._key: bytes | None = None
        self._entries: dict[tuple[str, str], TablePrivacy | None] = {}
        self._rules: dict[tuple[str, str, str], Rule] = {}

    def keeps_all(self, database: str, table: str) -> bool:
        """Whether every column of a table is stored as it is, whichever it has."""
        entry = self._find_entry(database, table)
        if entry is None or not entry.keeps_others:
            return False
        return all(rule == "keep" for _, rule in entry.rules)

    def protect_change(self, change: RowChange) -> RowChange:
        """Return a change with its images as the lake has them."""
        if self.keeps_all(change.database, change.table):
            return change
        before, after = (
            None if image is None else self._protect_image(change.database, change.table, image)
            for image in (change.before, change.after)
        )
        return replace(
            change,
            before=before,
            after=after,
            checksum=None,
            claim_check_digest=None,
            upstream=change.upstream and hide_values(change.upstream),
        )

    def protect_images(self, databases: pa.Array, tables: pa.Array, images: pa.Array) -> pa.Array:
        """Return images as the lake has them; each is of the table in its place."""
        protected = [
            None
            if image is None or database is None or table is None
            else image
            if self.keeps_all(database, table)
            else self._protect_image(database, table, image)
            for database, table, image in zip(
                databases.to_pylist(), tables.to_pylist(), images.to_pylist(), strict=True
            )
        ]
        return pa.array(protected, pa.string())

    def list_stated(self, database: str, table: str, columns: Sequence[str]) -> list[str]:
        """List the columns that images still have."""
        return [name for name in columns if self._find_rule(database, table, name) != "drop"]

    def protect_text(self, rule: Rule, text: str) -> str:
        """Return the text that is stored in place of a value's."""
        return self._hash(text) if rule == "hash" else mask(text)

    def _protect_image(self, database: str, table: str, image: str) -> str:
        try:
            row = load(image)
        except MalformedMessage:
            return _NO_IMAGE
        return dump(self._protect_row(database, table, row))

    def _protect_row(
        self, database: str, table: str, row: Mapping[str, str | None]
    ) -> dict[str, str | None]:
        protected: dict[str, str | None] = {}
        for name, text in row.items():
            rule = self._find_rule(database, table, name)
            if rule == "keep" or (text is None and rule != "drop"):
                protected[name] = text
            elif rule == "null":
                protected[name] = None
            elif rule != "drop":
                assert text is not None
                protected[name] = self.protect_text(rule, text)
        return protected

    def _find_entry(self, database: str, table: str) -> TablePrivacy | None:
        name = database, table
        if name not in self._entries:
            self._entries[name] = self._privacy.find_entry(database, table)
        return self._entries[name]

    def _find_rule(self, database: str, table: str, column: str) -> Rule:
        place = database, table, column
        rule = self._rules.get(place)
        if rule is None:
            entry = self._find_entry(database, table)
            rule = self._rules[place] = "drop" if entry is None else entry.find_rule(column)
        return rule

    def _hash(self, text: str) -> str:
        if self._key is None:
            self._key = self._privacy.read_key()
        content = text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, content, "sha256")[:_HASH_BYTES].hex()


def mask(text: str) -> str:
    """Return a text with `*` for every character but the last four; a short one has none left."""
    hidden = len(text) - _KEPT_CHARACTERS
    if hidden < _KEPT_CHARACTERS:
        # Of a short text, four characters would be most.
        return "*" * len(text)
    return "*" * hidden + text[-_KEPT_CHARACTERS:]


def hide_values(reason: str) -> str:
    """Return the reason of an error without what it quotes."""
    return _QUOTED.sub("'…'", reason)


class LoadedValues:
    """Replaces the texts of the rows that a load has read of one table."""

    def __init__(self, privacy: Privacy, schema: TableSchema) -> None:
        """`schema`: the table as the lake has it."""
        values = PrivateValues(privacy)
        columns = [column for column in schema.columns if _is_read(column)]
        # By the place of a column in what was read.
        self._kept = [place for place, column in enumerate(columns) if column.rule != "drop"]
        self._replaced = {
            place: _PrivateColumn(values, column)
            for place, column in enumerate(columns)
            if column.rule not in (None, "drop")
        }
        hidden = {fold_name(column.name) for column in columns if column.rule is not None}
        self._hides_key = not hidden.isdisjoint(map(fold_name, restore_schema(schema).key))

    def protect(self, texts: Sequence[pa.Array], is_escaped: pa.Array) -> list[pa.Array]:
        """Return the columns that are stored; some texts are escaped (`events.escaped_text`)."""
        return [
            self._replaced[place](texts[place], is_escaped)
            if place in self._replaced
            else texts[place]
            for place in self._kept
        ]

    def protect_source(self, source: str) -> str:
        """Return where rows were read, without the key behind which their range begins."""
        return _BEHIND_KEY.sub("", source) if self._hides_key else source


def _is_read(column: Column) -> bool:
    """Whether a source of rows has a column."""
    return (column.upstream or column).generated != "virtual"


class _PrivateColumn:
    """Replaces the texts of one column, by its rule in the lake."""

    def __init__(self, values: PrivateValues, column: Column) -> None:
        assert column.rule is not None
        assert column.upstream is not None
        self._values = values
        self._rule: Rule = column.rule
        self._type = column.upstream.type
        # A text is what it is; others have one form that the changefeed writes.
        self._write: Writer | None = None
        if can_apply(self._rule, self._type) and describe(self._type).kind != "text":
            self._write = make_image_writer(self._type)

    def __call__(self, texts: pa.Array, is_escaped: pa.Array) -> pa.Array:
        if self._rule == "null":
            return pa.nulls(len(texts), pa.string())
        pairs = zip(texts.to_pylist(), is_escaped.to_pylist(), strict=True)
        return pa.array(
            [None if text is None else self._replace(text, escaped) for text, escaped in pairs],
            pa.string(),
        )

    def _replace(self, text: str, escaped: bool) -> str:
        plain = unescape_text(text) if escaped else text
        stored = self._values.protect_text(self._rule, self._make_canonical(plain))
        return escape_text(stored) if escaped else stored

    def _make_canonical(self, text: str) -> str:
        """Return a value's text as the changefeed writes it."""
        if self._write is None:
            return text
        try:
            return self._write(read_value(text, self._type)) or text
        except (InvalidValue, ValueError):
            # It is no value of the type, and stays no value of it.
            return text
