"""The whole method in thirty lines is the library's: the notebook's own cell is executed.

Its loss and its gradient are held to those that the library's trainer computes of the same items,
after the cell's own steps, where policy and reference differ.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
import trl
from datasets import Dataset
from scipy.special import betainc
from transformers import PrinterCallback

from hs2lib.align import dpo, ppo, sft, steerlm, steerlm2
from hs2lib.data.examples import a_few
from hs2lib.engine.attention import end_states, response_log_probs
from hs2lib.engine.chat import parse_label
from hs2lib.engine.trees import pack
from hs2lib.evaluate import frontier
from hs2lib.group import ATTRIBUTES
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights
from hs2lib.train import losses, objectives, recipes
from hs2lib.train.items import rated
from hs2lib.train.trainer import targets_of
from hs2lib.world import grade, sets

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def cell(name, id):
    """The source of a cell."""
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4).cells
    (found,) = [cell for cell in cells if cell.id == id]
    return found.source


def run_cell(name, **values):
    """The names that the cell of the whole method leaves, at tier smoke."""
    policy = load_policy("postcards")
    saved = SimpleNamespace(
        base_policy=lambda setup: load_policy("postcards"),
        starting_policy=lambda setup, *_: load_policy("postcards"),
        required_reward_model=lambda setup, **_: judge(),
    )
    known = {"torch": torch, "F": F, "np": np, "policy": policy, "saved": saved, "setup": None}
    known |= {"sets": sets, "grade": grade, "seed": 0, "tier": "smoke", "learning_rate": 1e-3}
    known |= {"n_samples": 4, "a_few": a_few}
    known |= {"weights": np.array(head_weights("goodness", ATTRIBUTES))}
    namespace = known | values
    exec(compile(cell(name, "whole"), f"{name}, whole", "exec"), namespace)
    return namespace


def judge():
    """A reward model whose head says something else of every answer."""
    model = RewardModel.new("postcards", attributes=ATTRIBUTES, seed=3, bias=True)
    with torch.no_grad():
        model.head.weight.mul_(50)
        model.head.bias.fill_(2.5)
    return model.eval()


def prompts_of(number):
    """Prompts without responses."""
    return [replace(group, responses=()) for group in sets.groups(number, 0, split="train")]


def gradient(model):
    """All gradients as one vector."""
    named = sorted(model.named_parameters())
    return torch.cat([parameter.grad.flatten() for _, parameter in named])


def loss_of_items(policy, items, objective):
    """The mean loss of items, packed into one batch of prefix trees."""
    targets, group = targets_of(items, "cpu")
    batch = pack([item.sequences for item in items], [list(item.starts) for item in items])
    outputs = response_log_probs(policy, batch)
    return objective.total(outputs, targets, group) / objective.count(targets, group)


def the_librarys(model, items, objective):
    """Loss and gradient of the library on items, with the weights of a model."""
    policy = load_policy("postcards")
    policy.backbone.load_state_dict(model.state_dict())
    loss = loss_of_items(policy, items, objective)
    loss.backward()
    return loss.item(), gradient(policy.backbone)


def check(namespace, loss, items, objective):
    """Hold a loss of the cell's model, and its gradient, to the library's."""
    model = namespace["model"]
    model.zero_grad()
    loss.backward()
    theirs, their_gradient = the_librarys(model, items, objective)
    assert loss.item() == pytest.approx(theirs, rel=1e-5)
    apart = (gradient(model) - their_gradient).norm()
    assert apart < 1e-4 * their_gradient.norm()
    assert namespace["losses"][-1] < namespace["losses"][0]


def check_trl(namespace, name, folder):
    """Hold the losses of TRL's trainer in the cell beside the loop to the loop's."""
    namespace |= {"Dataset": Dataset, "PrinterCallback": PrinterCallback, "pd": pd}
    namespace |= {"SFTConfig": trl.SFTConfig, "SFTTrainer": trl.SFTTrainer}
    namespace |= {"DPOConfig": trl.DPOConfig, "DPOTrainer": trl.DPOTrainer}
    namespace["setup"] = SimpleNamespace(folder=folder)
    exec(compile(cell(name, "trl"), f"{name}, trl", "exec"), namespace)
    assert namespace["theirs"] == pytest.approx(namespace["losses"][:3], rel=1e-4)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_dpo(tmp_path):
    groups = list(sets.groups(40, 0, split="train"))
    pairs, _ = dpo.by_attribute(groups)
    made = run_cell("08_dpo", pairs=SimpleNamespace(training=pairs), beta=0.5)
    few = made["few"]
    assert made["losses"][0] == pytest.approx(np.log(2), rel=1e-5)
    loss = torch.stack(
        [made["loss_of"](made["model"], made["reference"], pair) for pair in few]
    ).mean()
    items, _ = dpo.items(load_policy("postcards"), few)
    check(made, loss, items, objectives.dpo(0.5))
    check_trl(made, "08_dpo", tmp_path)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_sft(tmp_path):
    talks = list(sets.demonstrations(30, 0, split="train"))
    made = run_cell("07_sft", conversations=SimpleNamespace(training=talks))
    items, _ = sft.items(load_policy("postcards"), made["few"])
    loss = made["loss_of"](made["model"], made["few"])
    check(made, loss, items, objectives.sft())
    check_trl(made, "07_sft", tmp_path)


def test_the_solution_of_notebook_07_trains_on_the_last_half_of_each_answer():
    """The solution's lines, put where it says, give the loss of the answers' second halves."""
    (text,) = [
        cell.source
        for cell in nbformat.read(NOTEBOOKS / "07_sft.ipynb", 4).cells
        if "**Write it.**" in cell.source
    ]
    lines = text.partition("```python\n")[2].partition("```")[0].splitlines()
    source = cell("07_sft", "whole")
    (after,) = [line for line in source.splitlines() if "logits = model(ids)" in line]
    changed = source.replace(after, "\n".join([after, *(f"        {line}" for line in lines)]))
    talks = [group for group in sets.groups(8, 0, split="train") if len(group.prompt) == 1][:3]
    talks = [replace(group, responses=group.responses[:1]) for group in talks]
    conversations = SimpleNamespace(training=talks)
    whole = run_cell("07_sft", conversations=conversations)
    namespace = dict(whole)
    exec(changed.partition("\nmodel = saved")[0], namespace)
    model = whole["model"]
    total, n_tokens = 0.0, 0
    for talk in talks:
        x = whole["tokenizer"](whole["text_of"](talk), add_special_tokens=False).input_ids
        answer = talk.responses[0].text + whole["tokenizer"].eos_token
        y = whole["tokenizer"](answer, add_special_tokens=False).input_ids
        log_probs = model(torch.tensor([x + y])).logits[0].log_softmax(-1)
        for place in range(len(x) + len(y) // 2, len(x) + len(y)):
            total -= log_probs[place - 1, (x + y)[place]]
            n_tokens += 1
    assert namespace["loss_of"](model, talks).item() == pytest.approx(
        total.item() / n_tokens, rel=1e-4
    )


def test_regression():
    groups = list(sets.groups(20, 0, split="train"))
    # one label is missing: its square must be left out
    first = groups[0].responses[0]
    labels = (float("nan"), *first.labels[1:])
    responses = (replace(first, labels=labels), *groups[0].responses[1:])
    groups[0] = replace(groups[0], responses=responses)
    recipe = SimpleNamespace(model_name="postcards")
    data = SimpleNamespace(groups={"train": groups})
    made = run_cell(
        "05_reward_model_training",
        data=data,
        recipe=recipe,
        attributes=list(ATTRIBUTES),
        load_policy=load_policy,
    )
    body, head = made["body"], made["head"]
    loss = made["loss_of"](body, head, made["few"])
    body.zero_grad()
    head.zero_grad()
    loss.backward()

    model = RewardModel.new("postcards", attributes=ATTRIBUTES, bias=True)
    model.backbone.load_state_dict(body.state_dict())
    model.head.load_state_dict(head.state_dict())
    items, _ = rated(model, made["few"])
    targets, group = targets_of(items, "cpu")
    batch = pack([item.sequences for item in items])
    objective = objectives.named("regression")
    outputs = model.predict(end_states(model.backbone, batch))
    theirs = objective.total(outputs, targets, group) / objective.count(targets, group)
    theirs.backward()
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-5)
    for mine, other in ((body, model.backbone), (head, model.head)):
        apart = (gradient(mine) - gradient(other)).norm()
        assert apart < 1e-4 * gradient(other).norm()
    assert made["losses"][-1] < made["losses"][0]


def test_iterative_dpo():
    made = run_cell(
        "09_iterative_dpo", parts=[prompts_of(8)], reward_model=judge(), beta=0.5, recipe=None
    )
    assert made["losses"][0] == pytest.approx(np.log(2), rel=1e-5)
    of_pairs = [made["loss_of"](made["model"], made["reference"], *pair) for pair in made["pairs"]]
    pairs = []
    for prompt, chosen, rejected in made["pairs"]:
        assert chosen != rejected
        pairs.append(replace(sets.answered(prompt, [chosen, rejected]), preference=-1.0))
    items, _ = dpo.items(load_policy("postcards"), pairs)
    check(made, torch.stack(of_pairs).mean(), items, objectives.dpo(0.5))


def test_ppo():
    rated = list(sets.groups(20, 0, split="train"))
    reward = ppo.standardised(judge(), rated, head_weights("goodness", ATTRIBUTES)).eval()
    made = run_cell("10_ppo", reward=reward, kl_weight=0.1)
    model, prompts = made["model"], prompts_of(3)
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(round):
        model.zero_grad()
        loss = made["loss_of"](model, *round)
        loss.backward()
        optimizer.step()

    step(made["round_of"](prompts))  # now the policy is no longer its own reference
    sampler = load_policy("postcards")
    sampler.backbone.load_state_dict(model.state_dict())
    answers, old, advantages = made["round_of"](prompts)
    step((answers, old, advantages))  # now ratios are not 1
    model.zero_grad()
    loss = made["loss_of"](model, answers, old, advantages)
    loss.backward()

    recipe = recipes.PPO(
        critic="group",
        kl_form="plain",
        lam=1.0,
        kl_weight=0.1,
        n_samples=4,
        max_new_tokens=64,
        unfinished="keep",
    )
    sequences = [
        tuple([*x.tolist(), *y.tolist()] for x, y in answers[i : i + 4]) for i in (0, 4, 8)
    ]
    starts = [[len(answers[i][0])] * 4 for i in (0, 4, 8)]
    batch = pack(sequences, starts)

    def log_probs(policy):
        return ppo.ActorCritic(policy, reward, "group")(batch, 64).unflatten(1, (3, -1))[:, 0]

    texts = sampler.tokenizer.batch_decode([y for _, y in answers], skip_special_tokens=True)
    groups = [sets.answered(prompts[i], texts[4 * i : 4 * i + 4]) for i in range(3)]
    with torch.no_grad():
        sampled, reference = log_probs(sampler), log_probs(load_policy("postcards"))  # [R, W]
        rewards = reward.score(groups)[:, 0]  # [R]
    lengths = torch.tensor([len(y) for _, y in answers])
    tokens = torch.arange(64) < lengths[:, None]  # [R, W]
    kl = torch.where(tokens, ppo.token_kl(sampled, reference, "plain"), 0.0)
    values = ppo.group_values(rewards, kl.sum(1), recipe)  # [R]
    values = torch.where(tokens, values[:, None], 0.0)
    targets = ppo.targets(
        sampled, reference, values, tokens, rewards, torch.ones(len(answers)), recipe
    )
    for row, mine in zip(targets[:, 1], advantages, strict=True):
        torch.testing.assert_close(row[: len(mine)], mine, rtol=1e-3, atol=1e-3)

    objective = ppo.objective(recipe)
    trained = load_policy("postcards")
    trained.backbone.load_state_dict(model.state_dict())
    outputs = objective.outputs(ppo.ActorCritic(trained, reward, "group"), batch)
    of_rows, group = targets.flatten(1), torch.arange(3).repeat_interleave(4)
    theirs = objective.total(outputs, of_rows, group) / objective.count(of_rows, group)
    theirs.backward()
    assert loss.item() == pytest.approx(theirs.item(), abs=1e-5)
    apart = (gradient(model) - gradient(trained.backbone)).norm()
    assert apart < 1e-3 * gradient(trained.backbone).norm()


def test_steerlm():
    answers = steerlm.answers(list(sets.groups(20, 0, split="train")))
    made = run_cell("11_steerlm", to_label=SimpleNamespace(groups=answers))
    labelled = steerlm.label(made["few"], judge())
    assert [steerlm.label_of(group) for group in labelled] == made["labels"]
    assert len(set(made["labels"])) > 3
    items = steerlm.items(load_policy("postcards"), labelled)
    loss = made["loss_of"](made["model"], made["few"], made["labels"])
    check(made, loss, items, objectives.sft())


def test_steerlm2():
    policy, prior = load_policy("postcards"), load_policy("postcards-none")
    target = steerlm2.TARGET
    sampled = rollouts(
        policy, prompts_of(6), n=5, max_new_tokens=100, label=target, seed=0, progress=False
    )
    assert all(response.finished for group in sampled for response in group.responses)
    recipe = recipes.SteerLM2(edges="rounding")
    made = {
        "recipe": recipe,
        "ends": np.array([0, 0.125, 0.375, 0.625, 0.875, 1]),
        "betainc": betainc,
    }
    made |= {"levels": torch.tensor([4, 4, 4, 2, 2]), "target": target, "sampled": sampled}
    made = run_cell("12_steerlm2", prior=prior, reward_model=judge(), **made)
    weighed = steerlm2.weigh(sampled, policy, prior, judge(), target, recipe)
    for (log_w, log_q), theirs in zip(made["weights"], weighed, strict=True):
        np.testing.assert_allclose(log_w.exp(), np.exp(theirs.log_weights), atol=1e-3)
        np.testing.assert_allclose(log_q, theirs.sampler, atol=1e-3)
    made["losses"] = made["distances"]
    of_groups = [
        made["distance"](made["model"], group, *w)
        for group, w in zip(made["few"], made["weights"], strict=True)
    ]
    items = steerlm2.items(weighed)
    check(made, torch.stack(of_groups).mean().float(), items, objectives.steerlm2())


def test_steerlm2_under_a_target_of_some_attributes_and_other_edges():
    """The loop broke on the first, and took rounding whatever the recipe said."""
    policy, prior = load_policy("postcards"), load_policy("postcards-none")
    target = "helpfulness:4,complexity:2"
    sampled = rollouts(
        policy, prompts_of(3), n=4, max_new_tokens=100, label=target, seed=0, progress=False
    )
    recipe = recipes.SteerLM2(edges="fifths", concentration=9)
    levels = torch.tensor(parse_label(target, ATTRIBUTES)).long()
    made = {"recipe": recipe, "np": np, "losses": losses}
    exec(cell("12_steerlm2", "beta").partition("predicted =")[0], made)
    made = {"recipe": recipe, "ends": made["ends"], "betainc": betainc}
    made |= {"levels": levels, "target": target, "sampled": sampled}
    made = run_cell("12_steerlm2", prior=prior, reward_model=judge(), **made)
    weighed = steerlm2.weigh(made["few"], policy, prior, judge(), target, recipe)
    for (log_w, _), theirs in zip(made["weights"], weighed, strict=True):
        np.testing.assert_allclose(log_w.exp(), np.exp(theirs.log_weights), atol=1e-3)


@pytest.mark.parametrize("kl_weight", [0.0, 0.003, 0.1])
def test_the_line_of_notebook_10_has_the_price_that_ppo_was_given(kl_weight):
    """The star of its figure lies there; it vanished at a price that was not among nine."""
    listed = pd.DataFrame({"prompt": [0, 0, 1, 1], "true": [1.0, 2, 1, 2]})
    listed = listed.assign(judge=listed.true, sft=np.log(0.5), PPO=np.log(0.5))
    of_prompts = SimpleNamespace(generated=True, groups=[])
    known = {"np": np, "pd": pd, "tier": "smoke", "setup": None, "kl_weight": kl_weight}
    known |= {"held_out_prompts": lambda *_: of_prompts, "sft": None, "policy": None}
    known |= {"reward_model": None, "reward": SimpleNamespace(folded={"sd": 1.0})}
    stub = {name: getattr(frontier, name) for name in ("normalised", "reached", "best_of", "mass")}
    known["frontier"] = SimpleNamespace(enumerated=lambda *_: listed, **stub)
    exec(cell("10_ppo", "enumerate"), known)
    line = known["line"]
    assert (line.beta == kl_weight).sum() == (kl_weight > 0)
    assert line.kl.is_monotonic_increasing
