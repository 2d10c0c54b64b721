"""Text that leaves the program: without secrets, and as text, whatever the medium makes of markup.

There is one function per medium: `escape_control` for terminals and logs, `escape_markdown` for
Dagster's pages, `escape_chat` for alerts, `join_for_shell` for commands to copy.

`redact` is the only redaction.  It replaces the secrets that it knows, which are those of every
declared changefeed and of the environment, and what the form of a text betrays: users and
parameters of URIs, and values that have the name of a secret.  Every `ConfigError` redacts itself;
commands, Dagster's runs and sensors, and alerts redact what else they pass on.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote, quote_plus, unquote, unquote_plus

_HIDDEN = "…"
# Shorter texts are words that occur elsewhere.
_LEAST_LENGTH = 8

_NAME = r"""
    (?: (?: (?<![a-z0-9]) | (?<=3F) | (?<=26) )
        (?: pwd | credentials? | sig | sas | webhook )
      | secret | token | passw(?:or)?d | passphrase | signature | external[-_]id
      | (?:access|account|api|encryption|private|shared|storage)[-_.]?key
      | [a-z]+-key(?==) )
    (?![a-z0-9]) (?![-_.](?:file|path)\b)
"""
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE | re.VERBOSE)
# A name and its value, as in URIs, shells, TOML and JSON.  A value may be quoted.
_NAMED_VALUE = re.compile(
    rf"""(?P<name> {_NAME} [\w.-]{{0,60}} (?: \s*=\s* | : (?=\S) | %(?:25)*3[AD] | ["']\s*:\s* ))
         (?!{_HIDDEN}) (?: "[^"]*(?:"|$) | '[^']*(?:'|$) | \S+ )""",
    re.IGNORECASE | re.VERBOSE,
)
# Without its slashes, too: a URI that was taken for a path has lost one.
_USER = re.compile(r"(?P<scheme>(?<![\w+.-])[\w+.-]*):(?P<slashes>/{0,2})(?P<user>\S*)@")
# Where a port belongs.
_NO_PORT = re.compile(
    r"(://[^\s/:@\[]+:)(?!port\b|[0-9]{1,5}(?![^\s/?;&:,)'\"]))\S+", re.IGNORECASE
)
# In a path, too, where a parameter's own sign is missing or escaped.
_SIGN = r"(?:[?;&#=]|%(?:25)*(?:3F|26|3D))"
_PARAMETERS = re.compile(rf"(:/(?:(?!{_SIGN})\S)*{_SIGN})(?!{_HIDDEN})\S+", re.IGNORECASE)
_QUERY_STRING = re.compile(r"\?[^\s'\"]*=[^\s'\"]*")
# `abfss://container@account` names no user.
_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")
# The forms of AWS key ids, of web tokens, and of random keys.
_ISSUED = re.compile(
    r"""(?<![\w/+=-])
        (?: (?:AKIA|ASIA)[A-Z0-9]{12,} | eyJ[\w-]{8,}\.[\w.-]+
          | (?=\S*[a-z])(?=\S*[A-Z])(?=\S*[0-9])
            (?:[A-Za-z0-9/+]{40} | [A-Za-z0-9/+]{60,}={0,2} | [\w-]{20,}) )
        (?![\w/+=-])""",
    re.VERBOSE,
)

# Terminal colours and line arrows.
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳")

_MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]#+-.!|<>~&$"})
_ESCAPED_MARKUP = re.compile(r"\\([\\`*_{}\[\]#+\-.!|<>~&$])")
# Slack reads &, < and > as HTML does, and mentions as <!channel>.  Others mention with a plain @,
# and read Markdown; a space of no width breaks both.
_CHAT = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b", "](": "]\u200b("}
_CHAT_MARKUP = re.compile(r"[&<>@]|\]\(")

# Variables of a shell that hold no password.
_FOLDERS = ("PWD", "OLDPWD")

_known: dict[str, None] = {}


def is_secret_name(name: str) -> bool:
    """Return whether a setting of this name is a secret."""
    return _SECRET_NAME.search(name) is not None


def remember_secret(text: str) -> None:
    """Redact this text from now on."""
    if len(text) >= _LEAST_LENGTH:
        _known[text] = None


def remember_secrets_in(text: str) -> None:
    """Remember what may be a secret in an argument of a command or in a malformed URI."""
    for match in _ISSUED.finditer(text):
        remember_secret(match[0])
    for match in _USER.finditer(text):
        if match["scheme"] not in _CONTAINERS:
            remember_secret(match["user"])
            remember_secret(match["user"].partition(":")[2])
    for pair in re.split("[?&;]", text):
        name, _, value = pair.partition("=")
        if is_secret_name(name):
            for decoded in (value, unquote(value), unquote_plus(value)):
                remember_secret(decoded)


def redact(text: str) -> str:
    """Return a text without the secrets in it."""
    # Forms first: a known secret may be part of a name that betrays another.
    text = _redact_forms(text)
    for secret in sorted([*tuple(_known), *_environment_secrets()], key=len, reverse=True):
        for written in _spellings(secret):
            text = text.replace(written, _HIDDEN)
    return text


def betrays_secret(text: str) -> bool:
    """Return whether a text has the form of one that holds a secret."""
    return _redact_forms(text) != text


def quote_given(text: str) -> str:
    """Quote what somebody gave, or hide it if it may hold a secret."""
    return repr(text) if text.isprintable() and redact(text) == text else _HIDDEN


@contextmanager
def redacted_errors() -> Iterator[None]:
    """Replace an error that quotes a secret by one that does not, and has no cause.

    Dagster stores and shows an error with its causes.
    """
    try:
        yield
    except Exception as error:
        if all(redact(text) == text for text in map(str, _chain(error))):
            raise
        raise RuntimeError(f"{type(error).__name__}: {redact(str(error))}") from None


def describe_error(error: Exception) -> str:
    """Describe an error of a library on one line, without anything that could be a secret."""
    text = redact(" ".join(_DECORATION.sub(" ", str(error)).split()))
    return text or type(error).__name__


def escape_control(text: str) -> str:
    """Return a text on one line, with unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows unchanged, on one line."""
    return escape_control(" ".join(text.split())).translate(_MARKUP)


def unescape_markdown(text: str) -> str:
    """Return the text that was escaped for Markdown."""
    return _ESCAPED_MARKUP.sub(r"\1", text)


def escape_chat(text: str) -> str:
    """Return a text that a chat shows unchanged, on one line; it mentions nobody."""
    return _CHAT_MARKUP.sub(lambda match: _CHAT[match[0]], escape_control(text))


def join_for_shell(command: Sequence[str], flags: Sequence[str], name: str | None) -> str:
    """Write a command line that can be printed, and pasted into a shell, whatever a name is."""
    words = [*command, *([] if name is None else [name]), *flags]
    if name is not None and name.startswith("-"):
        # A name that starts like an option is not one.
        words = [*command, *flags, "--", name]
    return " ".join(map(_quote_for_shell, words))


def _quote_for_shell(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escape_for_shell, word)) + "'"


def _escape_for_shell(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="surrogateescape"))


def _redact_forms(text: str) -> str:
    text = _USER.sub(_hide_user, text)
    text = _NO_PORT.sub(rf"\1{_HIDDEN}", text)
    text = _PARAMETERS.sub(rf"\1{_HIDDEN}", text)
    text = _QUERY_STRING.sub(f"?{_HIDDEN}", text)
    return _NAMED_VALUE.sub(rf"\g<name>{_HIDDEN}", text)


def _hide_user(match: re.Match[str]) -> str:
    if match["scheme"] in _CONTAINERS and match["user"].replace("-", "").isalnum():
        return match[0]
    return f"{match['scheme']}:{match['slashes']}{_HIDDEN}@"


def _spellings(secret: str) -> set[str]:
    """Return how a secret may be written: as it is, in a URI, in Python and in JSON."""
    texts = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]}
    return texts | {escape(secret, safe="", errors="replace") for escape in (quote, quote_plus)}


def _environment_secrets() -> list[str]:
    return [
        value
        for name, value in os.environ.items()
        if len(value) >= _LEAST_LENGTH and is_secret_name(name) and name not in _FOLDERS
    ]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
