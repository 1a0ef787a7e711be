"""What is called fitted is what the script that fits the small world aims at."""

import importlib.util

from hs2lib.corpus import calibration
from hs2lib.group import ATTRIBUTES
from hs2lib.paths import root


def test_the_correlations_called_fitted_are_those_of_the_fit():
    spec = importlib.util.spec_from_file_location(
        "calibrate_corpus", root() / "tools" / "calibrate_corpus.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    aims = set(module.targets({}))
    assert {"mean", "SD", "R", "R others", "R turns", "R prompt", "histogram", "gap 0"} <= aims
    assert (*ATTRIBUTES[1:], "turns in prompt", "characters in prompt") == calibration.FITTED_R
    assert not aims & {"R response", "length"}
