"""How far verdicts and intervals can be trusted: the paper's own numbers, honest runs, shifted runs, wrong models.

    python benchmarks/verdicts.py [--times 2000] [--dry]

Golden: the paper's numbers in place of ours, then with one number at a time moved by ten margins. Honest: numbers of
ours that vary about the paper's truth as theirs do, by the spreads of `hs2lib/paper/columns.csv`; shifted: moved by
three standard deviations of the difference. False matches: another row's printed numbers in place of a row's. Coverage:
intervals of means of few prompts, as the library makes them and by plain percentiles. Seconds on one core.
"""

import argparse
import json

import numpy as np
import pandas as pd

from hs2lib import paths
from hs2lib.paper import TABLES
from hs2lib.report import report, verdict
from hs2lib.stats import bootstrap


def printed(table: str) -> pd.DataFrame:
    """All numbers that a table prints, as ours too."""
    lines = [(*cell, value, value, "") for cell, value in TABLES[table].values.items() if value is not None]
    return pd.DataFrame(lines, columns=["row", "column", "paper", "ours", "not comparable"])


def golden(table: str) -> dict:
    """Verdicts on the paper's own numbers, and how many moved ones are the only different number of their table."""
    known, frame = TABLES[table], printed(table)
    alone = 0
    for place, row in frame.iterrows():
        moved = frame.ours.where(frame.index != place, row.ours + 10 * known.rules[row.row, row.column].margin)
        called = verdict.judge(frame.assign(ours=moved), known)
        alone += called[called == verdict.DIFFERENT].index.tolist() == [place]
    return {"verdicts": verdict.judge(frame, known).value_counts().to_dict(), "moved": len(frame), "seen alone": alone}


def runs(table: str, times: int, seed: int) -> dict:
    """Shares of verdicts of honest runs, of tables with a different number, and of shifted numbers below .05."""
    known, frame, rng = TABLES[table], printed(table), np.random.default_rng(seed)
    spread = np.array([known.rules[cell].spread for cell in zip(frame.row, frame.column, strict=True)])  # [n]
    called, seen = [], []
    for _ in range(times):
        noise = np.sqrt(2) * spread * rng.normal(size=len(frame))
        called.append(verdict.judge(frame.assign(ours=frame.paper + noise), known).to_numpy(str))
        shifted = frame.assign(ours=frame.paper + noise + 3 * np.sqrt(2) * spread)
        seen.append((verdict.differences(shifted, known).p < verdict.LEVEL).mean())
    called = np.array(called)  # [times, n]
    shares = {name: round(float((called == name).mean()), 4) for name in verdict.JUDGED}
    any_different = float((called == verdict.DIFFERENT).any(axis=1).mean())
    return {"verdicts": shares, "any different": any_different, "shift of 3 SD seen": float(np.mean(seen))}


def coverage(n_clusters: int, times: int) -> dict:
    """Shares of samples whose interval of the mean holds the truth; skewed values, two responses a prompt."""
    rng = np.random.default_rng(n_clusters)
    values = rng.exponential(1, (n_clusters, 2, times)).mean(axis=1) + rng.exponential(1, (n_clusters, times))
    _, low, high = bootstrap.from_sums(values, lambda s: s / n_clusters, n_boot=1000)
    draws = np.concatenate([c @ values / n_clusters for c in bootstrap.resample_counts(n_clusters, 1000, 0)])
    plain = np.quantile(draws, [0.025, 0.975], axis=0)
    held = {"ours": (low, high), "percentiles": plain}
    return {name: round(float(np.mean((a <= 2) & (b >= 2))), 4) for name, (a, b) in held.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = parser.parse_args()
    whole = {table: golden(table) for table in TABLES}
    honest = {table: runs(table, options.times, 0) for table in ("table-3", "table-4")}
    wrong = {table: verdict.mistaken(table).to_dict("index") for table in verdict.STAND_INS}
    covered = {n: coverage(n, options.times) for n in (8, 16, 32, 100)}
    different = sum(one["verdicts"].get(verdict.DIFFERENT, 0) for one in whole.values())
    judged = sum(one["moved"] for one in whole.values())
    met = different == 0 and all(one["moved"] == one["seen alone"] for one in whole.values())
    room = 2 * np.sqrt(0.05 * 0.95 / options.times)  # of the simulation itself
    met &= all(one["any different"] <= 0.05 + room and one["shift of 3 SD seen"] >= 0.8 for one in honest.values())
    result = {
        "name": "verdicts",
        "compared": "verdicts on the paper's own numbers, on simulated honest and shifted runs, and on wrong models",
        "figure": f"{different} of the paper's own {judged} numbers different; any different in "
        + " and ".join(f"{one['any different']:.1%}" for one in honest.values())
        + " of honest runs of Tables 3 and 4",
        "goal": "none; one moved by ten margins is the only one; at most 5 % (within two standard errors of the "
        "simulation); a shift of 3 SD seen in at least 80 %",
        "met": bool(met),
        "golden": whole, "honest": honest, "false matches": wrong, "coverage of 95 %": covered,
        "device": report.device(), "commit": report.commit(),
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    if not options.dry:
        paths.write(paths.reports() / "benchmarks" / "verdicts.json", json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
