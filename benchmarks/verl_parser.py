"""What `profiles/verl` writes of tier paper's recipe, before verl's own parser, checks, reward
loader and data set.

    python benchmarks/verl_parser.py --python VERL_ENV/bin/python [--dry]

VERL_ENV holds verl 0.9.1; the parser needs of what it wants hydra-core, ray, tensordict and
codetiming, and no GPU (`pip install --no-deps verl==0.9.1`). Policy and reward model are tiny, the
prompts generated; nothing is trained.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WRONG = (
    "algorithm.lamda=1",
    "actor_rollout_ref.actor.cliprange=0.2",
    "trainer.steps=64",
)  # keys that verl has not


def inside(folder: Path) -> dict:
    """In verl's environment: parse, validate, load the reward function and read the prompts of a folder."""
    from hydra import compose, initialize_config_module
    from hydra.errors import ConfigCompositionException
    from transformers import AutoTokenizer
    from verl import __version__
    from verl.experimental.reward_loop import migrate_legacy_reward_impl
    from verl.trainer.ppo.reward import get_custom_reward_fn
    from verl.utils.config import omega_conf_to_dataclass, validate_config
    from verl.utils.dataset.rl_dataset import RLHFDataset

    lines, refused = (folder / "overrides.txt").read_text().splitlines(), []
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=lines)
        for wrong in WRONG:
            try:
                compose("ppo_trainer", overrides=[*lines, wrong])
            except ConfigCompositionException:
                refused.append(wrong)
    config = migrate_legacy_reward_impl(config)
    validate_config(config, use_reference_policy=True, use_critic=True)
    parts = {
        "algorithm": config.algorithm,
        "actor": config.actor_rollout_ref.actor,
        "critic": config.critic,
    }
    parts |= {
        "rollout": config.actor_rollout_ref.rollout,
        "reward model": config.reward.reward_model,
    }
    typed = {name: type(omega_conf_to_dataclass(part)).__name__ for name, part in parts.items()}
    tokenizer = AutoTokenizer.from_pretrained(folder / "reward")
    rows = RLHFDataset(str(folder / "train.parquet"), tokenizer, config.data)
    same = all(
        list(rows[i]["raw_prompt"]) == list(rows[i]["extra_info"]["prompt"])
        for i in range(len(rows))
    )
    figures = {"verl": __version__, "overrides": len(lines), "typed": typed, "refused": refused}
    figures["reward function"] = callable(get_custom_reward_fn(config))
    return figures | {"prompts": len(rows), "prompts as written": same}


def written(folder: Path, number: int) -> None:
    """Write what the adapter writes for tier paper, with a tiny model for the 70B ones and generated prompts."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "profiles" / "verl"))
    import adapter

    from hs2lib.align.ppo import standardised
    from hs2lib.data.load import load
    from hs2lib.models.export import export
    from hs2lib.models.reward_model import RewardModel
    from hs2lib.paper import head_weights

    groups = load("helpsteer2", "embedded", split="train", n_prompts=number, seed=0).groups
    model = RewardModel.new("tiny").eval()
    export(
        standardised(model, groups, head_weights("goodness", model.attributes)), folder / "reward"
    )
    for name in ("train", "validation"):
        adapter.write_prompts(groups, folder / f"{name}.parquet")
    v = adapter.values("paper", out=folder, start=str(folder / "reward"), reward="", constant=0.0)
    (folder / "overrides.txt").write_text(
        "\n".join(adapter.overrides(v, nodes=8, gpus=8, tensor=8)) + "\n"
    )


def main(argv: list[str] | None = None) -> None:
    """Write the files, have verl's environment read them, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", help="of an environment with verl; without it nothing is run")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.inside:
        print("RESULT " + json.dumps(inside(options.inside)))
        return
    if not options.python:
        print(
            "not run: verl has an environment of its own, name its Python by --python",
            file=sys.stderr,
        )
        return
    import common

    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), options.prompts)
        command = [options.python, __file__, "--inside", folder]
        places = {"PYTHONPATH": str(Path(__file__).parent.parent)}
        done = subprocess.run(command, env=os.environ | places, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"verl's parser refused it:\n{done.stderr[-3000:]}")
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    figures = json.loads(line.removeprefix("RESULT "))
    asked = {"keys that verl has not are refused": len(figures["refused"]) == len(WRONG)}
    asked |= {name: figures[name] for name in ("reward function", "prompts as written")}
    asked["all prompts are read"] = figures["prompts"] == options.prompts
    print(json.dumps(figures, indent=1), file=sys.stderr)
    if not options.dry:
        common.write(
            "verl",
            "the overrides, prompt file and reward function of profiles/verl, before verl's own parser",
            sum(asked.values()) / len(asked),
            "all accepted",
            all(asked.values()),
            f"validate_config passed; {asked}",
            {},
            figures=figures,
            not_run="verl's trainer, its vLLM and its reward server: they want GPUs",
        )


if __name__ == "__main__":
    main()
