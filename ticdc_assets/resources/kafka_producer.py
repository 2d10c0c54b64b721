"""Produce records to topics: what `simulate` and the tests send."""

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Record
from confluent_kafka import Producer as Client
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.message import Message

# Seconds until brokers that do not answer are an error.
_PATIENCE = 30.0


class Producer:
    """Sends records to their partitions, in their order, and waits for the brokers' answers."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._failures: list[KafkaError] = []
        # Idempotence keeps their order when a request is repeated.
        settings = {"bootstrap.servers": brokers, "linger.ms": 5, "log_level": 0}
        self._client = Client({**settings, "enable.idempotence": True})

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, unless it exists; raise a `ConfigError` if it has had records."""
        admin = AdminClient({"bootstrap.servers": self._brokers, "log_level": 0})
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_PATIENCE)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._explain(error.args[0]) from None
            self._require_empty(admin, topic)

    def _require_empty(self, admin: AdminClient, topic: str) -> None:
        try:
            known = admin.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            newest = {TopicPartition(topic, number): latest for number in known}
            ends = [each.result(_PATIENCE).offset for each in admin.list_offsets(newest).values()]
        except KafkaException as error:
            raise self._explain(error.args[0]) from None
        if any(ends):
            reason = (
                f"topic {topic} has records of another run there, and no database begins anew in"
                " the middle of a changefeed: delete the topic, and the lake that has read it"
            )
            raise ConfigError(reason, setting="--brokers")

    def send(self, records: Iterable[Message]) -> None:
        """Send records; raise a `ConfigError` unless all of them arrive."""
        for record in records:
            while True:
                try:
                    self._produce(record)
                    break
                except BufferError:
                    self._client.poll(0.1)
        if self._client.flush(_PATIENCE):
            raise ConfigError(f"no broker answers at {self._brokers}", setting="--brokers")
        if self._failures:
            raise self._explain(self._failures[0])

    def _produce(self, record: Message) -> None:
        self._client.produce(
            record.topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp_ms or 0,
            headers=list(record.headers),
            on_delivery=self._note_failure,
        )

    def _note_failure(self, error: KafkaError | None, _: Record) -> None:
        if error is not None:
            self._failures.append(error)

    def _explain(self, error: KafkaError) -> ConfigError:
        return ConfigError(f"{self._brokers}: {error.str()}", setting="--brokers")
