"""`python -m tests.fuzz [FIRST [HOURS]]`, or `python -m tests.fuzz TARGET NUMBER`."""

import sys

from tests.fuzz.campaign import main

sys.exit(main(sys.argv[1:]))
