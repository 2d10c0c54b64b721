"""Every error of the project, under one base.

    TicdcError
    ├── ConfigError         a declaration or option that cannot work; names the file and the setting
    │   └── LostRecords         records of a topic that are gone before they were read
    ├── DecodeError         bytes that do not follow their protocol; becomes `events.Quarantined`
    │   ├── MalformedMessage    broken framing, broken JSON/Avro/CSV, a value of the wrong kind
    │   ├── UnknownMessage      well formed, but of an undocumented type or version
    │   ├── MissingPayload      a claim-check message whose object is absent or unreadable
    │   ├── MissingFile         a listed file of the storage sink that cannot be read
    │   ├── MissingSchema       a row that cannot be decoded without its table's schema
    │   └── ChecksumMismatch    content that differs from its stated checksum; used all the same
    ├── InvalidValue        a text that its column's type cannot hold
    ├── RowChecksumMismatch a row that differs from the checksum TiCDC sent with it; not applied
    ├── BelowFold           an event that arrived below a fold, where events are gone; not applied
    ├── UnreadableDdl       a DDL statement that the reader does not understand; never guessed at
    ├── UnsupportedDdl      a DDL statement that the reader understands and the lake cannot apply
    │   └── ContradictingDdl    one of columns or partitions that the known schema does not have
    ├── CatalogError        an entry that a catalog does not take; the others go on
    │   └── CatalogDown         a catalog that does not answer; the next run catches up
    └── TableCannotContinue a table that cannot be kept right from here on; a person must decide

Raise the leaf, catch the branch.  An error carries fields, not only text, and never a credential.
"""

from ticdc_assets.safe_text import escape_control, redact


class TicdcError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(TicdcError):
    """A changefeed declaration or a command-line option that cannot work."""

    def __init__(self, reason: str, *, file: str | None = None, setting: str | None = None) -> None:
        self.reason = _clean(reason)
        # A URI with credentials may be in the place of either.
        self.file = file and _clean(file)
        self.setting = setting and _clean(setting)
        where = ": ".join(part for part in (self.file, self.setting) if part)
        super().__init__(f"{where}: {self.reason}" if where else self.reason)


# How the reason of an accepted gap begins.
LOST = "records are missing: "


class LostRecords(ConfigError):
    """Records of a topic that are gone before they were read; `offsets` are the first and last."""

    # Parameters: what a person has to know of a gap.
    def __init__(
        self,
        reason: str,
        topic: str,
        partition: int | None = None,
        offsets: tuple[int, int] | None = None,
    ) -> None:
        self.topic, self.partition, self.offsets = topic, partition, offsets
        place = f"topic {topic}" if partition is None else f"topic {topic}, partition {partition}"
        if offsets is not None:
            place += f", offsets {offsets[0]} to {offsets[1]}"
        super().__init__(reason, setting=place)


def _clean(text: str) -> str:
    return escape_control(redact(text))


class DecodeError(TicdcError):
    """Bytes that do not follow their protocol.

    Raised inside a decoder only; the decoder turns it into `events.Quarantined` with a position.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class MalformedMessage(DecodeError):
    """Broken framing, JSON, Avro or CSV, or a field of the wrong kind."""


class UnknownMessage(DecodeError):
    """Well formed, but of a type or version that the protocol's documents do not describe."""


class MissingPayload(DecodeError):
    """A claim-check message whose object is absent or unreadable."""


class MissingFile(DecodeError):
    """A listed file of the storage sink that cannot be read."""


class MissingSchema(DecodeError):
    """A row that cannot be decoded without its table's schema."""


class ChecksumMismatch(DecodeError):
    """Content that differs from its stated checksum; it is used all the same."""


class InvalidValue(TicdcError):
    """A text that its column's type cannot hold."""

    def __init__(self, reason: str, *, column: str | None = None) -> None:
        self.reason = reason
        self.column = column
        super().__init__(f"column {column!r}: {reason}" if column is not None else reason)


class RowChecksumMismatch(TicdcError):
    """A row that differs from the checksum that TiCDC sent with it; it is not applied."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class BelowFold(TicdcError):
    """An event that arrived below a fold, where events are gone; it is not applied."""


class UnreadableDdl(TicdcError):
    """A DDL statement that the reader does not understand."""

    def __init__(self, reason: str, sql: str) -> None:
        self.reason = reason
        self.sql = sql
        super().__init__(f"{reason}: {sql}")


class UnsupportedDdl(TicdcError):
    """A DDL statement that the reader understands and the lake cannot apply."""

    def __init__(self, reason: str, sql: str = "") -> None:
        self.reason = reason
        self.sql = sql
        super().__init__(f"{reason}: {sql}" if sql else reason)


class ContradictingDdl(UnsupportedDdl):
    """A DDL statement that is of another schema than the known one."""


class CatalogError(TicdcError):
    """An entry that a catalog does not take, or that is not ours to change."""

    def __init__(self, reason: str) -> None:
        self.reason = _clean(reason)
        super().__init__(self.reason)


class CatalogDown(CatalogError):
    """A catalog that does not answer, or not to these credentials."""


class TableCannotContinue(TicdcError):
    """A table that cannot be kept right from here on, for a reason other than its DDL."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


# Where an error of one table ends, and a failure of the run begins.  Python raises these for values
# only, so whatever raised them is about an event: they quarantine a row or pause a table, foreseen
# or not.  Everything else fails the run, which changes nothing and can be repeated: `OSError`
# (storage, network), `MemoryError`, what Spark raises, `KeyboardInterrupt`.
CONTENT_ERRORS: tuple[type[Exception], ...] = (
    TicdcError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
_MAX_REASON_CHARS = 500


def describe_content_error(error: Exception) -> str:
    """Describe one of `CONTENT_ERRORS`; with its type, if nobody foresaw it."""
    if isinstance(error, TicdcError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error}"[:_MAX_REASON_CHARS]
