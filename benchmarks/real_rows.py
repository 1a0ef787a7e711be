"""Can a model of 135M weights tell the better of two real responses? HelpSteer2's validation rows,
by prompt.

    python benchmarks/real_rows.py --states     # read the texts once: half an hour of one core, kept as it goes
    python benchmarks/real_rows.py              # all the rest: four minutes

838 responses with five ratings by people, and the preferences of 403 of their pairs, 331 with a
direction (a folder named by HS2_DATA_DIR; tier laptop's data). SmolLM2-135M-Instruct is not
trained: ridge regression reads its states. The bar is .62: longest-wins is right in .619 of the 331
pairs, and ten surface features in at most .612.

Ten folds by prompt, dealt out five times. What is fitted or chosen for a fold sees nothing of it:
penalties, scales, and of all ways to read (`WAYS`) the one used, by five folds inside the training
folds. That choice is the figure that counts. The ways themselves stand beside it to learn from: the
best of them on all pairs is chosen by what it is measured on.

Ways: the state of the last token (the paper's, section 3) or the mean over the response's tokens;
of one layer or another; fitted to the helpfulness of single responses, to the sum of standardised
labels, or to the strength of preference between two; ten surface features and the response's own
log-probabilities beside it; and a head that starts from Open Assistant's ratings, which is fitted
to no row of HelpSteer2.
"""

import argparse
import io
import json
import re
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch

from hs2lib import paths
from hs2lib.data.load import load
from hs2lib.engine import attention
from hs2lib.engine.trees import BUDGET
from hs2lib.group import ATTRIBUTES, Group, prompt_string
from hs2lib.models.baselines import folds
from hs2lib.models.policy import load_policy
from hs2lib.report import report
from hs2lib.stats import bootstrap
from hs2lib.train.items import cluster, labels_of

BAR, LAYERS, CHUNK = 0.62, (8, 15, 22, 30), 32
# The sets that are read: their split, and the most prompts of it.
SETS = {"helpsteer2-partial": ("both", 419), "oasst1": ("validation", 128)}
ALPHAS = 10.0 ** np.arange(-4, 1.6, 0.5)  # times the number of rows
OUTER, INNER, DEALS = 10, 5, 5
SIZES, DRAWS = (50, 100, 200, 300), 3


# Reading


def read(backbone, batch) -> torch.Tensor:
    """Of each response of a batch: last state and mean state of every layer read, four figures of its own log p."""
    seen: dict[int, torch.Tensor] = {}

    def keep(layer, module, arguments, output):
        seen[layer] = output[0] if output[0].ndim == 2 else output[0][0]  # [T, H]

    layers = backbone.model.layers
    hooks = [layers[layer - 1].register_forward_hook(partial(keep, layer)) for layer in LAYERS[:-1]]
    try:
        hidden = attention.states(backbone, batch)  # [T, H], after the last norm
    finally:
        for hook in hooks:
            hook.remove()
    log_p = attention.log_probs(backbone, batch, hidden)  # [P]
    every = torch.stack([*(seen[layer] for layer in LAYERS[:-1]), hidden])  # [L, T, H]
    rows = []
    for row, end in enumerate(batch.end):
        own = batch.owner == row
        of_answer, states = log_p[own], every[:, batch.node[own]]  # [n], [L, n, H]
        figures = torch.stack(
            [
                of_answer.mean(),
                of_answer.min(),
                of_answer[: 1 + len(of_answer) // 4].mean(),
                of_answer.exp().mean(),
            ]
        )
        rows.append(torch.cat([every[:, end].flatten(), states.mean(1).flatten(), figures]))
    return torch.stack(rows)  # [R, 2 L H + 4]


def states(name: str, folder: Path) -> np.ndarray:
    """What is read of every response of a set, [rows, 2 L H + 4], kept by chunks: a killed run goes on."""
    groups, chunks, policy = groups_of(name), [], None
    for start in range(0, len(groups), CHUNK):
        file = folder / f"{name}-{start}.npy"
        if not file.exists():
            policy = policy or load_policy("embedded", max_tokens=2048)
            tokens = list(policy.tokenise(groups[start : start + CHUNK]))
            batches = [list(each.sequences) for each in tokens], BUDGET
            with attention.computing(policy):
                rows = attention.in_order(
                    partial(read, policy.backbone), *batches, predict=[t.starts for t in tokens]
                )
            content = io.BytesIO()
            np.save(content, rows.numpy())
            paths.write(file, content.getvalue())
            print(f"{name}: {min(start + CHUNK, len(groups))} of {len(groups)} prompts", flush=True)
        chunks.append(np.load(file))
    return np.concatenate(chunks).astype(np.float64)


@cache
def groups_of(name: str) -> list[Group]:
    """The first groups of a set, of Open Assistant those with ratings."""
    split, most = SETS[name]
    groups = load(name, "folder", split=split, strict=False).groups
    return [group for group in groups if all(response.labels for response in group.responses)][
        :most
    ]


def surface(group: Group) -> list[list[float]]:
    """Ten figures of each response's text."""
    asked, out = set(re.findall(r"\w+", group.prompt[-1].text.lower())), []
    for response in group.responses:
        text, words = response.text, re.findall(r"\w+", response.text.lower())
        several = max(1, len(words))
        lines = [line for line in text.splitlines() if line.strip()]
        listed = sum(bool(re.match(r"\s*([-*•]|\d+[.)])\s", line)) for line in lines)
        out.append(
            [
                np.log1p(len(text)),
                np.log1p(len(lines)),
                listed / max(1, len(lines)),
                text.count("**") / several,
                text.count("?"),
                sum(word.isdigit() for word in words) / several,
                len(set(words)) / several,
                len(asked & set(words)) / max(1, len(asked)),
                sum(map(len, words)) / several,
                float(text.rstrip()[-1:] in ".!?`)\"'"),
            ]
        )
    return out


# Rows and pairs


class Rows:
    """What is read, by name [rows, d], ratings [rows, 5], the prompt of each row; and the pairs of the preferences."""

    def __init__(self, folder: Path):
        read, groups = states("helpsteer2-partial", folder), groups_of("helpsteer2-partial")
        self.labels = np.column_stack([labels_of(groups, name) for name in ATTRIBUTES])
        prompts = [cluster(group) for group in groups for _ in group.responses]
        self.prompt = np.unique(prompts, return_inverse=True)[1]
        self.read = split(read) | {"surface": np.concatenate([surface(group) for group in groups])}
        place = {
            (prompt_string(g.prompt), r.text): 2 * i + j
            for i, g in enumerate(groups)
            for j, r in enumerate(g.responses)
        }
        pairs = load("helpsteer2-preference-partial", "folder").groups
        at = np.array(
            [[place[prompt_string(pair.prompt), r.text] for r in pair.responses] for pair in pairs]
        )
        self.first, self.second = at.T
        self.strength = np.array([pair.preference for pair in pairs])
        self.length = np.array(
            [len(response.text) for group in groups for response in group.responses]
        )
        self.read |= {
            "Open Assistant": self.from_oasst(folder),
            "length": np.log1p(self.length)[:, None],
        }

    def from_oasst(self, folder: Path) -> np.ndarray:
        """[rows, 4]: helpfulness and quality by ridge on Open Assistant, from last states and from mean ones."""
        read, groups = split(states("oasst1", folder)), groups_of("oasst1")
        trees = np.unique([cluster(g) for g in groups for _ in g.responses], return_inverse=True)[1]
        columns = []
        for name, what in (
            ("end 30", "helpfulness"),
            ("end 30", "quality"),
            ("mean 22", "helpfulness"),
            ("mean 22", "quality"),
        ):
            y = labels_of(groups, what)
            known = np.isfinite(y)
            X, fold = read[name][known], folds(trees[known], 5)
            scaled, back = scale(X), scale(X, self.read[name])
            error = [
                (
                    (
                        path(scaled[fold != f], y[known][fold != f], scaled[fold == f])
                        - y[known][fold == f, None]
                    )
                    ** 2
                ).sum(0)
                for f in range(5)
            ]
            columns.append(path(scaled, y[known], back)[:, np.sum(error, axis=0).argmin()])
        return np.column_stack(columns)


def split(read: np.ndarray) -> dict[str, np.ndarray]:
    """The parts of what `states` gives, by name: "end 30", "mean 8", .., "log p"."""
    width = (read.shape[1] - 4) // (2 * len(LAYERS))
    names = [f"{kind} {layer}" for kind in ("end", "mean") for layer in LAYERS]
    parts = {name: read[:, i * width : (i + 1) * width] for i, name in enumerate(names)}
    return parts | {"log p": read[:, -4:]}


# Ridge


def scale(X: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
    """`other` (else X) with columns centred and scaled as in X, and all of X of mean square 1: blocks weigh alike."""
    spread = X.std(axis=0)
    rows = X if other is None else other
    return (rows - X.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0) / np.sqrt(X.shape[1])


def path(X: np.ndarray, y: np.ndarray, test: np.ndarray, intercept: bool = True) -> np.ndarray:
    """Predictions [rows of test, alphas] of ridge on X, one for each of `ALPHAS`."""
    centre, middle = (X.mean(axis=0), y.mean()) if intercept else (0.0, 0.0)
    X, y, test = X - centre, y - middle, test - centre
    wide = X.shape[1] > len(X)  # then in the space of the rows, which is the smaller one
    values, vectors = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    target, test = (y, test @ X.T) if wide else (X.T @ y, test)
    shrunk = (vectors.T @ target)[:, None] / (values[:, None] + ALPHAS * len(X))  # [k, alphas]
    return test @ (vectors @ shrunk) + middle


# What is read, and what it is fitted to.
WAYS = {
    "surface features": (("surface",), "pairs"),
    "end state, ratings (the paper's)": (("end 30",), "helpfulness"),
    "end state, standardised labels": (("end 30",), "standardised"),
    "end state, pairs": (("end 30",), "pairs"),
    **{f"mean state, layer {layer}, pairs": ((f"mean {layer}",), "pairs") for layer in LAYERS},
    "mean state, layer 22, ratings": (("mean 22",), "helpfulness"),
    "mean state, layer 22, standardised labels": (("mean 22",), "standardised"),
    "mean and end of layers 15 and 22, pairs": (
        ("mean 15", "mean 22", "end 15", "end 22"),
        "pairs",
    ),
    "mean state, layers 8 and 15, pairs": (("mean 8", "mean 15"), "pairs"),
    "mean state, layer 15, standardised labels": (("mean 15",), "standardised"),
    "mean state, layer 15, and length, pairs": (("mean 15", "length"), "pairs"),
    "mean state, layer 15, and surface, pairs": (("mean 15", "surface"), "pairs"),
    "log-probabilities and surface, pairs": (("log p", "surface"), "pairs"),
    "mean state, log-probabilities and surface, pairs": (("mean 22", "log p", "surface"), "pairs"),
    "mean state, log-probabilities and surface, standardised labels": (
        ("mean 22", "log p", "surface"),
        "standardised",
    ),
    "head of Open Assistant, pairs": (("Open Assistant",), "pairs"),
    "head of Open Assistant, mean state and surface, pairs": (
        ("Open Assistant", "mean 22", "surface"),
        "pairs",
    ),
}


def predicted(rows: Rows, way: str, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Second less first response of the test pairs [n, alphas], fitted to the prompts of `train`
    alone.

    train: bool [prompts]. test: indices of pairs.
    """
    parts, target = WAYS[way]
    seen = train[rows.prompt]  # [rows]
    X = np.concatenate([scale(rows.read[name][seen], rows.read[name]) for name in parts], axis=1)
    apart = X[rows.second] - X[rows.first]
    if target == "pairs":
        known = train[rows.prompt[rows.first]]
        return path(apart[known], rows.strength[known], apart[test], intercept=False)
    labels = rows.labels
    y = labels[:, 0]
    if target == "standardised":  # of the three that goodness weighs
        y = ((labels - labels[seen].mean(0)) / labels[seen].std(0))[:, :3].sum(axis=1)
    # Of a difference the constant is gone.
    return path(
        X[seen] - X[seen].mean(axis=0), y[seen] - y[seen].mean(), apart[test], intercept=False
    )


def inside(rows: Rows, train: np.ndarray, ways: list[str], seed: int) -> dict[str, np.ndarray]:
    """R with the strength of preference, of each way and penalty, over folds inside the training prompts."""
    prompt = rows.prompt[rows.first]
    known = np.flatnonzero(train[prompt])
    fold = folds(prompt[known], INNER, seed)
    out = {}
    for way in ways:
        guess = np.empty((len(known), len(ALPHAS)))
        for f in range(INNER):
            less = train.copy()
            less[prompt[known[fold == f]]] = False
            guess[fold == f] = predicted(rows, way, less, known[fold == f])
        out[way] = np.array([np.corrcoef(g, rows.strength[known])[0, 1] for g in guess.T])
    return out


def cross_validated(rows: Rows, seed: int, ways: list[str], size: int = 0) -> dict[str, np.ndarray]:
    """Second less first response of every pair [pairs], by way, and by the way chosen inside the
    training folds.

    size: of the training prompts only so many, drawn at random.
    """
    prompt = rows.prompt[rows.first]
    fold, rng = folds(prompt, OUTER, seed), np.random.default_rng(seed)
    out = {way: np.empty(len(prompt)) for way in [*ways, "chosen inside"]}
    out["ways"] = []
    for f in range(OUTER):
        train = np.ones(rows.prompt.max() + 1, dtype=bool)
        train[prompt[fold == f]] = False
        if size:
            train[rng.permutation(np.flatnonzero(train))[size:]] = False
        test = np.flatnonzero(fold == f)
        scores = inside(rows, train, ways, seed)
        for way in ways:
            out[way][test] = predicted(rows, way, train, test)[:, scores[way].argmax()]
        best = max(ways, key=lambda way: scores[way].max())
        out["chosen inside"][test] = out[best][test]
        out["ways"].append(best)
    return out


# Figures


def right(rows: Rows, guess: np.ndarray) -> np.ndarray:
    """Whether each pair with a direction is ordered as people have it, float [331]; equal scores are wrong."""
    some = rows.strength != 0
    return (np.sign(guess[some]) == np.sign(rows.strength[some])).astype(float)


def compared(rows: Rows, shares: np.ndarray, floor: np.ndarray) -> dict:
    """Pairs right, and the paired difference from `floor`, with 95 % intervals by prompt."""
    prompt = rows.prompt[rows.first][rows.strength != 0]
    both = [np.column_stack([np.ones(len(x)), x]) for x in (shares, floor)]
    mean = lambda sums: sums[:, 1:] / sums[:, :1]  # noqa: E731
    own = bootstrap.bootstrap(both[0], prompt, mean, n_boot=10_000)
    less = bootstrap.difference(*both, prompt, mean, n_boot=10_000)
    names = ("right", "low", "high", "less longest", "less longest low", "less longest high")
    return {name: round(float(x[0]), 4) for name, x in zip(names, [*own, *less], strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--states", action="store_true", help="only read the texts")
    parser.add_argument("--folder", type=Path, default=paths.runs() / "real_rows")
    options = parser.parse_args()
    if options.states:
        for name in SETS:
            states(name, options.folder)
        return
    rows = Rows(options.folder)
    longest = right(rows, rows.length[rows.second] - rows.length[rows.first])
    ways = list(WAYS)
    deals = []
    for seed in range(DEALS):
        deals.append(cross_validated(rows, seed, ways))
        print(
            f"deal {seed + 1} of {DEALS}: {right(rows, deals[-1]['chosen inside']).mean():.3f}",
            flush=True,
        )
    table = {}
    for way in [*ways, "chosen inside"]:
        shares = np.mean([right(rows, deal[way]) for deal in deals], axis=0)
        r = np.mean([np.corrcoef(deal[way], rows.strength)[0, 1] for deal in deals])
        table[way] = compared(rows, shares, longest) | {"R with strength": round(float(r), 4)}
    used = [way for deal in deals for way in deal["ways"]]
    curve = []
    for way in ("end state, ratings (the paper's)", max(ways, key=used.count)):
        for size in SIZES:
            each = [
                right(rows, cross_validated(rows, 100 + draw, [way], size)[way]).mean()
                for draw in range(DRAWS)
            ]
            curve.append({"way": way, "prompts": size, "right": round(float(np.mean(each)), 4)})
            print(curve[-1], flush=True)
    chosen = table["chosen inside"]
    result = {
        "name": "real_rows",
        "compared": "ridge on states of SmolLM2-135M-Instruct against longest-wins, 331 real pairs of HelpSteer2's "
        "validation split, ten folds by prompt, every choice inside the training folds",
        "figure": f"{chosen['right']:.3f} right ({chosen['low']:.3f} to {chosen['high']:.3f}), longest-wins "
        f"{longest.mean():.3f}; difference {chosen['less longest']:+.3f} ({chosen['less longest low']:+.3f} to "
        f"{chosen['less longest high']:+.3f})",
        "goal": f"above {BAR}, and the paired difference's interval leaves out 0",
        "met": bool(chosen["right"] > BAR and chosen["less longest low"] > 0),
        "pairs": int((rows.strength != 0).sum()),
        "longest wins": round(float(longest.mean()), 4),
        "ways": table,
        "chosen": {way: used.count(way) for way in sorted(set(used))},
        "learning curve": curve,
        "device": report.device(),
        "commit": report.commit(),
    }
    print(json.dumps(result, indent=1))
    paths.write(
        paths.reports() / "benchmarks" / "real_rows.json", json.dumps(result, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
