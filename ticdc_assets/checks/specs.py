"""The specs of a changefeed's checks: names, promises, and the assets that show them."""

from collections.abc import Mapping

import dagster as dg

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.checks import results
from ticdc_assets.checks.invariants import INVARIANTS, TABLE_INVARIANTS, Invariant
from ticdc_assets.naming import layer_asset_key

# The asset that shows the contract check of each table of the lake.
_LAYER_OF_TABLE = {
    "raw": "raw",
    "events": "events",
    "quarantine": "quarantine",
    "schema_history": "checkpoints",
    "tables": "checkpoints",
    "applied": "checkpoints",
}
_CONTRACT_PROMISE = (
    "The lake's table `{}` has the columns and types of its contract, and every value lies in its"
    " column's domain."
)
EQUALS_UPSTREAM = "equals_upstream"
_EQUALITY = (
    "The table equals the one upstream, row by row, at the ts of the newest verification: the job"
    " `verify` compares the two."
)
PROOF_IS_RECENT = "proof_is_recent"
_PROOF = (
    "A verification of the last {} days, as `prove-every-days` says, found the table equal to TiDB."
)
EQUALS_COPY = "equals_copy"
_EQUALITY_OF_COPY = (
    "The copy that another pipeline fills equals the table, row by row, at the ts of the newest"
    " comparison: the job `examine` compares the two."
)


def check_specs(feed: Changefeed, table_keys: Mapping[str, dg.AssetKey]) -> list[dg.AssetCheckSpec]:
    """Declare the checks of a changefeed.

    `table_keys` maps the names of current tables, as `event_rows.table_name` writes them, to their
    assets.
    """
    specs = [
        _spec(layer_check_key(feed, invariant), invariant.promise, invariant)
        for invariant in INVARIANTS
        if invariant.applies_to(feed)
    ]
    specs += [
        _spec(contract_check_key(feed, table), _CONTRACT_PROMISE.format(table), results.CONTRACT)
        for table in _LAYER_OF_TABLE
    ]
    specs += [
        _spec(dg.AssetCheckKey(asset, invariant.name), invariant.promise, invariant)
        for asset in table_keys.values()
        for invariant in TABLE_INVARIANTS
        if invariant.applies_to(feed)
    ]
    if feed.upstream is not None:
        specs += [
            _spec(dg.AssetCheckKey(asset, EQUALS_UPSTREAM), _EQUALITY, results.EQUALITY)
            for asset in table_keys.values()
        ]
        if (days := feed.upstream.prove_every_days) is not None:
            specs += [
                _spec(
                    dg.AssetCheckKey(asset, PROOF_IS_RECENT), _PROOF.format(days), results.RECENCY
                )
                for asset in table_keys.values()
            ]
    if feed.copy is not None:
        specs += [
            _spec(dg.AssetCheckKey(asset, EQUALS_COPY), _EQUALITY_OF_COPY, results.EQUALITY_OF_COPY)
            for asset in table_keys.values()
        ]
    return specs


def layer_check_key(feed: Changefeed, invariant: Invariant) -> dg.AssetCheckKey:
    """Return the key of the check of a layer."""
    return dg.AssetCheckKey(layer_asset_key(feed, invariant.layer), invariant.name)


def contract_check_key(feed: Changefeed, table: str) -> dg.AssetCheckKey:
    """Return the key of the check that compares a table of the lake with its contract."""
    asset = layer_asset_key(feed, _LAYER_OF_TABLE[table])
    return dg.AssetCheckKey(asset, f"{table}_matches_contract")


def _spec(key: dg.AssetCheckKey, promise: str, weight: results.Weight) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        key.name,
        asset=key.asset_key,
        description=promise,
        blocking=weight.blocking,
        metadata={"ticdc/severity": weight.severity},
    )
