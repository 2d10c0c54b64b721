"""What a changefeed's settings keep out of its stream, although nothing in the stream shows it.

Every setting that `known_settings` says to leave data out has its sentence here.
"""

from typing import NamedTuple

from ticdc_assets.changefeed.toml import ChangefeedToml


class Omission(NamedTuple):
    """A setting, and what it keeps out of the stream."""

    setting: str
    what: str

    def describe(self) -> str:
        """Describe it in a sentence."""
        return f"with {self.setting}, {self.what}"


_WITH = (
    (
        "filter.event-filters",
        "TiCDC leaves out the row changes and DDLs that a filter matches: their tables differ from"
        " TiDB's",
    ),
    (
        "filter.ignore-txn-start-ts",
        "TiCDC leaves out whole transactions: their tables differ from TiDB's",
    ),
    (
        "sink.column-selectors",
        "TiCDC leaves columns out: they are NULL or missing in the tables",
    ),
    (
        "bdr-mode",
        "TiCDC leaves out what other changefeeds write into this TiDB: the tables lack it",
    ),
    (
        "enable-active-active",
        "TiCDC leaves out hard deletes: their rows remain in the tables",
    ),
)

_WITHOUT_DELETES = (
    "filter.event-filters",
    "filter.ignore-txn-start-ts",
    "bdr-mode",
    "enable-active-active",
)


def may_lack_deletes(toml: ChangefeedToml) -> bool:
    """Return whether a key may be inserted again although the stream has not deleted it."""
    return any(toml.is_set(name) for name in _WITHOUT_DELETES)


def may_lack_columns(toml: ChangefeedToml) -> bool:
    """Return whether rows may lack columns that their tables have."""
    return toml.is_set("sink.column-selectors")


def list_omissions(toml: ChangefeedToml) -> tuple[Omission, ...]:
    """List what the settings leave out."""
    omissions = [Omission(name, what) for name, what in _WITH if toml.is_set(name)]
    if toml.texts("filter.rules") not in ((), ("*.*",)):
        what = (
            "TiCDC sends only the tables that a rule matches: the lake has no others, and a table"
            " that is renamed to any other name stays as it was"
        )
        omissions.append(Omission("filter.rules", what))
    if toml.flag("ignore-ineligible-table") and not toml.flag("force-replicate"):
        what = (
            "TiCDC sends no table without a primary key or a unique key over NOT NULL columns: the"
            " lake has none of them"
        )
        omissions.append(Omission("ignore-ineligible-table", what))
    days = toml.integer("sink.cloud-storage-config.file-expiration-days") or 0
    if days > 0 and (toml.text("sink.date-separator") or "day").lower() == "day":
        what = (
            f"TiCDC deletes its files after {days} days: what no run has ingested by then is lost"
        )
        omissions.append(Omission("file-expiration-days", what))
    return tuple(omissions)
