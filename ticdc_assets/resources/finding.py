"""What `check` finds: a thing that is well, doubtful or wrong, and what to do about it."""

from typing import Literal

from msgspec import Struct

from ticdc_assets.errors import ConfigError

Result = Literal["ok", "warning", "failure"]
Subject = Literal[
    "settings",
    "java",
    "jars",
    "spark",
    "declaration",
    "stream",
    "source",
    "claim check",
    "upstream",
    "catalog",
    "lake",
]


class Finding(Struct, frozen=True, kw_only=True):
    """One result; without a changefeed, it concerns the whole deployment."""

    result: Result
    changefeed: str | None
    subject: Subject
    # The file and the setting to change, as far as there is one.
    file: str | None
    setting: str | None
    message: str
    # What to do, where the message does not say it.
    fix: str | None


def note(subject: Subject, message: str, changefeed: str | None = None) -> Finding:
    """State that something is well."""
    return Finding(
        result="ok",
        changefeed=changefeed,
        subject=subject,
        file=None,
        setting=None,
        message=message,
        fix=None,
    )


# Parameters: what differs between doubts and failures.
def blame(
    result: Result,
    subject: Subject,
    error: ConfigError,
    fix: str | None = None,
    changefeed: str | None = None,
) -> Finding:
    """State what is doubtful or wrong, as an error says it."""
    return Finding(
        result=result,
        changefeed=changefeed,
        subject=subject,
        file=error.file,
        setting=error.setting,
        message=error.reason,
        fix=fix,
    )
