"""What `test_widgets` runs in a kernel: every callback of the widgets of notebooks 05 and 06."""

import numpy as np
from moves import moved, sets

from hs2lib.corpus import generate
from hs2lib.data.pairs import Benchmark, preferred_pairs
from hs2lib.evaluate import own_answer, rewardbench, try_weights
from hs2lib.models.reward_model import RewardModel
from hs2lib.report import show

model = RewardModel.new("tiny", seed=0).eval()
groups = own_answer.of_each_family(list(generate.groups(20, 0, split="validation")))
prompt, text, buttons, view = own_answer.box(groups, model, draw=show.answers_html).children
faultless, *changes = buttons.children
for button in changes:
    faultless.click()
    moved(view, button.click, button.description)
moved(view, sets(text, "Another answer."), "the text")
moved(view, faultless.click, "the faultless answer")
moved(view, sets(prompt, 1), "the prompt")

pairs = Benchmark(preferred_pairs(generate.benchmark(4, 0), "x").pairs, "generated", "x")
scored = rewardbench.score(pairs, model)
*sliders, view = try_weights.sliders(scored, None, model.attributes, np.ones(5)).children
for slider in sliders:
    moved(view, sets(slider, -1.0), slider.description)
print("all callbacks answered")
