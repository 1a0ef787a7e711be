"""The commands of README and the pages are run as they stand, small, in a copy of the checkout.

README's way from a CSV of one's own ratings to a classifier is in the default suite, all other
commands are one walk.
"""

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import nbformat
import pandas as pd
import pytest
import torch
from cells import figures_as_text
from classifiers import classifier
from hs2lib.audit import __main__ as audit_command
from pages import BLOCK, CHECKOUT, FOLLOWED
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from hs2lib.commands import grid, hs2
from hs2lib.data import check as doctor
from hs2lib.data.load import load
from hs2lib.models import backbones
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs import graph
from hs2lib.runs.parameters import specification
from hs2lib.score import __main__ as score_command

PYTHON = ".venv/bin/python "
HS2 = ".venv/bin/hs2 "

# The pages in the order of the walk; those that `test_docs` follows block after block are not in it.
PAGES = (
    "own-ratings.md",
    "own-pairs.md",
    "reward-benchmarks.md",
    "notebooks.md",
    "small-world.md",
    "cluster.md",
    "judges.md",
    "runs.md",
    "own-policies.md",
    "gpu.md",
    "CONTRIBUTING.md",
    "compare.md",
    "first-run.md",
    "audit.md",
)

# Beginnings of commands that are not run here, and why.
NOT_RUN = {
    "make demo": "ten minutes and more; the same notebooks are run at smoke",
    "make matrix": "hours",
    "make laptop": "hours, on real data",
    "make tables": "test_tables_command.py runs it, against a Hub on loopback",
    "make bench": "minutes",
    "make gpu-check": "minutes",
    "make publish": "commands/test_publish.py",
    "make verify": "commands/test_compare.py",
    "make base": "an hour",
    "make lab": "test_project.py",
    "make clean ": "test_project.py",
    "make test": "it runs this test",
    "make check": "as make test",
    "make lint": "make test begins with it",
    "make format": "it changes the checkout",
    "make clean-nb": "it changes the checkout",
    "make setup": "it installs",
    "make lock": "it installs",
    "conda ": "it installs",
    "pip ": "it installs",
    "hf download": "it needs a network",
    "transformers serve": "a server of others",
    "llama-server": "a server of others",
    "vllm serve": "a server of others",
    "kubectl apply": "it needs a cluster",
    "xargs ": "it needs verl's environment",
    "export ": "for the next command of the same shell",
    HS2 + "check my.csv --example": "my.csv is there",
    PYTHON + "profiles/": "test_nemo.py, test_verl.py",
    HS2 + "run 06@released": "its models are on the Hub",
    HS2 + "run 06@preferences 13@iteration-1": "minutes",
    HS2 + "run 06@preferences --tier demo --seeds 5": "an hour",
    HS2 + "run 08 --tier demo --grid": "minutes",
    HS2 + "run 08 --tier paper --grid": "six dry runs of a 70B model",
    HS2 + "run 14 --tier demo #": "it reads all runs of the matrix",
    HS2 + "run 16 --tier laptop": "an hour, on real data",
    HS2 + "run --tier gpu -- --workflow-profile": "it needs a cluster",
}
# Commands that the walk leaves out, since another command of it takes the same way.
ALIKE = re.compile(
    r"run (00|05 06|06 13|08|16)$|--scale|=8$|epochs=3|weighting=clarity|08 --name mine"
    r"|06 --name mine -p path|--name alone|16 --name pairs|--stage (label|sample)|--name judged"
    r"|--name by-truth|--name tiny|--seeds 2|--policy my-policy"
)
OTHERS = (
    "conda",
    "pip",
    "hf",
    "transformers",
    "llama-server",
    "vllm",
    "kubectl",
    "xargs",
    "export",
)
READ_ONLY = {"list", "compare", "parameters"}
OF_RUN = {"--stage": 2, "--stream": 1}  # options that `hs2 parameters` has not, with their words

OWN_RATINGS = "README.md, Your own ratings"


def own_ratings():
    """(page, command) of README's way from a CSV to scores."""
    section = (CHECKOUT / "README.md").read_text().partition("## Your own ratings\n")[2]
    for language, _, block in BLOCK.findall(section.partition("\n## ")[0]):
        if language == "sh":
            yield from ((OWN_RATINGS, line) for line in block.splitlines())


def blocks(page, language):
    """The blocks of a page in one language."""
    text = (CHECKOUT / "docs" / page).read_text()
    return [block for of_block, _, block in BLOCK.findall(text) if of_block == language]


def commands():
    """(page, command) of each line of a block of sh, then of each command in the text."""
    yield from own_ratings()
    for page in (CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *CHECKOUT.glob("docs/*.md")):
        if page.name in FOLLOWED:
            continue
        text = page.read_text()
        for language, _, block in BLOCK.findall(text):
            if language == "sh":
                yield from ((page.name, line) for line in block.splitlines())
        for code in re.findall(r"`([^`\n]+)`", BLOCK.sub("", text)):
            if re.match(r"make [a-z]|\.venv/\S+ |hs2 \w+ [\d-]|vllm serve", code):
                yield page.name, code


def begins_as(command, table):
    """The keys of a table that a command begins as, without the values of variables before it."""
    bare = re.sub(r"^([A-Z_0-9]+=\S* )+", "", " ".join(command.split()))
    return [beginning for beginning in table if f"{bare} ".startswith(beginning)]


def runs_here(command):
    return not begins_as(command, NOT_RUN)


# Every command is one


def check_hs2(words):
    """A command of `hs2`: its words are known, and so are runs, parameters and what is read."""
    command, *rest = words
    if command == "check":
        doctor.main(rest)  # a word that it has not would end the test
    elif command == "score":
        score_command.parser().parse_args(rest)
    elif command == "compare":
        place = rest.index("--tier")
        for pair in rest[:place] + rest[place + 2 :]:
            graph.matching(pair.split("="))
    elif command == "run":
        check_run(rest[: rest.index("--")] if "--" in rest else rest)
    else:
        assert hs2.main(words) == 0, words


def check_run(words):
    """The words of `hs2 run`. Named runs stay defined, since later commands read them."""
    parsed = hs2.parser().parse_args(["run", *words])
    if parsed.grid:
        with contextlib.ExitStack() as undo:
            for point in grid.define(parsed, undo):
                graph.with_upstream(point.runs, parsed.tier)
        return
    for option, length in OF_RUN.items():
        if option in words:
            place = words.index(option)
            words = words[:place] + words[place + length :]
    assert hs2.main(["parameters", *words]) == 0, words


def check_papermill(words):
    """A notebook that is there, with parameters that it has."""
    notebook = next(word for word in words if word.startswith("notebooks/"))
    known = specification(CHECKOUT / notebook)
    for place, word in enumerate(words):
        assert word != "-p" or words[place + 1] in known, words


def check_make(words):
    """A target of the Makefile, and variables that it reads."""
    text = (CHECKOUT / "Makefile").read_text()
    for word in words:
        name, is_variable, _ = word.partition("=")
        wanted = rf"\$[({{]{name}\b|^{name} [?:]?=" if is_variable else rf"^{re.escape(name)}:"
        assert re.search(wanted, text, re.M), f"make {' '.join(words)}"


def check_script(words):
    """A script that is there, with options that it has."""
    text = (CHECKOUT / words[0]).read_text()
    for word in words[1:]:
        assert not word.startswith("--") or f'"{word}"' in text, words


def check_module(module, rest):
    """A module that can be run, with options that it has."""
    parsers = {
        "hs2lib.audit": audit_command.parser,
    }
    if module == "hs2lib":
        check_hs2(rest)
    else:
        parsers[module]().parse_args(rest)


def check_words(words):
    program = words[0].removeprefix(".venv/bin/")
    if program in ("python", "torchrun") and "-m" in words[:4]:
        place = words.index("-m")
        check_module(words[place + 1], words[place + 2 :])
    elif program == "hs2":
        check_hs2(words[1:])
    elif program == "python" and words[1].startswith("runs/"):
        assert words[1].endswith("/classifier/use.py"), words
    elif program == "python":
        check_script(words[1:])
    elif program == "papermill":
        check_papermill(words[1:])
    elif program == "make":
        check_make(words[1:])
    else:
        assert program in OTHERS, words
        for option, value in itertools.pairwise(words):
            assert option != "-f" or (CHECKOUT / value).is_file(), words


@pytest.mark.slow
def test_every_command_of_readme_and_guide_is_one(tmp_path, monkeypatch, capsys):
    """Its options, parameters and files are there, also of those that are not run."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.chdir(tmp_path)
    own_files(tmp_path)
    shutil.copytree(CHECKOUT / "next", tmp_path / "next")
    (loss,) = [block for block in blocks("postcards.md", "python") if "def mine" in block]
    (tmp_path / "next" / "my_loss.py").write_text(loss)
    seen = 0
    for _, command in commands():
        for part in command.split(" && "):
            words = shlex.split(part, comments=True)
            root = CHECKOUT
            while words and re.match(r"[A-Z_0-9]+=", words[0]):
                if words.pop(0) == "HS2_ROOT=$PWD/next":
                    root = tmp_path / "next"
            monkeypatch.setenv("HS2_ROOT", str(root))
            if words:
                check_words(words)
                seen += 1
    assert seen > 60


# Every command that is run


def forty_lines(path):
    """A CSV of own ratings as README has it: twenty prompts, two responses, two attributes on 0 to 4."""
    lines = ["prompt,response,clarity,tone"]
    for number in range(20):
        clear = f"It has one cause. Here is step {number} in plain words."
        lines.append(f"Why does thing {number} happen?,{clear},{4 - number % 2},{3 + number % 2}")
        lines.append(f'Why does thing {number} happen?,"Well, who knows, {number}.",{number % 3},0')
    path.write_text("\n".join(lines) + "\n")


def own_files(folder):
    """The files of one's own that the pages name: ratings, pairs, answers, prompts, labelled pairs."""
    forty_lines(folder / "my.csv")
    rows = pd.read_csv(folder / "my.csv")
    up_to_five = rows.assign(clarity=rows.clarity + 1)
    up_to_five.assign(tone=rows.tone + 1).to_csv(folder / "stars.csv", index=False)
    up_to_five.assign(tone=rows.tone % 2).to_csv(folder / "panel.csv", index=False)
    of_excel = up_to_five[["prompt", "response"]].assign(
        stars=rows.tone + 1, length=rows.response.str.len()
    )
    of_excel.to_csv(folder / "survey.csv", sep=";", encoding="utf-8-sig", index=False)
    rows.assign(annotator=["ann", "bob"] * 20).to_csv(folder / "raters.csv", index=False)
    rows[["prompt", "response"]].to_csv(folder / "answers.csv", index=False)
    pairs = rows.assign(chosen=rows.response, rejected="No idea.").drop_duplicates("prompt")
    pairs = pairs[["prompt", "chosen", "rejected"]]
    pairs.to_csv(folder / "pairs.csv", index=False)
    pairs.to_csv(folder / "my-pairs.csv", index=False)
    pairs[["prompt"]].to_json(folder / "prompts.jsonl", orient="records", lines=True)
    rows.to_json(folder / "labels.jsonl", orient="records", lines=True)


def models(folder):
    """Name of a model in the pages -> the folder of a tiny one in its place."""
    base = folder / "tiny-base"
    AutoModelForCausalLM.from_pretrained(backbones.tiny_model()).save_pretrained(base)
    backbones.load_tokenizer("tiny").save_pretrained(base)
    judge = classifier(folder / "tiny-judge")
    by_name = dict.fromkeys(("owner/base", "owner/policy", "my-policy"), str(base))
    by_name |= dict.fromkeys(("owner/name", "owner/judge"), str(judge))
    return by_name | {"--model my-judge": f"--model {judge}"}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of the checkout with files of one's own, and without runs, reports of one's own and history."""
    for name in ("hs2lib", "notebooks", "params", "profiles"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns(".*"))
    for name in ("Makefile", "Snakefile", "README.md"):
        shutil.copy(CHECKOUT / name, tmp_path)
    (tmp_path / "reports").mkdir()
    for path in (CHECKOUT / "reports").iterdir():
        if path.suffix in (".py", ".md", ".css", ".html"):
            shutil.copy(path, tmp_path / "reports")
    for name in ("benchmarks", "published"):
        (tmp_path / "reports" / name).symlink_to(CHECKOUT / "reports" / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for name in ("HS2_REPORTS", "HS2_RUNS", "HS2_PUBLISHED", "HS2_DATA_DIR", "MAKEFLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own_files(tmp_path)
    return tmp_path


def smaller(command, replaced):
    """A command at tier smoke, with tiny models, one process, two seeds and a handful of prompts."""
    words = shlex.split(command, comments=True)
    command = shlex.join(words)
    if not READ_ONLY & set(words) and "published=true" not in words:
        command = re.sub(r" --tier \w+", "", command)
    for name, other in (
        *replaced.items(),
        ("--nproc-per-node 8", "--standalone --nproc-per-node 1"),
        ("--seeds 5", "--seeds 2"),
        ("--limit 200", "--limit 4 --n 2 --max-new-tokens 8"),
        ("n_prompts 200", "n_prompts 40"),
        (" -p source=hub", ""),
    ):
        command = command.replace(name, other)
    own = {f"path={name}.csv" for name in ("my", "pairs", "stars", "panel")} & set(words)
    if own and "05" in words and "model_name" not in command:
        command += " -p model_name=tiny"
    if words[0] == "make":  # the environment is there
        command = command.replace("make", "make READY=", 1)
    return command


def run(command, checkout):
    """Run a command by a shell in the copy; what it printed."""
    # A page may say `hs2` alone, as one types it in an environment that is active.
    path = f"{checkout / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=checkout,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": path},
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, f"{command}\n{printed[-4000:]}"
    return printed


def made(checkout):
    """The runs that have a report, as 05@mine."""
    folders = [path.parent.name for path in checkout.glob("reports/smoke/*/manifest.json")]
    return {name[:2] + "@" + name.partition("@")[2] if "@" in name else name for name in folders}


def walk(pages, checkout, replaced, without=None):
    """Run the commands of pages, each once; what each printed, by command as it was run.

    without: matches those that are left out.
    """
    printed = {}
    for page in pages:
        for of_page, command in commands():
            if of_page != page or not command.strip() or not runs_here(command):
                continue
            command = smaller(command, replaced)
            is_left_out = without and without.search(command)
            if command not in printed and not is_left_out:
                printed[command] = run(command, checkout)
    return printed


def scores_with_and_without_us(checkout, mine):
    """Our scores of four prompts, and those of the exported classifier in plain transformers."""
    folder = checkout / "runs/smoke" / mine
    groups = load("ratings", "folder", path=str(checkout / "my.csv")).groups[:4]
    ours = RewardModel.load(folder / "model").score(groups)
    tokenizer = AutoTokenizer.from_pretrained(folder / "classifier")
    plain = AutoModelForSequenceClassification.from_pretrained(
        folder / "classifier", dtype=torch.float32
    ).eval()
    theirs = []
    for group in groups:
        for response in group.responses:
            talk = [{"role": "user", "content": group.prompt[0].text}]
            talk.append({"role": "assistant", "content": response.text})
            tokens = tokenizer.apply_chat_template(talk, return_tensors="pt", return_dict=True)
            with torch.no_grad():
                theirs.append(plain(**tokens).logits[0])
    return ours, torch.stack(theirs)


@pytest.mark.long
def test_from_a_csv_of_ones_own_to_scores_without_hs2lib(checkout):
    """README's commands: check forty lines of CSV, train, measure, export, score."""
    replaced = models(checkout)
    printed = walk((OWN_RATINGS,), checkout, replaced)
    (used,) = [shown for command, shown in printed.items() if command.endswith("use.py")]
    assert re.findall(r"^(\w+): -?[\d.]+$", used, re.M) == ["clarity", "tone"]
    (scored,) = [shown for command, shown in printed.items() if "hs2 score" in command]
    assert "40 responses" in scored
    reports = checkout / "reports/smoke"
    accuracy = pd.read_csv(reports / "06_rewardbench_evaluation@mine/accuracy.csv")
    assert accuracy.pairs.tolist() == [5], "the pairs of the five prompts that were held out"
    mine = "05_reward_model_training@mine"
    assert figures_as_text(nbformat.read(reports / mine / f"{mine}.ipynb", 4)) == []
    ours, theirs = scores_with_and_without_us(checkout, mine)
    assert (theirs - ours).abs().max() < 1e-4


@pytest.mark.slow
@pytest.mark.long
def test_the_commands_of_the_pages_run(checkout):
    """One after the other in one folder, after README's; of those alike, one."""
    published = CHECKOUT / "reports/published/demo"
    for name in ("05_reward_model_training", "07_sft", "07_sft@seed-1"):
        shutil.copytree(published / name, checkout / "reports/demo" / name)
    printed = walk(("README.md", *PAGES), checkout, models(checkout), without=ALIKE)
    executed = nbformat.read(checkout / "my-01.ipynb", 4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert figures_as_text(executed) == []
    runs = made(checkout)
    assert {"05@mine", "06@mine", "05@prefer", "06@prefer", "06@pairs", "16@mine"} <= runs
    assert {"05@bt", "06@bt", "07@bt", "08@bt", "10_ppo"} <= runs
    read = json.loads((checkout / "reports/smoke/08_dpo@bt/manifest.json").read_text())["upstream"]
    assert {"05_reward_model_training@bt", "07_sft@bt"} <= set(read)
    compared = {command: shown for command, shown in printed.items() if "hs2 compare" in command}
    (of_seeds,) = [command for command in compared if "07@seed-1=07" in command]
    unchanged = "conclusions changed: none"
    assert unchanged not in compared.pop(of_seeds), "another policy, another table"
    assert all(unchanged in shown for shown in compared.values())
    assert (checkout / "audit/audit.md").is_file()
