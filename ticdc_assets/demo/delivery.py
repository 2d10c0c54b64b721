"""How a changefeed delivers its changes: from where on, in which order, and how often."""

from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True, slots=True)
class Delivery:
    """The settings of a writer's delivery, at least once."""

    # Changes up to this ts are from before the changefeed.
    start_ts: int
    random: Random = field(default_factory=lambda: Random(0))
    # The chance that the output before a checkpoint is repeated after it.
    replays: float = 0.0
    # The chance that a record of a topic is sent twice.
    duplicates: float = 0.0
    # The chance that rows are sent before earlier DDLs of other tables.
    ahead: float = 0.0

    def happens(self, chance: float) -> bool:
        """Draw whether something of this chance happens; a chance of 0 draws nothing."""
        return bool(chance) and self.random.random() < chance
