"""The attribute `translation` of the component: templates over what an asset stands for.

Dagster compiles every template anew for every asset, milliseconds each, and every run loads all
definitions.  So templates that name neither `table` nor `spec` are resolved once per changefeed,
layer and database.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import dagster as dg
from dagster.components.utils import TranslatorResolvingInfo

from ticdc_assets.naming import Named, Translate

_VARIES = re.compile(r"\b(table|spec)\b")
_KIND = "dagster/kind/"
# What is merged with what the asset has; other attributes replace it.
_MERGED = {"tags", "metadata"}


def resolve_translation(context: dg.ResolutionContext, stated: Any) -> Translate:
    """Return the translation that a project states."""
    info = TranslatorResolvingInfo(stated, context, "translation")

    def translate(spec: dg.AssetSpec, named: Named) -> dg.AssetSpec:
        variables = {
            "changefeed": named.changefeed,
            "layer": named.layer,
            "database": named.database,
            "table": named.table,
            "spec": spec,
        }
        return info.get_asset_spec(spec, variables)

    # A text in place of attributes calls a function of the project.
    if isinstance(stated, str) or _VARIES.search(stated.model_dump_json(exclude_unset=True)):
        return translate
    return _resolve_once(translate, set(stated.model_dump(exclude_unset=True)))


def _resolve_once(
    translate: Callable[[dg.AssetSpec, Named], dg.AssetSpec], stated: set[str]
) -> Translate:
    @cache
    def resolve(named: Named) -> dg.AssetSpec:
        return translate(dg.AssetSpec("asset"), named)

    def translate_once(spec: dg.AssetSpec, named: Named) -> dg.AssetSpec:
        found = resolve(Named(named.changefeed, named.layer, named.database))
        replaced = {name: getattr(found, name) for name in stated - _MERGED - {"key", "key_prefix"}}
        if "key" in stated:
            replaced["key"] = found.key
        elif "key_prefix" in stated:
            replaced["key"] = dg.AssetKey([*found.key.path[:-1], *spec.key.path])
        tags = {name: value for name, value in found.tags.items() if not name.startswith(_KIND)}
        return spec.replace_attributes(**replaced).merge_attributes(
            tags=tags, metadata=found.metadata
        )

    return translate_once
