"""`python -m ticdc_assets.cli` is `ticdc-assets`."""

import sys

from ticdc_assets.cli import main

if __name__ == "__main__":
    sys.exit(main())
