"""A million generated rows through 01's statistics: does time grow linearly, and does memory stay
under 2 GB?

Rows are streamed from the corpus into `data.table` and from there into Table 2 with intervals
(1,000 resamples of prompts), at 10,000, 100,000 and 1,000,000 rows. Each size runs in a process of
its own, so that its peak memory is its own. Texts are generated at a tenth of the paper's length:
what is measured is the statistics, and their cost does not depend on how long the texts were.
Growth is taken from processor time of one thread, which other work on the machine disturbs less;
wall time is recorded too. Beside it: Table 2 on as many rows as HelpSteer2 has, statistics alone.

    python benchmarks/stats_million.py
"""

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

SIZES = (10_000, 100_000, 1_000_000)
RELEASED_ROWS = 21_362
COLUMNS = ("turns", "prompt_chars", "response_chars")
GOAL = "time per row at 1,000,000 rows within 15 % of that at 10,000; peak memory under 2 GB; 21,362 rows under 5 s"


def measure(n_rows: int) -> dict:
    """Seconds and peak memory of one size, in this process."""
    from hs2lib import group
    from hs2lib.corpus import generate
    from hs2lib.data import tables
    from hs2lib.stats import describe

    names = [*group.ATTRIBUTES, *COLUMNS]
    # Warm: what is paid once a process (imports, first draw, caches) is no cost of a row.
    warm = tables.table(generate.groups(1000, seed=1))
    describe.table_2(warm[names].to_numpy(float), names, warm.group.to_numpy(), n_boot=100)
    start, cpu = time.perf_counter(), time.process_time()
    rows = tables.table(generate.groups(n_rows // 2))
    streamed = time.perf_counter()
    cells = describe.table_2(rows[names].to_numpy(float), names, rows.group.to_numpy())
    done, cpu = time.perf_counter(), time.process_time() - cpu
    own = rows[names].agg(["mean", "std"]).T.to_numpy().ravel()
    ours = [cell["ours"] for cell in cells if not cell["column"].startswith("R")]
    return {
        "rows": len(rows),
        "stream_s": streamed - start,
        "statistics_s": done - streamed,
        "total_s": done - start,
        "processor_s": cpu,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "equals_pandas": bool(np.allclose(ours, own, rtol=1e-9)),
        "inside_intervals": all(cell["low"] <= cell["ours"] <= cell["high"] for cell in cells),
    }


def main() -> None:
    import common

    sizes = (*SIZES[:1], RELEASED_ROWS, *SIZES[1:])
    # Small sizes take a second or two, within the noise of a busy machine: the quietest of several
    # runs counts.
    repeats = {size: 1 if size > 100_000 else 3 for size in sizes}
    runs = {size: [_child(size) for _ in range(repeats[size])] for size in sizes}
    best = {size: min(timed, key=lambda run: run["processor_s"]) for size, timed in runs.items()}
    per_row = {size: best[size]["processor_s"] / size for size in SIZES}
    growth = per_row[SIZES[-1]] / per_row[SIZES[0]]
    peak = max(run["peak_gb"] for timed in runs.values() for run in timed)
    table_2_s = best[RELEASED_ROWS]["statistics_s"]
    sound = all(
        run["equals_pandas"] and run["inside_intervals"] for timed in runs.values() for run in timed
    )
    common.write(
        "stats_million",
        "processor time per row of 01's statistics, streamed from the corpus: at 10,000 rows over at 1,000,000",
        ratio=1 / growth,
        goal=GOAL,
        met=growth <= 1.15 and peak < 2 and table_2_s < 5 and sound,
        check="means and SDs equal pandas' to 1e-9; every estimate lies in its interval"
        if sound
        else "FAILED: the statistics differ from pandas', or an estimate lies outside its interval",
        timings={str(size): timed for size, timed in runs.items()},
        packages=("numpy", "scipy", "pandas"),
        growth=growth,
        microseconds_per_row={str(size): 1e6 * s for size, s in per_row.items()},
        statistics_microseconds_per_row={
            str(size): 1e6 * best[size]["statistics_s"] / size for size in SIZES
        },
        peak_gb=peak,
        table_2_of_21362_rows_s=table_2_s,
        n_boot=1000,
    )


def _child(n_rows: int) -> dict:
    # One thread: the processor time of several would not compare with that of one.
    one = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, __file__, str(n_rows)], check=True, capture_output=True, text=True, env=one
    )
    return json.loads(out.stdout.splitlines()[-1])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
    else:
        main()
