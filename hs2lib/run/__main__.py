"""`python -m hs2lib.run`: see `hs2lib.run.runner`."""

import sys

from hs2lib.run.runner import main

sys.exit(main())
