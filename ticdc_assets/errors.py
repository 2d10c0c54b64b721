"""Every error of the project, under one base.

    TicdcError
    ├── ConfigError         the changefeed as declared cannot work; names the file and the setting
    ├── DecodeError         bytes that are not what their protocol says; leaves as `events.Rejected`
    │   ├── MalformedMessage    broken framing, broken JSON/Avro/CSV, a value of the wrong kind
    │   ├── UnknownMessage      well formed, but of a type or version nobody has described
    │   ├── MissingPayload      a claim-check message whose payload object cannot be had
    │   ├── MissingFile         a file of the storage sink that was listed and cannot be read
    │   ├── MissingSchema       a row that cannot be read before its schema is there
    │   └── ChecksumMismatch    content that is not what its stated checksum says; used all the same
    ├── ValueProblem        a text that its column's type cannot hold
    ├── UnreadableDdl       a statement that the DDL reader does not understand; never guessed at
    └── UnhonourableDdl     a statement that is understood but cannot be carried out here

Raise the leaf, catch the branch.  An error carries fields, not only text, and never a credential.
"""


class TicdcError(Exception):
    """Base of everything this project raises on purpose."""


class ConfigError(TicdcError):
    """A changefeed declaration that cannot work."""

    def __init__(self, reason: str, *, file: str | None = None, setting: str | None = None) -> None:
        self.reason = reason
        self.file = file
        self.setting = setting
        where = ": ".join(part for part in (file, setting) if part)
        super().__init__(f"{where}: {reason}" if where else reason)


class DecodeError(TicdcError):
    """Bytes that are not what their protocol says they are.

    Raised inside a decoder only; what leaves the decoder is an `events.Rejected` with the position.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class MalformedMessage(DecodeError):
    """Broken framing, JSON, Avro or CSV, or a field of the wrong kind."""


class UnknownMessage(DecodeError):
    """Well formed, but of a type or version that no description covers."""


class MissingPayload(DecodeError):
    """A claim-check message whose payload object is not where it should be."""


class MissingFile(DecodeError):
    """A file of the storage sink that was listed and cannot be read."""


class MissingSchema(DecodeError):
    """A row that cannot be read before its table's schema is there."""


class ChecksumMismatch(DecodeError):
    """Content that is not what its stated checksum says; it is used all the same."""


class InvalidValue(TicdcError):
    """A text that its column's type cannot hold."""

    def __init__(self, reason: str, *, column: str | None = None) -> None:
        self.reason = reason
        self.column = column
        super().__init__(f"column {column!r}: {reason}" if column is not None else reason)


class UnreadableDdl(TicdcError):
    """A statement that the DDL reader does not understand."""

    def __init__(self, reason: str, sql: str) -> None:
        self.reason = reason
        self.sql = sql
        super().__init__(f"{reason}: {sql}")


class UnsupportedDdl(TicdcError):
    """A statement that is understood but cannot be carried out on what is known."""

    def __init__(self, reason: str, sql: str = "") -> None:
        self.reason = reason
        self.sql = sql
        super().__init__(f"{reason}: {sql}" if sql else reason)
