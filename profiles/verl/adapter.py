"""PPO on verl 0.9.1: notebook 10's recipe as verl's overrides, its prompts as the files that verl
reads, its reward.

    python profiles/verl/adapter.py --tier paper --policy POLICY --reward runs/paper/05_reward_model_training/model OUT
    python profiles/verl/adapter.py --table > profiles/verl/README.md

writes OUT/overrides.txt, OUT/train.parquet, OUT/validation.parquet and OUT/reward, the export of
the standardised goodness. It runs in the suite's environment; what it wrote runs in verl's
(requirements.txt):

    PYTHONPATH=. xargs -d '\\n' -a OUT/overrides.txt python -m verl.trainer.main_ppo
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from hs2lib.align.ppo import standardised
from hs2lib.data.load import load
from hs2lib.models.export import export
from hs2lib.models.reward_model import load_reward_model
from hs2lib.paper import head_weights
from hs2lib.runs import graph

ACTOR, CRITIC, ROLLOUT = "actor_rollout_ref.actor", "critic", "actor_rollout_ref.rollout"
MODEL, REWARD = "actor_rollout_ref.model", "reward.reward_model"
KL_FORMS = {"absolute": "abs", "plain": "kl", "k3": "low_var_kl"}
MEANS = {"tokens": "token-mean", "responses": "seq-mean-token-mean"}


def both(name: str, value: Callable) -> dict:
    """A setting of the policy's trainer and of the critic's."""
    return {f"{ACTOR}.{name}": value, f"{CRITIC}.{name}": value}


def rounds(v, steps: int) -> int:
    """Rounds in so many steps of the optimiser: verl counts rounds."""
    return max(1, steps * v.batch // (v.buffer * v.passes))


def prompt_tokens(v) -> int:
    """The longest prompt: without max_tokens as long as the longest answer."""
    return (v.max_tokens or 2 * v.max_new_tokens) - v.max_new_tokens


def rank(v) -> int:
    """verl's lora_rank: 0 trains all weights."""
    return v.lora_rank if v.method == "lora" else 0


# A value of notebook 10 -> what it is in verl: keys, each with a function of all values.
COUNTERPARTS: dict[str, dict[str, Callable]] = {
    "learning_rate": {f"{ACTOR}.optim.lr": lambda v: v.learning_rate},
    "critic_rate": {f"{CRITIC}.optim.lr": lambda v: v.learning_rate * v.critic_rate},
    "warmup": both("optim.lr_warmup_steps", lambda v: v.warmup),
    "weight_decay": both("optim.weight_decay", lambda v: v.weight_decay),
    "betas": both("optim.betas", lambda v: list(v.betas)),
    "clip": both("grad_clip", lambda v: v.clip) | both("optim.clip_grad", lambda v: v.clip),
    "steps": {"trainer.total_training_steps": lambda v: rounds(v, v.steps)},
    "buffer": {"data.train_batch_size": lambda v: v.buffer},
    "batch": {f"{ACTOR}.ppo_mini_batch_size": lambda v: v.batch},
    "passes": {f"{ACTOR}.ppo_epochs": lambda v: v.passes},
    "kl_weight": {"algorithm.kl_ctrl.kl_coef": lambda v: v.kl_weight},
    "kl_form": {"algorithm.kl_penalty": lambda v: KL_FORMS[v.kl_form]},
    "weigh": {f"{ACTOR}.loss_agg_mode": lambda v: MEANS[v.weigh]},
    "gamma": {"algorithm.gamma": lambda v: v.gamma},
    "lam": {"algorithm.lam": lambda v: v.lam},
    "ratio_clip": {
        f"{ACTOR}.clip_ratio{end}": lambda v: v.ratio_clip for end in ("", "_low", "_high")
    },
    "value_clip": {f"{CRITIC}.cliprange_value": lambda v: v.value_clip},
    "n_samples": {f"{ROLLOUT}.n": lambda v: v.n_samples},
    "temperature": {f"{ROLLOUT}.temperature": lambda v: v.temperature},
    "top_p": {f"{ROLLOUT}.top_p": lambda v: v.top_p},
    "max_new_tokens": {"data.max_response_length": lambda v: v.max_new_tokens},
    "max_tokens": {"data.max_prompt_length": prompt_tokens},
    "autocast": {
        f"{ACTOR}.fsdp_config.dtype": lambda v: v.autocast,
        f"{CRITIC}.fsdp.dtype": lambda v: v.autocast,
        f"{ROLLOUT}.dtype": lambda v: v.autocast,
    },
    "budget": both("ppo_max_token_len_per_gpu", lambda v: v.budget),
    "checkpointing": {
        f"{MODEL}.enable_gradient_checkpointing": lambda v: v.checkpointing,
        f"{CRITIC}.model.enable_gradient_checkpointing": lambda v: v.checkpointing,
    },
    "save_every": {"trainer.save_freq": lambda v: rounds(v, v.save_every)},
    "n_validate": {
        "trainer.test_freq": lambda v: rounds(v, v.validate_every) if v.n_validate else -1
    },
    "seed": both("data_loader_seed", lambda v: v.seed)
    | {"data.seed": lambda v: v.seed, f"{ROLLOUT}.seed": lambda v: v.seed},
    "method": {f"{MODEL}.lora_rank": rank, f"{CRITIC}.model.lora_rank": rank},
    "lora_rank": {
        f"{part}.lora_alpha": lambda v: 2 * v.lora_rank for part in (MODEL, f"{CRITIC}.model")
    },
    "start": {f"{MODEL}.path": lambda v: v.start},
    "reward": {
        f"{REWARD}.model_path": lambda v: f"{v.out}/reward",
        f"{CRITIC}.model.path": lambda v: f"{v.out}/reward",  # its head becomes the value head
        "+reward.custom_reward_function.reward_kwargs.model": lambda v: f"{v.out}/reward",
        "+reward.custom_reward_function.reward_kwargs.constant": lambda v: v.constant,
    },
}

_FILE, _HERE = (
    "which rows are in the prompt file",
    "of the notebook alone; evaluate what verl saved by notebook 13",
)

# What has no key there: why, or where it went.
WITHOUT = {
    "critic": 'verl\'s critic is a model of its own; "group" is refused here',
    "normalise": "verl always brings advantages to mean 0 and SD 1; false is refused here",
    "unfinished": "no counterpart: verl also trains on answers that are cut off, and on the reward of what there is",
    "validate_every": "in trainer.test_freq, where n_validate asks for it",
    "keep": "no counterpart: verl keeps the last checkpoints, and chooses none by its reward",
    "epochs": "the steps say when to stop",
    "accumulation": "follows from the budget",
    "fsdp": "verl always shards",
    "weighting": "folded into the export",
    "rewarding": "verl is given the reward model; another reward is refused here",
    "n_standard": "mean and SD of these responses are folded into the export",
    "template": "the chat template of the policy's tokenizer",
    "control_text": "escaped where the reward function writes the conversation; verl writes prompts as they are",
    "revision": "download the policy at its commit, and name the folder",
    "pad_token": "set it in the policy's tokenizer",
    **dict.fromkeys(
        ("dataset", "source", "split", "path", "columns", "scale", "strict", "n_prompts"), _FILE
    ),
    **dict.fromkeys(
        ("eval_dataset", "eval_source", "eval_split", "n_eval_prompts"), "the validation file"
    ),
    "eval_tokens": _HERE,
    **dict.fromkeys(("tier", "n_best", "n_best_prompts", "n_boot"), _HERE),
    **dict.fromkeys(
        ("judge", "judge_model", "judge_url", "key_variable", "token_cap", "allow_http"), _HERE
    ),
}

# What our loop does without being told, and what verl has to be told.
FIXED = {
    "algorithm.adv_estimator": "gae",
    "algorithm.use_kl_in_reward": True,
    f"{ACTOR}.use_kl_loss": False,
    f"{ACTOR}.entropy_coeff": 0,
    f"{ACTOR}.clip_ratio_c": 1e9,  # no second clip of the ratio
    f"{ACTOR}.use_dynamic_bsz": True,
    "critic.enable": True,
    "data.filter_overlong_prompts": True,  # ours drops a prompt's oldest turns
    f"{REWARD}.enable": True,
    "reward.custom_reward_function.name": "compute_score",
    f"{ROLLOUT}.name": "vllm",
    f"{REWARD}.rollout.name": "vllm",
    "trainer.total_epochs": 100_000,  # the steps end it
    "trainer.val_before_train": False,
    "trainer.logger": ["console"],
}


def values(tier: str, **more) -> SimpleNamespace:
    """Every value of notebook 10 at a tier, parameters and recipe in one. Raises ValueError for what verl cannot do."""
    _, parameters, recipe = graph.resolved("10_ppo", tier)
    del parameters["recipe"]
    v = SimpleNamespace(**parameters | vars(recipe) | more)
    if v.rewarding != "model":
        raise ValueError("verl is given the reward model: rewarding has to be model")
    if v.critic != "separate" or not v.normalise:
        raise ValueError("verl has neither a group critic nor advantages that are not normalised")
    return v


def overrides(v: SimpleNamespace, nodes: int, gpus: int, tensor: int) -> list[str]:
    """verl's overrides, `key=value`, for values and a cluster."""
    out = {key: value(v) for keys in COUNTERPARTS.values() for key, value in keys.items()} | FIXED
    out |= {
        "data.train_files": f"{v.out}/train.parquet",
        "data.val_files": f"{v.out}/validation.parquet",
    }
    out |= {
        "reward.custom_reward_function.path": str(Path(__file__).with_name("reward.py").absolute())
    }
    out |= {f"{REWARD}.rollout.prompt_length": prompt_tokens(v) + v.max_new_tokens}
    out |= {
        "trainer.nnodes": nodes,
        "trainer.n_gpus_per_node": gpus,
        "trainer.default_local_dir": f"{v.out}/saved",
    }
    out |= {f"{part}.tensor_model_parallel_size": tensor for part in (ROLLOUT, f"{REWARD}.rollout")}
    return [f"{key}={json.dumps(value)}" for key, value in out.items()]


def write_prompts(groups, file: Path) -> None:
    """Prompts as verl reads them: a row each, the messages also where the reward function finds them."""
    rows = []
    for index, group in enumerate(groups):
        messages = [{"role": turn.role, "content": turn.text} for turn in group.prompt]
        extra = {"index": index, "id": group.id, "prompt": messages}
        row = {"data_source": "hs2", "prompt": messages, "ability": "chat", "extra_info": extra}
        rows.append(row | {"reward_model": {"style": "model", "ground_truth": ""}})
    pd.DataFrame(rows).to_parquet(file, index=False)


def table() -> str:
    """The mapping as Markdown."""
    lines = [
        "# Notebook 10's recipe in verl 0.9.1",
        "",
        "Written by `python profiles/verl/adapter.py --table`.",
        "",
    ]
    lines += ["| value | in verl |", "|---|---|"]
    for name, keys in COUNTERPARTS.items():
        lines.append(f"| {name} | {', '.join(f'`{key}`' for key in keys)} |")
    lines += [f"| {name} | none: {why} |" for name, why in WITHOUT.items()]
    lines += ["", "Set always, as our loop does it:", "", "| in verl | value |", "|---|---|"]
    lines += [f"| `{key}` | {json.dumps(value)} |" for key, value in FIXED.items()]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Write all that verl needs, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", nargs="?", type=Path, help="folder to write")
    parser.add_argument("--tier", default="paper")
    parser.add_argument("--policy", help="folder of the SFT policy, as transformers reads it")
    parser.add_argument("--reward", help="folder of notebook 05's model")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--gpus", type=int, default=8, help="of a node")
    parser.add_argument(
        "--tensor", type=int, default=8, help="GPUs that share a model when it samples or scores"
    )
    parser.add_argument("--table", action="store_true", help="print the mapping and end")
    args = parser.parse_args(argv)
    if args.table:
        print(table(), end="")
        return
    if not (args.out and args.policy and args.reward):
        parser.error("name a folder to write, --policy and --reward")
    out = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    v = values(args.tier, out=out, start=args.policy, reward=args.reward)
    rows = dict(strict=v.strict, n_prompts=v.n_prompts, seed=v.seed)
    loaded = load(v.dataset, v.source, split=v.split, path=v.path or None, **rows).groups
    held_out = load(
        v.eval_dataset, v.eval_source, split=v.eval_split, **rows | {"seed": v.seed + 1}
    ).groups
    write_prompts(loaded, out / "train.parquet")
    write_prompts(held_out[: v.n_eval_prompts], out / "validation.parquet")
    model = load_reward_model(v.reward).eval()
    weights = head_weights(v.weighting, model.attributes)
    rated = loaded[: v.n_standard or None]
    export(
        standardised(model, rated, weights, budget=v.budget, autocast=v.autocast), out / "reward"
    )
    v.constant = json.loads((out / "reward" / "config.json").read_text()).get(
        "hs2_constant", [0.0]
    )[0]
    lines = overrides(v, args.nodes, args.gpus, args.tensor)
    (out / "overrides.txt").write_text("\n".join(lines) + "\n")
    print(
        f"PYTHONPATH=. xargs -d '\\n' -a {args.out}/overrides.txt python -m verl.trainer.main_ppo"
    )


if __name__ == "__main__":
    main()
