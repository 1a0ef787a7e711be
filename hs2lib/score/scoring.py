"""Score a file of prompts and responses: read, fitted to the model, scored, written.

    scored = score("pairs.jsonl", "owner/name", "scored.jsonl")
    scored.accuracy  # beside the longest, the shortest and chance, where the file has preferences

`hs2 score` is the same as a command. Scores are kept beside the output as they come,
so that a run that was killed goes on. They are those of plain transformers, one response at a time.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from tqdm.auto import tqdm

from hs2lib.data.files import PromptFile, parse_columns, read_file
from hs2lib.data.load import own_file
from hs2lib.engine.trees import BUDGET
from hs2lib.evaluate.rewardbench import weighting_of
from hs2lib.evaluate.score_meaning import thresholds_in_words
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.backbones import source_of
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.models.saved import SOURCES, device
from hs2lib.names import PRECISIONS, one_of
from hs2lib.paths import sha256
from hs2lib.score import accuracy, output
from hs2lib.score.fit import TOO_LONG, Fitted, fit

# What becomes of a row that is faulty.
BAD_ROWS = ("stop", "leave-out")

# Tokens of a batch on a GPU.
GPU_BUDGET = 16384

# Batches that are scored before their results are kept, in characters of four a token.
CHARACTERS = 8 * 4


@dataclass(frozen=True)
class Scored:
    """The scores of a file.

    file: what was read.
    outputs: the names of the model's outputs.
    values: of each row float64 [G, A]; None where it was left out because it is too long. A
        response that the model refuses has nan.
    weights: by output; {} where no overall score was asked for.
    fitted: what was cut and left out.
    accuracy: of `hs2lib.score.accuracy`; empty where the file does not say which response is
        better, or there is no overall score.
    out: the file that was written, if one was.
    """

    file: PromptFile
    outputs: tuple[str, ...]
    values: tuple[np.ndarray | None, ...]
    weights: dict[str, float]
    fitted: Fitted
    accuracy: pd.DataFrame
    out: Path | None = None

    @property
    def scores(self) -> list[np.ndarray | None]:
        """The overall score of each response, float64 [G] of each row."""
        return _weighed(self.values, list(self.weights.values()))

    def in_words(self) -> list[str]:
        """What was read, what became of it and how often it is right, in lines."""
        lines = [*self._rows_in_words(), *self._weights_in_words()]
        lines += accuracy.in_words(self.accuracy)
        meaning = accuracy.meaning(self.file.rows, self.scores) if self.weights else None
        if meaning:
            lines.append(thresholds_in_words(meaning))
        if self.file.ties:
            lines.append(f"ties in the file, which do not count: {self.file.ties:,}")
        has_several = any(len(row.places) > 1 for row in self.file.rows)
        if has_several and not any(row.comparisons or row.tie for row in self.file.rows):
            lines.append("no column says which response is better")
        return lines

    def _rows_in_words(self) -> list[str]:
        """How the file was read, and which of its rows were left out or cut."""
        file = self.file
        n_responses = sum(len(row.places) for row in file.rows)
        first = "" if file.complete else "the first "
        lines = [
            f"{file.path}: {first}{len(file.rows):,} rows, {n_responses:,} responses",
        ]
        lines.append(f"  read: {file.read_as}")
        if file.carried:
            lines.append(f"  carried along: {', '.join(file.carried)}")
        if file.set_aside:
            number = len(file.set_aside)
            lines.append(f"  bad rows, left out: {number:,}; the first: {file.set_aside[0]}")
        if self.fitted.left_out:
            line, n_tokens = next(iter(self.fitted.left_out.items()))
            lines.append(
                f"  rows that are too long, without a score: {len(self.fitted.left_out):,}; "
                f"the first in line {line} with {n_tokens:,} tokens"
            )
        if self.fitted.cut:
            line, words = next(iter(self.fitted.cut.items()))
            lines.append(
                f"  rows that were too long, cut: {len(self.fitted.cut):,}; "
                f"the first in line {line} by {words}"
            )
        present = [values for values in self.values if values is not None]
        refused = sum(int(np.isnan(values).any()) for values in present)
        if refused:
            lines.append(f"  rows with control strings, which the model refuses: {refused:,}")
        return lines

    def _weights_in_words(self) -> list[str]:
        """How several outputs were weighed."""
        if not self.weights:
            outputs = ", ".join(self.outputs)
            return [
                f"  no overall score: the model has the outputs {outputs}; "
                f"weigh them, as --weights {self.outputs[0]}:1"
            ]
        if len(self.outputs) == 1:
            return []
        named = ", ".join(f"{name} {weight:g}" for name, weight in self.weights.items())
        return [f"  overall score: {named}"]


def score(
    file: str | Path,
    model: str | Path | RewardModel,
    out: str | Path | None = None,
    *,
    columns: str = "",
    limit: int = 0,
    too_long: str = "stop",
    bad_rows: str = "stop",
    weights: str = "",
    column: str = "score",
    max_tokens: int = 0,
    precision: str = "float32",
    budget: int = 0,
    progress: bool = False,
    **options: object,
) -> Scored:
    """Score every response of a file, and write its rows with their scores.

    A score is that of the response alone: it depends on nothing else in the file, beyond the
    rounding of sums. Paper: section 3 (Table 3 scores pairs so).

    Args:
        file: JSONL, JSON, CSV or Parquet, as `hs2lib.data.files` describes it.
        model: a transformers sequence classifier over a causal decoder, by Hub name or folder, or a
            model that `RewardModel.save` wrote, or one that is loaded.
        out: the file to write, .jsonl, .csv or .parquet; None to write none. It appears whole, or
            not at all. Until then scores are kept in a hidden folder beside it.
        columns: those with other names, as "prompt=question,response=answer".
        limit: of rows; 0 for all.
        too_long: what becomes of rows that are longer than the model reads: "stop", "cut" or
            "leave-out", as `hs2lib.score.fit` says it. A row that is left out has no score.
        bad_rows: what becomes of faulty rows: "stop", or "leave-out" of the output.
        weights: of the model's outputs for one overall score, as for `hs2lib.paper.head_weights`.
            By default a single output counts as it is, and HelpSteer2's attributes by the paper's
            weights.
        column: what the new columns are called, see `hs2lib.score.output.columns`.
        max_tokens: the longest sequence; 0 for what the model says.
        precision: "bfloat16" for speed on a GPU.
        budget: tokens of a batch; 0 for 2,048 on a CPU and 16,384 on a GPU.
        progress: whether to show a bar.
        options: for a classifier, as for `RewardModel.from_classifier`.

    Raises:
        DataError: the file or a row of it cannot be used; it names file, line, field and fix.
        ValueError: an option or the model cannot be used.
    """
    one_of("too_long", too_long, TOO_LONG)
    one_of("bad_rows", bad_rows, BAD_ROWS)
    one_of("precision", precision, PRECISIONS)
    if not column.strip():
        raise ValueError("the new columns have no name. Fix: name them with --column NAME")
    path, _ = own_file(file, None)
    target = None if out is None else Path(out).expanduser()
    if target:
        output.check(target, path)
    read = read_file(
        path,
        parse_columns(columns),
        strict=bad_rows == "stop",
        limit=limit,
        advice="Or leave such rows out with --bad-rows leave-out.",
    )
    output.check_columns(read, column)
    if target:
        output.check_rows(target, [row.row for row in read.rows], path)
    if not isinstance(model, RewardModel):
        model = loaded(model, options)
    if max_tokens:
        model.max_tokens = min(max_tokens, model.max_tokens or max_tokens)
    weights_by_output = _weights(model, weights)
    outputs = _suffixes(model, weights_by_output)
    output.check_columns(read, column, outputs)
    fitted = fit(read, model, too_long)
    if not any(fitted.groups):
        raise ValueError(f"{path}: every row is longer than {model.max_tokens:,} tokens")
    kept = None if target is None else output.kept_beside(target)
    budget = budget or (BUDGET if device() == "cpu" else GPU_BUDGET)
    values = tuple(_values(fitted.groups, model, kept, precision, budget, progress))
    scores = _weighed(values, list(weights_by_output.values()))
    table = accuracy.accuracy(read.rows, scores)
    if target:
        written = [_written(*pair) for pair in zip(values, scores, strict=True)]
        rows = output.scored_rows(read, written, column, outputs)
        output.write(target, rows, path)
        shutil.rmtree(kept, ignore_errors=True)
    return Scored(read, model.attributes, values, weights_by_output, fitted, table, target)


def loaded(name: str | Path, options: dict[str, object]) -> RewardModel:
    """A reward model by name, on the device that runs it; raises ValueError in one line."""
    if options.get("revision") and Path(name).expanduser().is_dir():
        raise ValueError(
            f"{name} is a folder, which has no revisions. Fix: leave --revision out, or name the "
            "Hub repository"
        )
    try:
        if "/" not in str(name) and not Path(source_of(name)).is_dir():
            raise ValueError("there is no such folder.")
        return load_reward_model(name, **options).to(device()).eval()
    except (OSError, SafetensorError, ValueError) as error:
        raise ValueError(
            f"the model {name} cannot be loaded: {cause_of(error, name)} Fix: name the folder or "
            "the Hub repository of a trained sequence classifier, or of a model of notebook 05."
        ) from error


def was_trained_on(name: str | Path, file: Path) -> bool:
    """Whether a model of notebook 05 says that it was trained on this file as it is now."""
    noted = Path(source_of(name)) / SOURCES
    return noted.is_file() and file.is_file() and f"sha256 {sha256(file)[:12]}" in noted.read_text()


def cause_of(error: Exception, name: str | Path) -> str:
    """Why a model could not be loaded, in one line.

    A name with two slashes, or one that begins as a path does, is no repository of the Hub.
    """
    place = str(name)
    is_path = place.count("/") > 1 or place.startswith((".", "~", "/"))
    if is_path and not Path(place).expanduser().exists():
        return "there is no such folder."
    if Path(place).expanduser().is_file():
        return "it is a file."
    if (Path(place).expanduser() / "model").is_dir():
        return f"it holds a run, whose model is {place.rstrip('/')}/model."
    lines = (str(error).strip() or type(error).__name__).splitlines()
    cause = " ".join(lines) if lines[0].rstrip().endswith(":") else lines[0]
    return cause if cause.endswith((".", "!", "?")) else f"{cause}."


def _weights(model: RewardModel, text: str) -> dict[str, float]:
    """The weight of each output in the overall score; {} where there is none.

    text: as for `hs2lib.paper.head_weights`, or "" for the default. Raises ValueError as that does.
    """
    is_known = len(model.attributes) == 1 or set(ATTRIBUTES) <= set(model.attributes)
    if not (text or is_known or model.scales):
        return {}
    weighting = weighting_of(model.attributes, model.scales, text)
    return dict(zip(model.attributes, weighting.values.tolist(), strict=True))


def _suffixes(model: RewardModel, weights: dict[str, float]) -> tuple[str, ...]:
    """What the columns of scores end in: "" for the overall score, and each output of several."""
    overall = ("",) if weights else ()
    return (*overall, *model.attributes) if len(model.attributes) > 1 else overall


def _weighed(
    values: Sequence[np.ndarray | None], weights: Sequence[float]
) -> list[np.ndarray | None]:
    """The overall score of each response, [G] of each row; None without weights or values."""
    scores = []
    for of_row in values:
        has_score = of_row is not None and len(weights) > 0
        scores.append(of_row @ np.array(weights) if has_score else None)
    return scores


def _written(values: np.ndarray | None, scores: np.ndarray | None) -> list[list[float]] | None:
    """What is written of a row: of each response the overall score, and each output of several."""
    if values is None:
        return None
    parts = []
    if scores is not None:
        parts.append(scores[:, None])
    if values.shape[1] > 1:
        parts.append(values)
    return np.hstack(parts).tolist()


def _values(
    groups: Sequence[Group | None],
    model: RewardModel,
    kept: Path | None,
    precision: str,
    budget: int,
    progress: bool,
) -> Iterator[np.ndarray | None]:
    """The outputs of each group's responses, float64 [G, A]; None for a group that is left out.

    Args:
        groups: to score.
        model: that scores them.
        kept: the folder in which outputs are kept as they come.
        precision: what the model computes in.
        budget: tokens of a batch.
        progress: whether to show a bar.
    """
    present = [group for group in groups if group is not None]
    results = None if kept is None else model.kept(kept, "scores", precision)
    values: list[np.ndarray] = []
    with tqdm(total=len(present), unit="prompt", disable=not progress) as bar:
        for chunk in _chunks(present, CHARACTERS * budget):
            n_kept = len(results or ())
            tokens = model.tokenise(chunk)
            of_chunk = model.score(tokens, cache=results, autocast=precision, budget=budget)
            values += _by_group(of_chunk.double().numpy(), chunk)
            if progress and results is not None and len(results) == n_kept:
                bar.initial += len(chunk)  # what was kept is no progress: it has no rate
            bar.update(len(chunk))
    of_present = iter(values)
    for group in groups:
        yield None if group is None else next(of_present)


def _by_group(values: np.ndarray, groups: Sequence[Group]) -> list[np.ndarray]:
    """Values [R, A] of the responses of groups, as [G, A] of each group."""
    ends = np.cumsum([len(group.responses) for group in groups])
    return np.split(values, ends[:-1])


def _chunks(groups: Sequence[Group], characters: int) -> Iterator[list[Group]]:
    """Groups in order, so many at a time that their texts have at least so many characters."""
    chunk: list[Group] = []
    size = 0
    for group in groups:
        chunk.append(group)
        size += sum(len(turn.text) for turn in group.prompt)
        size += sum(len(response.text) for response in group.responses)
        if size >= characters:
            yield chunk
            chunk = []
            size = 0
    if chunk:
        yield chunk
