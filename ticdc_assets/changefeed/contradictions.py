"""Settings that TiCDC does not allow together, or that hide data from a consumer."""

from typing import TYPE_CHECKING

from ticdc_assets.changefeed.settings import Settings

if TYPE_CHECKING:
    from ticdc_assets.changefeed.declaration import Changefeed

LARGE = "sink.kafka-config.large-message-handle"
DELETE_ONLY = "sink.delete-only-output-handle-key-columns"


def check_contradictions(feed: "Changefeed", settings: Settings) -> None:
    """Raise for settings that TiCDC does not allow together, or that hide data from a consumer."""
    if feed.delete_only_output_handle_key_columns:
        if feed.protocol == "csv":
            reason = "cannot be combined with csv, whose deletes have all columns: remove it"
            raise settings.error(reason, DELETE_ONLY)
        if feed.force_replicate:
            reason = "cannot be combined with force-replicate: set only one of them"
            raise settings.error(reason, DELETE_ONLY)
    if (
        feed.transport != "storage"
        and feed.renames_tables
        and any(d.topic for d in feed.dispatchers)
    ):
        # The names upstream choose a table's topic, and the stream has only the others.
        reason = "cannot be read with target-schema or target-table: remove it, or those"
        raise settings.error(reason, "sink.dispatchers.topic")
    is_json_file = (feed.protocol, feed.transport) == ("canal-json", "storage")
    # JSON text has no control characters, and may have any other.
    if is_json_file and all(sign >= " " for sign in feed.terminator):
        reason = "may be part of a record: set one with a line break, in the changefeed as well"
        raise settings.error(reason, "sink.terminator")
    option, name = feed.large_message_handle_option, f"{LARGE}.large-message-handle-option"
    if option == "none":
        return
    if feed.protocol == "csv":
        raise settings.error("works on Kafka only, not with csv: remove it", name)
    if feed.protocol == "canal-json" and not feed.enable_tidb_extension:
        raise settings.error("needs enable-tidb-extension = true with canal-json", name)
    if option == "claim-check":
        if feed.claim_check_raw_value and feed.protocol == "open-protocol":
            reason = "cannot be combined with open-protocol: remove it"
            raise settings.error(reason, f"{LARGE}.claim-check-raw-value")
        if feed.claim_check_storage is None:
            reason = "is missing: set it, or claim-check-storage of the changefeed"
            raise settings.error(reason, f"{LARGE}.claim-check-storage-uri")
