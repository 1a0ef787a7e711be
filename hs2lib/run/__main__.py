"""`python -m hs2lib.run`: the command of `hs2lib.launch.runner`, under the name that users type."""

import signal
import sys

try:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from hs2lib.launch.runner import main

    sys.exit(main())
except KeyboardInterrupt:
    print(
        "\nstopped; what is done stays done, and the same command goes on from there",
        file=sys.stderr,
    )
    sys.exit(130)
