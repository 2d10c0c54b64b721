"""What can be wrong with a row event, as SQL conditions on its facts."""

from typing import Literal

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.protocols.registry import get_traits

Fault = Literal["faulty_insert", "faulty_update", "faulty_delete", "faulty_key", "is_corrupted"]


def list_faults(feed: Changefeed) -> dict[Fault, str]:
    """Return the condition of every fault that a row can have, by the changefeed's settings."""
    update = "NOT has_new"
    if get_traits(feed).has_old_values(feed):
        update += " OR NOT has_old"
        if not feed.only_output_updated_columns:
            update += " OR column_counts_differ"
    return {
        "faulty_insert": "op = 'insert' AND (has_old OR NOT has_new)",
        "faulty_update": f"op = 'update' AND ({update})",
        "faulty_delete": "op = 'delete' AND (has_new OR NOT has_old)",
        "faulty_key": "missing_key_columns IS NOT NULL",
        "is_corrupted": "is_corrupted",
    }
