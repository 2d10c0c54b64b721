"""The parts of a sink URI, as given to `cdc cli changefeed create --sink-uri`.

This module reads text only and opens nothing.  Scalars are read as Go reads them, because TiCDC
does.  Credentials go into `Options`, which never prints, and no error quotes a part of the URI that
could be one: a secret with an unescaped `/`, `?`, `&` or `@` can land anywhere.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, TypeVar
from urllib.parse import unquote, unquote_plus

from ticdc_assets.changefeed.known_settings import (
    CONNECTION,
    KAFKA_CONNECTION,
    SINK_PARAMETERS,
    STORAGE_CONNECTION,
)
from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import (
    betrays_secret,
    is_secret_name,
    remember_secret,
    remember_secrets_in,
)

T = TypeVar("T")
Transport = Literal["kafka", "dump", "storage"]
Scheme = Literal["kafka", "kafka+ssl", "dump", "file", "s3", "gcs", "azure"]

SCHEMES: dict[str, tuple[Transport, Scheme]] = {
    "kafka": ("kafka", "kafka"),
    "kafka+ssl": ("kafka", "kafka+ssl"),
    "dump": ("dump", "dump"),
    "file": ("storage", "file"),
    "nfs": ("storage", "file"),
    "s3": ("storage", "s3"),
    "s3a": ("storage", "s3"),
    "gcs": ("storage", "gcs"),
    "gs": ("storage", "gcs"),
    "azure": ("storage", "azure"),
    "azblob": ("storage", "azure"),
}

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_BROKER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BUCKET = re.compile(r"[A-Za-z0-9$._-]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DURATION = re.compile(r"\+?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9.]+)(ns|us|µs|μs|ms|s|m|h)")
_ENDPOINT = re.compile(r"(?:[A-Za-z]+://)?[^\s/?#@;&]+(?:/[^\s?#@;&]*)?")
# Parameters behind something other than a question mark.
_PARAMETER_IN_PATH = re.compile(r"[&;]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class Options(Mapping[str, str]):
    """How to reach Kafka or a bucket, credentials included: a mapping that never prints itself.

    What is a secret is redacted everywhere from then on.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})
        for name, value in self._values.items():
            if is_secret_name(name):
                remember_secret(value)

    def __reduce__(self) -> tuple[type["Options"], tuple[dict[str, str]]]:
        """Make a copy in another process remember the secrets, too."""
        return Options, (self._values,)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<{len(self._values)} options>"


def go_bool(text: str) -> bool:
    """Read a boolean as Go's query binding does: strconv.ParseBool, and an empty text is false."""
    if text in _TRUE:
        return True
    if text in _FALSE or not text:
        return False
    raise ValueError("must be true or false")


def go_int(text: str) -> int:
    """Read a decimal integer as Go's query binding does: an empty text is 0."""
    if not text:
        return 0
    if not _INTEGER.fullmatch(text):
        raise ValueError("must be a whole number")
    return int(text)


def go_duration(text: str) -> float:
    """Read a positive Go duration such as `1h2m3.5s` or `30ms` as seconds."""
    if not _DURATION.fullmatch(text):
        raise ValueError("must be a duration such as 30s or 1m")
    seconds = sum(float(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(text))
    if not 0 < seconds < 1e9:
        raise ValueError("must be more than 0s and less than 1000000000s")
    return seconds


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name most like this one, or an empty text."""
    match = get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {match[0]}?" if match else ""


def list_choices(names: Sequence[str]) -> str:
    """Join names as `a, b or c`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


@dataclass(frozen=True, slots=True)
class SinkUri:
    """Where a sink is and what its URI sets.

    `location` holds no credentials and no parameters, and is unescaped: brokers for Kafka, an
    absolute path for files, `scheme://bucket/prefix` for a bucket.
    """

    transport: Transport
    scheme: Scheme
    location: str
    topic: str | None
    options: Options
    parameters: Mapping[str, str] = field(repr=False)
    file: str | None = None
    setting: str = "sink-uri"

    def text(self, name: str) -> str | None:
        return self.parameters.get(name) or None

    def flag(self, name: str) -> bool | None:
        return self._read(name, go_bool)

    def integer(self, name: str) -> int | None:
        return self._read(name, go_int)

    def error(self, reason: str, name: str | None = None) -> ConfigError:
        return _error(reason, self.file, self.setting, name)

    def _read(self, name: str, read: Callable[[str], T]) -> T | None:
        if name not in self.parameters:
            return None
        try:
            return read(self.parameters[name])
        except ValueError as error:
            raise self.error(str(error), name) from None


def parse_sink_uri(uri: str, *, file: str | None = None, setting: str = "sink-uri") -> SinkUri:
    """Parse a sink URI; raise a `ConfigError` for what TiCDC would misread or ignore."""
    remember_secrets_in(uri)
    try:
        uri = uri.strip()
        if any(ord(char) <= 0x20 or ord(char) == 0x7F for char in uri):
            raise ValueError("has a blank or a control character: percent-encode it")
        if "#" in uri:
            raise ValueError("has a '#', where TiCDC stops reading: write it as %23")
        if _BAD_ESCAPE.search(uri):
            raise ValueError("has a '%' that starts no escape: write it as %25")
        scheme_text, separator, rest = uri.partition("://")
        if not separator or scheme_text.lower() not in SCHEMES:
            choices = list_choices([f"{name}://" for name in SCHEMES])
            raise ValueError(f"must start with {choices}")
        transport, scheme = SCHEMES[scheme_text.lower()]
        address, _, query = rest.partition("?")
        authority, _, path = address.partition("/")
        # TiCDC has no use for user:password@, for any scheme.
        location, topic = _locate(transport, scheme, authority.rpartition("@")[2], path)
    except ValueError as error:
        raise _error(str(error), file, setting) from None
    parameters = _parameters(query, file, setting)
    options = {name: value for name, value in parameters.items() if name in CONNECTION}
    settings = {name: value for name, value in parameters.items() if name not in CONNECTION}
    return SinkUri(transport, scheme, location, topic, Options(options), settings, file, setting)


def _error(reason: str, file: str | None, setting: str, name: str | None = None) -> ConfigError:
    return ConfigError(reason, file=file, setting=f"{setting}: {name}" if name else setting)


def _locate(
    transport: Transport, scheme: Scheme, host: str, escaped_path: str
) -> tuple[str, str | None]:
    try:
        path = unquote(escaped_path, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("has a path that is not UTF-8: escape its bytes as UTF-8") from None
    if "\0" in path:
        raise ValueError("has a NUL in its path: remove %00")
    if _CONTROL.search(path):
        raise ValueError("has a control character in its path")
    if _PARAMETER_IN_PATH.search(escaped_path) or betrays_secret(unquote(path)):
        reason = (
            "has a parameter in its path: write ? before the first one, and an & in a name as %26"
        )
        raise ValueError(reason)
    if transport == "kafka":
        if not all(_BROKER.fullmatch(broker) for broker in host.split(",")):
            raise ValueError("must name its brokers as host:port[,host:port...]")
        if not _TOPIC.fullmatch(path):
            raise ValueError("names no topic that Kafka allows: write kafka://host:port/topic")
        return host, path
    if scheme in ("dump", "file"):
        if host:
            raise ValueError(f"must have an absolute path: {scheme}:///path")
        if scheme == "dump" and (not path.strip("/") or path.endswith("/")):
            raise ValueError("must name a file: dump:///path/records.jsonl")
        return "/" + path.strip("/"), None
    if not _BUCKET.fullmatch(host):
        raise ValueError(f"must name a bucket: {scheme}://bucket/prefix")
    if "@" in escaped_path:
        # More likely the end of credentials with an unescaped slash than part of a prefix.
        raise ValueError("has an '@' in its path: write it as %40")
    return f"{scheme}://{host}/{path.strip('/')}".rstrip("/"), None


def _parameters(query: str, file: str | None, setting: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    previous = ""
    for pair in filter(None, query.split("&")):
        escaped_name, _, escaped_value = pair.partition("=")
        name = unquote_plus(escaped_name)
        storage_name = name.lower().replace("_", "-")
        if storage_name in STORAGE_CONNECTION:
            name = storage_name
        elif name not in SINK_PARAMETERS and name not in KAFKA_CONNECTION:
            raise _unknown(name, previous, query, file, setting)
        if ";" in pair:
            reason = "has a ';', for which TiCDC drops the parameter: write it as %3B"
            raise _error(reason, file, setting, name)
        value = unquote_plus(escaped_value)
        if name == "endpoint" and value and not _ENDPOINT.fullmatch(value):
            reason = "must be http://host:port or https://host:port, without user or parameters"
            raise _error(reason, file, setting, name)
        if parameters.setdefault(name, value) != value:
            raise _error("is given twice with different values: keep one", file, setting, name)
        previous = name
    return parameters


def _unknown(name: str, previous: str, query: str, file: str | None, setting: str) -> ConfigError:
    if previous in CONNECTION or previous == "schema-registry":
        reason = "is followed by a parameter unknown to TiCDC: write an & in a value as %26"
        return _error(reason, file, setting, previous)
    if not _NAME.fullmatch(name) or (not previous and "@" in query):
        # The name may be the rest of a password with a ? in it: do not repeat it.
        reason = "has a parameter unknown to TiCDC: percent-encode ?, & and @ in a value"
        return _error(reason, file, setting)
    hint = nearest(name, {*SINK_PARAMETERS, *CONNECTION}) or "; set it in the config or remove it"
    reason = "is not a setting that TiCDC reads from a sink URI"
    return _error(reason + hint, file, setting, name)
