"""Responses to label by hand, against which the grader of the small world is checked.

    python benchmarks/samples_to_label.py [--runs runs/demo] [--seed 20] [--out runs/samples-to-label.jsonl]
    python benchmarks/samples_to_label.py --policies sft dpo ppo steerlm2 --temperature 0 --each 25

By default 50 each of the base, of SFT and PPO (notebooks 07 and 10), and of SFT's best of 64 by the
grader, at temperature 1, each to a prompt of its own that no training text holds; all families come
as often. At temperature .7 the likeliest .9 are drawn from, as `works.py` does.
A line has the prompt, the items that are asked with their right sentences and values, and the
response. It has no grade: who labels must not see one.
"""

import argparse
import json
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from random import Random

import numpy as np
import torch

from hs2lib import paths
from hs2lib.align.steerlm2 import TARGET
from hs2lib.corpus.generate import task_of
from hs2lib.corpus.grade import true_attributes
from hs2lib.data.load import load
from hs2lib.group import ATTRIBUTES, Group, prompt_string
from hs2lib.models.policy import load_policy
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights

SAMPLED = {"max_new_tokens": 128, "batch": 512, "progress": False}
TOP_P = {0.0: 1.0, 0.7: 0.9, 1.0: 1.0}
# What a policy is called -> its notebook, how many answers the best is taken of, and the label that
# it is asked for.
POLICIES: dict[str, tuple[str, int, str | None]] = {
    "base": ("", 1, None),
    "sft": ("07_sft", 1, None),
    "dpo": ("08_dpo", 1, None),
    "ppo": ("10_ppo", 1, None),
    "steerlm2": ("12_steerlm2", 1, TARGET),
    "best-of-64": ("07_sft", 64, None),
}
GOODNESS = np.array(head_weights("goodness", ATTRIBUTES))


def prompts(number: int, seed: int) -> list[Group]:
    """Held-out prompts, all families in turn."""
    made = load(
        "helpsteer2", "embedded", split="validation", n_prompts=10 * number, seed=seed
    ).groups
    families: dict[str, list[Group]] = {}
    for group in made:
        families.setdefault(task_of(group.id).family, []).append(replace(group, responses=()))
    in_turn = [
        group for row in zip_longest(*families.values()) for group in row if group is not None
    ]
    return in_turn[:number]


def row(policy: str, group: Group) -> dict:
    """What the labeller sees of one response."""
    task = task_of(group.id)
    items = [{"sentence": item.say(), "value": item.value} for item in task.items]
    shown = {
        "policy": policy,
        "family": task.family,
        "prompt": prompt_string(group.prompt),
        "items": items,
    }
    return {"id": f"{group.id}/{policy}"} | shown | {"response": group.responses[0].text}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=Path, default=paths.runs() / "demo", help="where the demo's policies are"
    )
    parser.add_argument("--out", type=Path, default=paths.runs() / "samples-to-label.jsonl")
    parser.add_argument("--seed", type=int, default=20, help="of prompts, samples and their order")
    parser.add_argument(
        "--policies",
        nargs="+",
        choices=list(POLICIES),
        default=["base", "sft", "ppo", "best-of-64"],
    )
    parser.add_argument("--each", type=int, default=50, help="responses of each policy")
    parser.add_argument("--temperature", type=float, choices=list(TOP_P), default=1.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    n_policies = len(options.policies)
    if n_policies % 3 == 0:  # there are nine families, and they come in turn
        parser.error("with 3 or 6 policies each would get three of the families alone")
    asked = prompts(n_policies * options.each, options.seed)
    sampling = SAMPLED | {
        "temperature": options.temperature,
        "top_p": TOP_P[options.temperature],
        "seed": options.seed,
    }
    rows = []
    for k, name in enumerate(options.policies):
        notebook, n, label = POLICIES[name]
        policy = load_policy(options.runs / notebook / "policy" if notebook else "small")
        # Every fourth prompt of four policies: each has all nine families.
        for group in rollouts(policy, asked[k::n_policies], n=n, label=label, **sampling):
            best = int((true_attributes(group) @ GOODNESS).argmax())
            rows.append(row(name, replace(group, responses=(group.responses[best],))))
    Random(options.seed).shuffle(rows)
    paths.write(options.out, "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows))


if __name__ == "__main__":
    main()
