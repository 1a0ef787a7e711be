"""What `test_widgets` runs in a kernel: every control of the widgets of notebooks 01, 06, 11 and 13."""

from types import SimpleNamespace

import pandas as pd
from moves import moved, sets

from hs2lib.corpus import generate
from hs2lib.data.load import Loaded
from hs2lib.evaluate import ask_box, browse_box, steering
from hs2lib.evaluate.held_out import SideBySide
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.report import show
from hs2lib.runs.setup import Setup
from hs2lib.train.recipes import Evaluation, SteerLM

prompts = list(generate.groups(40, 1, split="validation"))
model = RewardModel.new("tiny", seed=0).eval()
setup = Setup("13_aligned_model_evaluation", "smoke", {}, Evaluation(answer_tokens=24))

# 13: ask any policy. The first answers load a policy each.
places = {"base": "small", "another": load_policy("tiny")}
box = ask_box.box(places, prompts, model, setup, labels={}, draw=show.answers_html)
policy, temperature, prompt, text, again, view = box.children
moved(view, again.click, "the first question")
moved(view, sets(temperature, 1.0), "the temperature")
moved(view, again.click, "another sample")
moved(view, sets(prompt, (prompt.value + 5) % len(prompts)), "the prompt")
moved(view, sets(policy, "another"), "the policy")
moved(view, sets(text, "What is <b>gold</b>?"), "the text")
assert "&lt;b&gt;gold" in view.value
print("asked")

# 13: browse answers. Each policy said what the two authors of the prompt said.
frames = []
for number, name in enumerate(("SFT", "PPO")):
    rows = {
        "policy": name,
        "prompt": [group.id for group in prompts],
        "response": [f"{group.id}/0" for group in prompts],
        "text": [group.responses[number].text for group in prompts],
        "truth": [float(k % 7) for k in range(len(prompts))],
        "reward model's score": 4.0 + number,
    }
    frames.append(pd.DataFrame(rows))
loaded = Loaded([group.id for group in prompts], "x", True)
rows = pd.concat(frames, ignore_index=True)
beside = SideBySide(loaded, pd.DataFrame(), pd.DataFrame(), truth_known=True, rows=rows)
answers = browse_box.read(beside)
box = browse_box.box(answers, draw=show.columns_html)
policy, other, family, fault, order, place, _, view = box.children
moved(view, sets(place, 3), "the place")
moved(view, sets(order, order.options[1]), "the order")
moved(view, sets(family, family.options[1]), "the family")
moved(view, sets(policy, "SFT"), "the policy")
moved(view, sets(other, "PPO"), "the second policy")
family.value = browse_box.ANY
named_faults = [fault for names in answers.faults for fault in names]
moved(view, sets(fault, named_faults[-1]), "the fault")
print("browsed")

# 01 and 06: browse groups.
groups = list(generate.groups(1000, 0))
slider, text, view = show.browse(groups).children
moved(view, sets(slider, 500), "the slider")
last = groups[499].responses[1].text
moved(view, sets(text, last), "a text that the last group of the round holds")
assert groups[499].id in view.value
moved(view, sets(text, "no <group> holds this"), "a text that is nowhere")
print("faulty")

# 11: steer.
recipe = SteerLM(steer_tokens=24)
held_out = SimpleNamespace(groups=prompts)
compared = SimpleNamespace(setup=SimpleNamespace(recipe=recipe), held_out=held_out)
box = steering.panel(load_policy("small"), compared, draw=show.answers_html)
which, *sliders, view = box.children
moved(view, sets(which, 7), "the prompt")
for slider in sliders:
    moved(view, sets(slider, (slider.value + 2) % 5), slider.description)
assert "helpfulness:1,correctness:1,coherence:1,complexity:4,verbosity:4" in view.value
print("steered")
