"""How to reach the brokers of a changefeed: the client's settings, and what went wrong.

The client is librdkafka.  Nothing of it reaches the terminal, and no message quotes a secret: its
errors are put into words here, so that a person can act on them.
"""

import base64
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.reference import read_reference
from ticdc_assets.safe_text import escape_control, redact, remember_secret

# Seconds until a broker that does not answer is an error.
PATIENCE = 10.0
# How librdkafka calls what TiCDC's settings say.
_NAMES = {
    "ca": "ssl.ca.location",
    "cert": "ssl.certificate.location",
    "key": "ssl.key.location",
    "sasl-user": "sasl.username",
    "sasl-password": "sasl.password",
    "kafka-client-id": "client.id",
    "sasl-oauth-client-id": "sasl.oauthbearer.client.id",
    "sasl-oauth-token-url": "sasl.oauthbearer.token.endpoint.url",
}
_FILES = ("ca", "cert", "key")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
# What librdkafka puts around the reason of an error.
_ADDRESS = re.compile(r"^\S+://\S+: |^\S+/(?:bootstrap|\d+): ")
_STATE = re.compile(r" \(after \d+ms in state \w+.*\)$")
# To a client with TLS, a listener without it does one of two things by chance: it answers what is
# no TLS, which is an error of TLS, or it closes the connection first, an error of transport.
_CLOSED = "SSL connection closed by peer"
_IS_PLAIN = ": leave it out if this is a PLAINTEXT listener"
_NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token: "
_MAX_ANSWER = 200
_PROPERTY = re.compile(r'property:? "([a-z0-9._]+)"')

Settings = dict[str, Any]


def make_client(make: Callable[[Settings], Any], feed: Changefeed, settings: Settings) -> Any:
    """Create a client of librdkafka; raise a `ConfigError` for settings that it does not accept."""
    try:
        return make({**make_settings(feed), **settings})
    except KafkaException as error:
        reason: str = error.args[0].str()
        if found := _PROPERTY.search(reason):
            # What follows the name is the value.
            reason = f"the Kafka client does not accept its setting {found[1]}"
        reason = reason.removeprefix("Failed to create admin client: ")
        raise ConfigError(reason, setting="sink-uri") from None


def make_settings(feed: Changefeed) -> Settings:
    """Translate the connection settings of a changefeed into librdkafka's."""
    options = feed.options
    settings: Settings = {
        "bootstrap.servers": feed.location,
        "client.id": "ticdc-assets",
        "log_level": 0,
        "socket.connection.setup.timeout.ms": 5000,
        "reconnect.backoff.max.ms": 1000,
    }
    settings |= {_NAMES[name]: options[name] for name in _NAMES if options.get(name)}
    own = _read_own_settings(feed)
    for name in _FILES:
        path = options.get(name)
        if path and _NAMES[name] not in own and not os.access(path, os.R_OK):
            raise ConfigError(f"the file of {name} cannot be read: {path}", setting="sink-uri")
    mechanism = _read_mechanism(options)
    protocol = "sasl" if mechanism else ""
    settings["security.protocol"] = "_".join(
        filter(None, (protocol, "ssl" if _is_encrypted(feed) else "plaintext"))
    )
    if mechanism:
        settings["sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        settings |= _choose_token_settings(options)
    if _is_on(options, "insecure-skip-verify"):
        settings["enable.ssl.certificate.verification"] = False
    return settings | own


def _choose_token_settings(options: Mapping[str, str]) -> Settings:
    """Let the client ask for tokens as TiCDC does."""
    settings = {"sasl.oauthbearer.method": "oidc"}
    if scopes := options.get("sasl-oauth-scopes"):
        settings["sasl.oauthbearer.scope"] = scopes.replace(",", " ")
    if encoded := options.get("sasl-oauth-client-secret"):
        try:
            secret = base64.b64decode(encoded, validate=True).decode()
        except ValueError:
            reason = "must be Base64, as TiCDC takes it"
            raise ConfigError(reason, setting="sasl-oauth-client-secret") from None
        remember_secret(secret)
        settings["sasl.oauthbearer.client.secret"] = secret
    return settings


def _read_own_settings(feed: Changefeed) -> Settings:
    """Return the settings of `[changefeed.kafka]`, with those that are somewhere else."""
    settings: Settings = dict(feed.client_settings.values)
    for name, reference in feed.client_settings.references.items():
        place = f"changefeed {feed.id}.kafka: {name}"
        settings[name] = read_reference(reference, setting=place)
    return settings


def _read_mechanism(options: Mapping[str, str]) -> str:
    # Without a mechanism TiCDC uses no SASL, whatever else is set.
    mechanism = options.get("sasl-mechanism", "").upper()
    if mechanism == "GSSAPI":
        reason = "GSSAPI is not in the Kafka client of this Python environment: use another"
        raise ConfigError(f"{reason} mechanism for reading", setting="sink-uri: sasl-mechanism")
    if mechanism and mechanism not in _MECHANISMS:
        reason = f"must be {', '.join(_MECHANISMS[:-1])} or {_MECHANISMS[-1]}"
        raise ConfigError(reason, setting="sink-uri: sasl-mechanism")
    return mechanism


def _is_encrypted(feed: Changefeed) -> bool:
    options = feed.options
    encrypted = _is_on(options, "enable-tls") or feed.scheme == "kafka+ssl"
    return encrypted or any(options.get(name) for name in _FILES)


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name) in _TRUE


# Failures that no waiting mends.
FATAL = (KafkaError._AUTHENTICATION, KafkaError._SSL)
# What the client says of a request that no broker answered.
UNANSWERED = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)


def explain_failure(
    feed: Changefeed, errors: Iterable[KafkaError], answered: str | None = None
) -> ConfigError:
    """Say why the brokers cannot be reached, from what the client met while it tried.

    `answered`: the brokers of the sink URI did answer, and what failed after that.
    """
    met = {error.code(): error for error in reversed(list(errors))}
    if denied := met.get(KafkaError._AUTHENTICATION):
        reason = _get_reason(denied)
        if reason.startswith(_NO_TOKEN):
            answer = escape_control(redact(reason.removeprefix(_NO_TOKEN)))[:_MAX_ANSWER]
            return ConfigError(f"gives no token: {answer}", setting="sasl-oauth-token-url")
        reason = f"the brokers deny its user, password or mechanism: {reason}"
        return ConfigError(reason, setting="sink-uri: sasl-user")
    if failed := met.get(KafkaError._SSL):
        reason = _get_reason(failed)
        if "certificate verify failed" in reason:
            reason = "the certificate of the brokers is not signed by an authority that is trusted"
            reason += ": name the file of its certificate as ca"
            return ConfigError(reason, setting="sink-uri: ca")
        return ConfigError(f"{reason}{_IS_PLAIN}", setting="sink-uri: enable-tls")
    last = met.get(KafkaError._RESOLVE) or met.get(KafkaError._TRANSPORT)
    if answered is not None:
        reason = f"the brokers at {feed.location} answer, but {answered}"
        return ConfigError(f"{reason}: {_get_reason(last)}" if last else reason, setting="sink-uri")
    if last and _is_encrypted(feed) and _CLOSED in _get_reason(last):
        reason = f"the broker at {feed.location} closes connections with TLS{_IS_PLAIN}"
        return ConfigError(reason, setting="sink-uri: enable-tls")
    detail = _get_reason(last) if last else "does it expect TLS (enable-tls) or sasl-mechanism?"
    reason = f"no broker answers at {feed.location}: {detail}"
    return ConfigError(reason, setting="sink-uri")


def explain_topic_error(topic: str, error: KafkaError) -> ConfigError:
    """Say why a topic cannot be read."""
    match error.code():
        case KafkaError.UNKNOWN_TOPIC_OR_PART | KafkaError._UNKNOWN_TOPIC:
            reason = "there is no such topic on the brokers"
        case KafkaError.TOPIC_AUTHORIZATION_FAILED:
            reason = (
                "the brokers do not let this user read it, or there is no such topic:"
                " grant READ and DESCRIBE"
            )
        case _:
            reason = f"cannot be read: {error.str()}"
    return ConfigError(reason, setting=f"topic {topic}")


def _get_reason(error: KafkaError) -> str:
    return _STATE.sub("", _ADDRESS.sub("", error.str()))
