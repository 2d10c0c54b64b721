"""A real Kafka broker on loopback: one node in KRaft mode, with plain, TLS and SASL listeners.

It is that of `ticdc_assets.resources.kafka_broker` with more listeners and with access rights.  It
starts with users `reader`, who may read topics named `granted*`, and `stranger`, who may do
nothing, by a password or by a token of its `authority`; whoever comes by the plain or the TLS
listener may do everything.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.certificates import make_certificates
from tests.servers import HOST, free_port, run_server, wait_for_port
from tests.token_server import TokenAuthority
from ticdc_assets.protocols.message import Message
from ticdc_assets.resources.kafka_broker import choose_settings, prepare_broker
from ticdc_assets.resources.kafka_producer import Producer

PASSWORD = "correct-horse-7"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@dataclass(frozen=True)
class Broker:
    """Addresses of a running broker, and clients that may do everything."""

    plain: str
    tls: str
    sasl: str
    ca: Path
    folder: Path
    command: list[str]
    authority: TokenAuthority
    _running: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.plain, "log_level": 0})

    def create(
        self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        made = self.admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])
        made[topic].result(20)
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(20)
        # Producers learn of them a moment later.
        while len(self.admin.list_topics(topic, timeout=10).topics[topic].partitions) < partitions:
            time.sleep(0.1)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(20)

    def wait_until_gone(self, topic: str) -> None:
        while topic in self.admin.list_topics(timeout=10).topics:
            time.sleep(0.1)

    def remove_records(self, topic: str, partition: int, before: int) -> None:
        """Remove the records below an offset, as retention does."""
        place = TopicPartition(topic, partition, before)
        self.admin.delete_records([place])[place].result(20)

    def send(self, records: Iterable[Message]) -> None:
        """Produce records, each to its own partition, in their order."""
        Producer(self.plain).send(records)

    def start(self) -> None:
        server = self._running.enter_context(run_server(self.command, self.folder, "broker"))
        for address in (self.plain, self.tls, self.sasl):
            wait_for_port(server, int(address.rpartition(":")[2]), self.folder / "broker.log")

    def stop(self) -> None:
        self._running.close()


@contextmanager
def kafka_broker(folder: Path) -> Iterator[Broker]:
    """Run a broker that keeps its data below a folder."""
    # Several calls may give the same port.
    ports: set[int] = set()
    while len(ports) < 4:
        ports.add(free_port())
    plain, tls, sasl, controller = (f"{HOST}:{port}" for port in ports)
    make_certificates(folder, "broker")
    authority = TokenAuthority()
    keys = folder / "keys.json"
    authority.write_keys(keys)
    settings = _choose_settings(folder, plain, tls, sasl, controller)
    users = [
        word
        for user in ("reader", "stranger")
        for bits in (256, 512)
        for word in ("--add-scram", f"SCRAM-SHA-{bits}=[name={user},password={PASSWORD}]")
    ]
    java, *arguments = prepare_broker(folder, settings, users)
    # Kafka reads keys of tokens only from places that its process was started with.
    trusted = [
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={keys.as_uri()}"
        for kind in ("urls", "files")
    ]
    command = [java, *trusted, *arguments]
    broker = Broker(plain, tls, sasl, folder / "ca.pem", folder, command, authority)
    try:
        broker.start()
        _grant(broker)
        yield broker
    finally:
        broker.stop()


# Parameters: one address for each listener.
def _choose_settings(
    folder: Path, plain: str, tls: str, sasl: str, controller: str
) -> dict[str, str]:
    return {
        **choose_settings(folder, plain, controller),
        "listeners": (
            f"PLAINTEXT://{plain},SSL://{tls},SASL_SSL://{sasl},CONTROLLER://{controller}"
        ),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
        ),
        "group.coordinator.rebalance.protocols": "classic,consumer",
        # The records of tests may be of any time.
        "log.retention.ms": "-1",
        "log.retention.check.interval.ms": "500",
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        "log.segment.delete.delay.ms": "200",
        "log.initial.task.delay.ms": "500",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "requested",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        **{
            f"listener.name.sasl_ssl.oauthbearer.sasl.{name}": value
            for name, value in {
                "jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
                "server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
                "oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
            }.items()
        },
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            f' user_reader="{PASSWORD}" user_stranger="{PASSWORD}";'
        ),
        **{
            f"listener.name.sasl_ssl.scram-sha-{bits}.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            )
            for bits in (256, 512)
        },
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def _grant(broker: Broker) -> None:
    granted = ResourceType.TOPIC, "granted", ResourcePatternType.PREFIXED, "User:reader", "*"
    acls = [
        AclBinding(*granted, operation, AclPermissionType.ALLOW)
        for operation in (AclOperation.READ, AclOperation.DESCRIBE)
    ]
    for result in broker.admin.create_acls(acls).values():
        result.result(20)
