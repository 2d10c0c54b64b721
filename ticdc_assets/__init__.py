"""TiCDC changefeeds as Delta tables; `open_lake` reads them by name, `TicdcLake` shows them.

Importing this package imports nothing else: both are loaded when they are used.
"""

from typing import TYPE_CHECKING

# The component needs Dagster, which whoever only reads may not have.
__all__ = ["open_lake"]

if TYPE_CHECKING:
    from ticdc_assets.component import TicdcLake as TicdcLake
    from ticdc_assets.reading import open_lake as open_lake
else:

    def __getattr__(name: str) -> object:
        if name == "open_lake":
            from ticdc_assets import reading

            return reading.open_lake
        if name == "TicdcLake":
            from ticdc_assets import component

            return component.TicdcLake
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        # Dagster finds components by this; it must not find one that cannot be imported.
        from importlib.util import find_spec

        component = ["TicdcLake"] if find_spec("dagster_pyspark") else []
        return [*globals(), *__all__, *component]
