"""Topics as brokers describe them."""

from collections.abc import Mapping

from ticdc_assets.stream.topic_ranges import PartitionEnds, TopicEnds


def topic(partitions: Mapping[int, tuple[int, int]], id: str = "a") -> dict[str, TopicEnds]:
    """Describe the topic `t`: the first and the end offset of each partition."""
    return {"t": TopicEnds(id, {n: PartitionEnds(*ends) for n, ends in partitions.items()})}
