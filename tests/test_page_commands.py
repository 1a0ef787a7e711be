"""The commands of README and the pages: each is one, and the cheap ones run as they stand.

The way from a CSV of one's own ratings to a classifier is in the default suite.
"""

import contextlib
import itertools
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
from pages import BLOCK, CHECKOUT, FOLLOWED, PAGES, blocks
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from hs2lib.commands import grid, hs2, rehearse
from hs2lib.data import check as doctor
from hs2lib.data.load import load
from hs2lib.models import backbones
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs import graph
from hs2lib.runs.parameters import specification
from hs2lib.score import __main__ as score_command

# What the slow walk runs: commands of seconds, or of a minute.
CHEAP = re.compile(
    r"make (help|clean DRY=1)|\S*papermill |\S*hs2 (check (my|faq)|list|parameters 0|score (answers|pairs)"
    r"|run (01 03|05 06 --name (prefer|order)|06 --name (mine -p path|pairs)|16 --name mine))"
)
OTHERS = set("cd conda export git hf kubectl llama-server pip transformers vllm xargs".split())  # noqa: SIM905
OF_RUN = {"--stage": 2, "--stream": 1}  # options that `hs2 parameters` has not, with their words


def own_ratings():
    """The lines that lead from a CSV to scores: the first block with them."""
    for page in (CHECKOUT / "README.md", CHECKOUT / "docs/your-data.md"):
        for language, _, block in blocks(page):
            if language == "sh" and "--name mine -p path=my.csv" in block:
                return block.splitlines()
    raise AssertionError("no page says how to train on ratings of one's own")


def commands():
    """(page, command) of each line of a block of sh, then of each command in the text."""
    for page in PAGES:
        for language, _, block in [] if page.name == FOLLOWED else blocks(page):
            if language == "sh":
                yield from ((page.name, line) for line in block.splitlines())
        for code in re.findall(r"`([^`\n]+)`", BLOCK.sub("", page.read_text())):
            if re.match(r"make [a-z]|\.venv/\S+ |hs2 (check|run|score|compare) .*[\d.]", code):
                yield page.name, code


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
    words = rehearse.without_rehearse(words)
    for option, length in OF_RUN.items():
        if option in words:
            place = words.index(option)
            words = words[:place] + words[place + length :]
    assert hs2.main(["parameters", *words]) == 0, words


def check_make(words):
    """A target of the Makefile, and variables that it reads."""
    text = (CHECKOUT / "Makefile").read_text()
    for word in words:
        name, is_variable, _ = word.partition("=")
        wanted = rf"\$[({{]{name}\b|^{name} [?:]?=" if is_variable else rf"^{re.escape(name)}:"
        assert re.search(wanted, text, re.M), f"make {' '.join(words)}"


def check_words(words):
    """A program with its words, without variables before it."""
    program = words[0].removeprefix(".venv/bin/")
    if program == "hs2":
        check_hs2(words[1:])
    elif program in ("python", "torchrun") and "-m" in words[:4]:
        place = words.index("-m")
        assert words[place + 1] == "hs2lib", words
        check_hs2(words[place + 2 :])
    elif program == "python" and not words[1].endswith("/classifier/use.py"):
        text = (CHECKOUT / words[1]).read_text()
        for word in words[2:]:
            assert not word.startswith("--") or f'"{word}"' in text, words
    elif program == "papermill":
        known = specification(CHECKOUT / words[3])
        for option, value in itertools.pairwise(words):
            assert option != "-p" or value in known, words
    elif program == "make":
        check_make(words[1:])
    elif program == "cp":  # a run of one's own, which the commands after it name
        shutil.copy(*words[1:])
    elif program != "python":
        assert program in OTHERS, words
        for option, value in itertools.pairwise(words):
            assert option != "-f" or (CHECKOUT / value).is_file(), words


@pytest.mark.slow
def test_every_command_of_the_pages_is_one(tmp_path, monkeypatch, capsys):
    """Its options, parameters and files are there, also of those that are not run."""
    own_files(tmp_path)
    (tmp_path / "notebooks").symlink_to(CHECKOUT / "notebooks")  # beside it a loss of one's own
    shutil.copytree(CHECKOUT / "params", tmp_path / "params")
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    for name in ("HS2_RUNS", "HS2_REPORTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    seen = 0
    for _, command in commands():
        for part in re.split(r" && | \| ", command):
            words = shlex.split(part, comments=True)
            while words and re.match(r"[A-Z_0-9]+=", words[0]):
                del words[0]
            if words:
                check_words(words)
                seen += 1
    assert seen > 60


# Commands that are run


def own_files(folder):
    """The files of one's own that the pages name."""
    rows = []
    for number in range(20):
        question = f"Why does thing {number} happen?"
        clear = f"It has one cause. Here is step {number} in plain words."
        rows.append((question, clear, 4 - number % 2, 3 + number % 2))
        rows.append((question, f"Well, who knows, {number}.", number % 3, 0))
    rows = pd.DataFrame(rows, columns=["prompt", "response", "clarity", "tone"])
    rows.to_csv(folder / "my.csv", index=False)
    rated = rows.assign(clarity=rows.clarity + 1)
    rated.assign(tone=rows.tone + 1).to_csv(folder / "stars.csv", index=False)
    rated.assign(tone=rows.tone % 2).to_csv(folder / "panel.csv", index=False)
    texts = rows[["prompt", "response"]]
    excel = texts.assign(stars=rows.tone + 1, length=rows.response.str.len())
    excel.to_csv(folder / "survey.csv", sep=";", encoding="utf-8-sig", index=False)
    rows.assign(annotator=["ann", "bob"] * 20).to_csv(folder / "raters.csv", index=False)
    texts.to_csv(folder / "answers.csv", index=False)
    faq = texts.rename(columns={"prompt": "question", "response": "answer"})
    faq.to_json(folder / "faq.jsonl", orient="records", lines=True)
    pairs = rows.assign(chosen=rows.response, rejected="No idea.").drop_duplicates("prompt")
    for name in ("pairs.csv", "my-pairs.csv"):
        pairs[["prompt", "chosen", "rejected"]].to_csv(folder / name, index=False)
    for name in ("SFT", "DPO"):
        (folder / f"runs/gpu/{'07_sft' if name == 'SFT' else '08_dpo'}/policy").mkdir(parents=True)
    (loss,) = [
        text for _, about, text in blocks(CHECKOUT / "docs" / FOLLOWED) if about == "> my_loss.py"
    ]
    (folder / "my_loss.py").write_text(loss)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of the checkout with files of one's own, and without runs and reports of one's own."""
    for name in ("hs2lib", "notebooks", "params"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns(".*"))
    for name in ("Makefile", "Snakefile", "README.md"):
        shutil.copy(CHECKOUT / name, tmp_path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for name in ("HS2_REPORTS", "HS2_RUNS", "HS2_PUBLISHED", "HS2_DATA_DIR", "MAKEFLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    # A page may say `hs2` alone, as one types it in an environment that is active.
    monkeypatch.setenv("PATH", f"{tmp_path / '.venv/bin'}{os.pathsep}{os.environ['PATH']}")
    own_files(tmp_path)
    AutoModelForCausalLM.from_pretrained(backbones.tiny_model()).save_pretrained(
        tmp_path / "owner/base"
    )
    backbones.load_tokenizer("tiny").save_pretrained(tmp_path / "owner/base")
    classifier(tmp_path / "owner/name")
    return tmp_path


def smaller(command, folder):
    """A command with tiny models that lie in the folder."""
    command = shlex.join(shlex.split(command, comments=True))
    command = command.replace("owner/", f"{folder}/owner/").replace("n_prompts 200", "n_prompts 40")
    if "run 05" in command and "path=" in command and "model_name" not in command:
        command += " -p model_name=tiny"
    if command.startswith("make"):  # the environment is there
        command = command.replace("make", "make READY=", 1)
    return command


def run(command, folder):
    """Run a command by a shell in the copy; what it printed."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, f"{command}\n{printed[-4000:]}"
    return printed


def scores_with_and_without_us(folder, mine):
    """Our scores of four prompts, and those of the exported classifier in plain transformers."""
    groups = load("ratings", "folder", path=str(folder / "my.csv")).groups[:4]
    ours = RewardModel.load(folder / "runs/smoke" / mine / "model").score(groups)
    exported = folder / "runs/smoke" / mine / "classifier"
    tokenizer = AutoTokenizer.from_pretrained(exported)
    plain = AutoModelForSequenceClassification.from_pretrained(exported, dtype=torch.float32).eval()
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
    """Check forty lines of CSV, train, measure, export, score."""
    printed = {
        line: run(smaller(line, checkout), checkout)
        for line in own_ratings()
        if "--example" not in line
    }
    (used,) = [shown for line, shown in printed.items() if "use.py" in line]
    assert re.findall(r"^(\w+): -?[\d.]+$", used, re.M) == ["clarity", "tone"]
    (scored,) = [shown for line, shown in printed.items() if "hs2 score" in line]
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
def test_the_cheap_commands_of_the_pages_run(checkout):
    """One after the other in one folder, after a reward model of one's own."""
    first = ".venv/bin/hs2 run 05 --name mine -p path=my.csv"
    cheap = [command for _, command in commands() if CHEAP.match(command)]
    for command in dict.fromkeys(smaller(command, checkout) for command in [first, *cheap]):
        if "--example" not in command:
            run(command, checkout)
    executed = nbformat.read(checkout / "my-02.ipynb", 4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    reports = checkout / "reports/smoke"
    for name in ("05_reward_model_training@prefer", "06_rewardbench_evaluation@pairs"):
        assert (reports / name / "manifest.json").is_file()
