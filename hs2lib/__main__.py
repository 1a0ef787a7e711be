"""`python -m hs2lib`: the command `hs2`, for torchrun, which starts modules."""

import sys

from hs2lib.commands.hs2 import main

sys.exit(main())
