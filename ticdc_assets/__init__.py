"""TiCDC changefeeds as Delta tables; `open_lake` reads them by name.

Importing this package imports nothing else: `open_lake` is loaded when it is used.
"""

from typing import TYPE_CHECKING

__all__ = ["open_lake"]

if TYPE_CHECKING:
    from ticdc_assets.reading import open_lake as open_lake
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ticdc_assets import reading

        return getattr(reading, name)
