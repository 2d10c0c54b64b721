"""A translation equals what Dagster's own resolver of translations makes of the same attributes."""

from typing import Any

import dagster as dg
import pytest
from dagster.components.utils.translation import TranslationFnResolver

from ticdc_assets.naming import Named
from ticdc_assets.translation import resolve_translation

CASES = {
    "nothing": {},
    "prefix": {"key_prefix": ["a", "{{ database or 'none' }}"]},
    "group": {"group_name": "{{ layer }}_{{ database }}", "owners": ["team:{{ changefeed }}"]},
    "tags": {"tags": {"layer": "{{ layer }}", "n": 1}, "metadata": {"of": "{{ database }}"}},
    "kinds": {"kinds": ["tidb"], "description": "rows of {{ database }}"},
    "deps": {"deps": ["other/{{ database }}"], "code_version": "2", "skippable": True},
    "condition": {"automation_condition": "{{ eager }}"},
    # These vary by table.
    "key": {"key": "{{ layer }}/{{ database }}/{{ table }}", "key_prefix": "p"},
    "table": {"tags": {"table": "{{ table }}"}},
    "spec": {"description": "{{ spec.description }} ({{ spec.group_name }})"},
    "function": "{{ choose(table) }}",
}
SPEC = {
    "deps": ["upstream"],
    "description": "as it is",
    "group_name": "g",
    "kinds": {"spark"},
    "tags": {"own": "1"},
    "metadata": {"uri": "s3://x"},
    "owners": ["team:data"],
}


@pytest.mark.parametrize("case", CASES)
def test_a_translation_is_what_dagster_makes_of_it(case: str) -> None:
    stated: Any = CASES[case]
    model = stated if isinstance(stated, str) else dg.AssetAttributesModel(**stated)
    scope = {
        "eager": dg.AutomationCondition.eager(),
        "choose": lambda table: dg.AssetAttributesModel(group_name=f"of_{table}"),
    }
    context = dg.ResolutionContext.default().with_scope(**scope)
    resolver = TranslationFnResolver[Named](
        lambda named: {
            "changefeed": named.changefeed,
            "layer": named.layer,
            "database": named.database,
            "table": named.table,
        }
    )
    theirs = resolver.fn.callable(context, model)
    ours = resolve_translation(context, model)

    for named in (
        Named("f", "current", "d", "t"),
        Named("f", "current", "d", "u"),
        Named("f", "current", "e", "t"),
        Named("g", "raw"),
    ):
        parts = [part for part in (named.database, named.table) if part]
        spec = dg.AssetSpec([named.changefeed, named.layer, *parts], **SPEC)
        assert ours(spec, named) == theirs(spec, named)
