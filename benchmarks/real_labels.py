"""Are the small world's labels like real ones that it was not fitted to? Ratings of 448 pairs of
HelpSteer2.

    python benchmarks/real_labels.py    # writes reports/benchmarks/real_labels.json

The generator was fitted to Tables 1 and 2 of the paper and to a public analysis of the train rows
(`calibrate_corpus.py`). The labels of 896 responses of the validation split (labels alone, from the
folder that HS2_DATA_DIR names) were kept out of that: here they are only looked at. Compared are
correlations, means and SDs of the five attributes, and how far two responses to one prompt are
apart, each with a 95 % interval over the real prompts.
"""

import gzip
import json
from itertools import combinations

import numpy as np

from hs2lib import paths
from hs2lib.data.load import load
from hs2lib.data.tables import table
from hs2lib.group import ATTRIBUTES
from hs2lib.report import report
from hs2lib.stats.bootstrap import resample_counts, student

FILE, PROMPTS, DRAWS = "helpsteer2/preference_validation_448_labels_only.jsonl.gz", 10_681, 2000


def real() -> np.ndarray:
    """The labels of both responses to each prompt, [448, 2, A]."""
    rows = [
        json.loads(line)
        for line in gzip.decompress((paths.data() / FILE).read_bytes()).splitlines()
    ]
    return np.array(
        [[[row[f"labels_{i}"][name] for name in ATTRIBUTES] for i in (1, 2)] for row in rows],
        dtype=float,
    )


def statistics(labels: np.ndarray) -> dict[str, float]:
    """What is compared, of labels [prompts, 2, A]."""
    flat = labels.reshape(-1, len(ATTRIBUTES))
    out = {
        f"R of {a} and {b}": np.corrcoef(flat[:, i], flat[:, j])[0, 1] for (i, a), (j, b) in PAIRS
    }
    for k, name in enumerate(ATTRIBUTES):
        gap = np.abs(labels[:, 0, k] - labels[:, 1, k]).mean()
        out |= {
            f"mean of {name}": flat[:, k].mean(),
            f"SD of {name}": flat[:, k].std(),
            f"gap in {name}": gap,
        }
    return out


PAIRS = list(combinations(enumerate(ATTRIBUTES), 2))


def main() -> None:
    ours = table(load("helpsteer2", "embedded", n_prompts=PROMPTS).groups)[
        list(ATTRIBUTES)
    ].to_numpy(float)
    made, known = statistics(ours.reshape(-1, 2, len(ATTRIBUTES))), real()
    draws = [
        statistics(np.repeat(known, count.astype(int), axis=0))
        for chunk in resample_counts(len(known), DRAWS, 0)
        for count in chunk
    ]
    rows = []
    for name, value in statistics(known).items():
        values = np.array([[draw[name]] for draw in draws])
        _, (low,), (high,) = student(np.array([value]), [values], len(known), DRAWS)
        row = {"statistic": name, "real": value, "low": low, "high": high, "generated": made[name]}
        rows.append({k: v if isinstance(v, str) else round(float(v), 3) for k, v in row.items()})
        rows[-1]["inside"] = bool(low <= made[name] <= high)
    correlations = [row for row in rows if row["statistic"].startswith("R")]
    furthest = max(correlations, key=lambda row: abs(row["generated"] - row["real"]))
    inside = sum(row["inside"] for row in correlations)
    result = {
        "name": "real_labels",
        "compared": "labels of the small world with those of 448 real pairs that it was not fitted to",
        "figure": f"{inside} of {len(correlations)} correlations inside the 95 % interval of the real ones; furthest: "
        f"{furthest['statistic']}, real {furthest['real']:.3f}, generated {furthest['generated']:.3f}",
        "goal": "each correlation inside the interval",
        "met": inside == len(correlations),
        "rows": rows,
        "device": report.device(),
        "commit": report.commit(),
    }
    paths.write(
        paths.reports() / "benchmarks" / "real_labels.json", json.dumps(result, indent=1) + "\n"
    )
    print(*rows, result["figure"], sep="\n")


if __name__ == "__main__":
    main()
