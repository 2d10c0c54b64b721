"""What the settings of a changefeed say of its events: for the model, the plan and the lake."""

from collections.abc import Mapping

from msgspec import Struct

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.archive import Deletes, TableArchive, find_kept_deletes
from ticdc_assets.changefeed.privacy import Privacy
from ticdc_assets.events import TableSchema
from ticdc_assets.protocols.registry import Redecode, get_traits
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.stream.problem import UPSERT_OF_ANY_KEY, UPSERT_WITHOUT_KEY


class StreamRules(Struct, frozen=True, kw_only=True):
    """The settings of a changefeed that decide what its events mean."""

    declared_keys: Mapping[str, tuple[str, ...]] = {}
    # For a protocol that decodes rows by flags which may be stale.
    redecode: Redecode | None = None
    # TiCDC sends an update of a key as a delete and an insert, which is its default.
    updates_split: bool = True
    # An update states the row before it; without, an upsert may be an update.
    has_old_values: bool = True
    # Rows may carry checksums, of just the columns that they have.
    has_checksums: bool = True
    # Rows name the members of ENUM and SET; otherwise they have numbers for them.
    has_member_names: bool = False
    # TiCDC replicates tables without a key.
    force_replicate: bool = False
    # What DDLs take from their sessions and databases.
    context: DdlContext = DdlContext()
    # What becomes of columns before they are stored.
    privacy: Privacy | None = None
    # Which deletes of which tables are kept as rows.
    archives: tuple[TableArchive, ...] = ()

    def make_catalog(self) -> SchemaCatalog:
        """Return an empty catalog that follows these rules."""
        return SchemaCatalog(
            self.declared_keys, force_replicate=self.force_replicate, context=self.context
        )

    @property
    def old_values_may_lack(self) -> bool:
        """Whether an update without its old values may be one that cannot be applied."""
        return not (self.has_old_values and self.updates_split) or self.force_replicate

    def list_kept_deletes(self, schema: TableSchema) -> tuple[Deletes, ...]:
        """Return which deletes of the table that has a schema's name are kept as rows."""
        return find_kept_deletes(self.archives, schema.database, schema.table)

    def explain_upserts(self, schema: TableSchema) -> str | None:
        """Return why a table's upserts cannot be applied, if they cannot.

        An upsert that may be an update without old values can be applied only where the row that it
        overwrites has its key.
        """
        if self.has_old_values:
            return None
        if not schema.key:
            return UPSERT_WITHOUT_KEY
        return None if self.updates_split else UPSERT_OF_ANY_KEY


def make_rules(feed: Changefeed) -> StreamRules:
    """Return the rules of a changefeed."""
    traits = get_traits(feed)
    return StreamRules(
        declared_keys=feed.keys,
        redecode=traits.redecode,
        updates_split=not feed.output_raw_change_event,
        has_old_values=traits.has_old_values(feed),
        has_checksums=traits.has_checksums and not feed.may_lack_columns,
        has_member_names=traits.has_member_names,
        force_replicate=feed.force_replicate,
        context=DdlContext(feed.ddl_time_zone, feed.default_collation),
        privacy=feed.privacy,
        archives=feed.archives,
    )
