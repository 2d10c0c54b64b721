"""Reaching a real broker: TLS, passwords and tokens, and one clear message for what fails."""

import base64
import re
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.kafka_broker import PASSWORD, Broker
from tests.resources.test_kafka import made
from tests.servers import HOST, free_port
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri, load_changefeeds
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources import kafka
from ticdc_assets.resources.kafka import read_topics, require_topics
from ticdc_assets.safe_text import redact
from ticdc_assets.stream.offsets import ReadOffsets


def sasl(broker: Broker, **changed: str) -> str:
    settings = {
        "sasl-mechanism": "SCRAM-SHA-512",
        "sasl-user": "reader",
        "sasl-password": PASSWORD,
        "ca": str(broker.ca),
    }
    settings |= {name.replace("_", "-"): value for name, value in changed.items()}
    return "&".join(f"{name}={value}" for name, value in settings.items())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_tls_and_a_password(broker: Broker, mechanism: str) -> None:
    topic = f"granted-{mechanism.lower()}"
    broker.create(topic)
    broker.send(made(topic, 3))
    uri = f"kafka://{broker.sasl}/{topic}?protocol=simple&{sasl(broker, sasl_mechanism=mechanism)}"
    assert len(list(read_topics(changefeed_from_uri(uri), ReadOffsets()))) == 3


def test_a_token_of_an_authority(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create("granted-token")
    broker.send(made(topic, 3))
    secret = "a-secret-5"
    path = tmp_path / "changefeeds.toml"
    uri = f"kafka://{broker.sasl}/{topic}?protocol=simple"
    path.write_text(f'[[changefeed]]\nid = "token"\nsink-uri = "{uri}"\nconfig = "cdc.toml"\n')

    def load(secret: str) -> Changefeed:
        (tmp_path / "cdc.toml").write_text(
            f"""
            [sink.kafka-config]
            sasl-mechanism = "OAUTHBEARER"
            ca = "{broker.ca}"
            sasl-oauth-client-id = "lake"
            sasl-oauth-client-secret = "{secret}"
            sasl-oauth-token-url = "{url}"
            sasl-oauth-scopes = ["read", "describe"]
            """
        )
        return load_changefeeds(path)["token"]

    with broker.authority.serve("lake", secret, "reader") as url:
        # TiCDC takes the secret in Base64.
        feed = load(base64.b64encode(secret.encode()).decode())
        assert len(list(read_topics(feed, ReadOffsets()))) == 3
        assert set(broker.authority.scopes) == {"read describe"}
        with pytest.raises(ConfigError, match="sasl-oauth-client-secret: must be Base64"):
            require_topics(load(secret))
        wrong = load(base64.b64encode(b"another").decode())
        with pytest.raises(ConfigError, match=r"token-url: gives no token: .*invalid_client"):
            require_topics(wrong)
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"token-url: gives no token: .*connect"):
        require_topics(wrong)
    assert time.monotonic() - started < 15


def test_own_settings_of_the_client_and_secrets_that_are_somewhere_else(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.create("granted-own")
    broker.send(made(topic, 3))
    (tmp_path / "password").write_text(PASSWORD + "\n")
    path = tmp_path / "changefeeds.toml"
    path.write_text(
        f"""
        [[changefeed]]
        id = "own"
        # The file of the sink URI is on TiCDC's machine.
        sink-uri = "kafka://{broker.sasl}/{topic}?protocol=simple&ca=/on/ticdc/ca.pem"
        [changefeed.kafka]
        "ssl.ca.location" = "{broker.ca}"
        "security.protocol" = "sasl_ssl"
        "sasl.mechanism" = "PLAIN"
        "sasl.username" = {{ env = "READER" }}
        "sasl.password" = {{ file = "password" }}
        "socket.keepalive.enable" = true
        """
    )
    feed = load_changefeeds(path)["own"]
    with pytest.raises(ConfigError, match="no environment variable READER"):
        require_topics(feed)
    monkeypatch.setenv("READER", "reader")
    assert len(list(read_topics(feed, ReadOffsets()))) == 3
    assert PASSWORD not in repr(feed)
    assert PASSWORD not in redact(f"the password is {PASSWORD}")
    path.write_text(path.read_text().replace("socket.keepalive.enable", "no.such.setting"))
    with pytest.raises(ConfigError, match=r"does not accept its setting no\.such\.setting"):
        require_topics(load_changefeeds(path)["own"])


def test_tls_alone_and_verification_switched_off(broker: Broker) -> None:
    topic = broker.create("tls")
    broker.send(made(topic, 3))
    for scheme, rest in (
        ("kafka", f"ca={broker.ca}"),
        ("kafka+ssl", f"ca={broker.ca}"),
        ("kafka", "enable-tls=true&insecure-skip-verify=true"),
        ("kafka", f"ca={broker.ca}&kafka-client-id=somebody"),
    ):
        # The first broker of the list is down.
        uri = f"{scheme}://{HOST}:{free_port()},{broker.tls}/{topic}?protocol=simple&{rest}"
        assert len(list(read_topics(changefeed_from_uri(uri), ReadOffsets()))) == 3


@contextmanager
def silent_server() -> Iterator[str]:
    with socket.socket() as server:
        server.bind((HOST, 0))
        server.listen()
        yield f"{HOST}:{server.getsockname()[1]}"


@contextmanager
def closing_server() -> Iterator[str]:
    """A server that closes each connection once it has what its client sends first."""

    class Closing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)

    with socketserver.ThreadingTCPServer((HOST, 0), Closing) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"{HOST}:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.slow
def test_what_fails_is_said_in_one_message_within_15_seconds(broker: Broker) -> None:
    broker.create("granted")
    broker.create("secret")
    other = broker.folder / "other-ca.pem"
    wrong = "not-the-password-9"
    with silent_server() as silent, closing_server() as closing:
        cases = {
            f"{broker.sasl}/granted?{sasl(broker, sasl_password=wrong)}": "deny its user",
            f"{broker.sasl}/granted?{sasl(broker, sasl_mechanism='PLAIN', sasl_password=wrong)}": (
                "deny its user"
            ),
            f"{broker.sasl}/granted?{sasl(broker, ca=str(other))}": "is not signed by an authority",
            f"{broker.tls}/granted?enable-tls=true": "is not signed by an authority",
            f"{HOST}:{free_port()}/granted?": "no broker answers at .* Connect to .* failed",
            f"{silent}/granted?": "no broker answers",
            f"{closing}/granted?enable-tls=true": "enable-tls: .* PLAINTEXT listener",
            "nowhere.invalid:9092/granted?": "Failed to resolve",
            f"{broker.plain}/absent?": "topic absent: there is no such topic",
            f"{broker.sasl}/secret?{sasl(broker)}": "topic secret: .* grant READ and DESCRIBE",
            f"{broker.sasl}/granted?{sasl(broker, sasl_user='stranger')}": "grant READ",
            f"{broker.tls}/granted?": "does it expect TLS",
            f"{broker.plain}/granted?enable-tls=true": "enable-tls: .* PLAINTEXT listener",
            f"{broker.sasl}/granted?{sasl(broker, ca='/nowhere/ca.pem')}": "ca cannot be read",
            f"{broker.sasl}/granted?{sasl(broker, sasl_mechanism='GSSAPI')}": "GSSAPI is not in",
        }

        results: dict[str, tuple[float, str]] = {}

        def attempt(uri: str) -> None:
            started = time.monotonic()
            try:
                require_topics(changefeed_from_uri(f"kafka://{uri}&protocol=simple"))
            except ConfigError as error:
                results[uri] = time.monotonic() - started, str(error)

        # They mostly wait.
        threads = [threading.Thread(target=attempt, args=(uri,)) for uri in cases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    for uri, message in cases.items():
        seconds, text = results[uri]
        assert seconds < 15, uri
        assert "\n" not in text
        assert wrong not in text
        assert PASSWORD not in text
        assert re.search(message, text), text


class UnreachableClient:
    """A client whose bootstrap broker answers, and names the brokers by another address."""

    def __init__(self, failure: Exception | None) -> None:
        self._failure = failure

    def list_topics(self, timeout: float) -> SimpleNamespace:
        broker = SimpleNamespace(host="kafka-0.internal", port=9092)
        return SimpleNamespace(topics={"t": None}, brokers={0: broker})

    def describe_topics(self, topics: object, request_timeout: float) -> dict[str, Future[None]]:
        answer = Future[None]()
        if self._failure is not None:
            answer.set_exception(self._failure)
        return {"t": answer}

    def poll(self, timeout: float) -> None:
        pass


@pytest.mark.parametrize(
    "failure",
    [
        # librdkafka has not noticed yet that its own time is over.
        None,
        KafkaException(KafkaError(KafkaError._TIMED_OUT)),
        KafkaException(KafkaError(KafkaError._TRANSPORT)),
    ],
)
def test_brokers_that_name_themselves_by_an_address_that_does_not_answer_are_named(
    failure: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "PATIENCE", 0.1)
    monkeypatch.setattr(kafka, "_GRACE", 0.1)
    monkeypatch.setattr(kafka, "make_client", lambda *_: UnreachableClient(failure))
    with pytest.raises(ConfigError) as raised:
        require_topics(changefeed_from_uri("kafka://localhost:9092/t?protocol=simple"))
    assert str(raised.value) == (
        "sink-uri: the brokers at localhost:9092 answer, but not at the addresses by which they"
        " name themselves: kafka-0.internal:9092 (advertised.listeners)"
    )
