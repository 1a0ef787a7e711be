"""The quantitative claims of the paper's text as data: where each stands, what it says in our words, what tests it.

`said` holds the numbers as the text prints them, so that a check knows how many digits were claimed. A claim is tested
by any of these, and by none where only its authors could:

* `cells`: numbers of a table, judged in the report of `notebook` (`against-<table>.csv`) within `paper`'s tolerances;
* `reported`: one number in a csv of that report;
* `derive`: a function of `hs2lib.claims_arithmetic` that works it out from the paper's own numbers;
* `better`: (measure, better row, worse row) of Table 4, which notebook 13 may test on our policies (`trades.csv`).

`lacking` says what is missing where no run of ours is at hand.
"""

from dataclasses import dataclass

DATASET, CORRELATIONS, AGREEMENT = "01_dataset_statistics", "02_attribute_correlations", "03_annotator_agreement"
COLLECTION, REWARD, BENCH = "04_data_collection", "05_reward_model_training", "06_rewardbench_evaluation"
SFT, DPO, ITERATIVE, PPO = "07_sft", "08_dpo", "09_iterative_dpo", "10_ppo"
STEERLM, STEERLM2 = "11_steerlm", "12_steerlm2"
ALIGNED, TABLES = "13_aligned_model_evaluation", "14_paper_tables_and_figures"


@dataclass(frozen=True)
class Reported:
    """One number of a csv in a notebook's report (where column `where` is `row`, else the first), due in low..high."""

    file: str
    value: str
    low: float
    high: float
    where: str = ""
    row: str = ""
    of_paper: bool = True  # whether only the paper's own rows count; False for a public benchmark, whole and unchanged


@dataclass(frozen=True)
class Claim:
    """One claim. `claim` is our paraphrase; `said` the numbers as printed; see the module's docstring for the rest."""

    id: str
    place: str
    notebook: str
    claim: str
    said: tuple[str, ...]
    cells: tuple[tuple[str, str, str], ...] = ()
    reported: Reported | None = None
    derive: str = ""
    better: tuple[tuple[str, str, str], ...] = ()
    lacking: str = "the released rows, from the Hub (tier paper)"

    @property
    def section(self) -> str:
        """The section or appendix, without the rest of the place."""
        return self.place.split(",")[0]


def _hs2(*pairs: tuple[str, str]) -> tuple[tuple[str, str, str], ...]:
    return tuple(("table-2", row, column) for row, column in pairs)


_JUDGE = "models of the paper's size and a judge; compared on our policies where notebook 13 has both"
_MODEL = "Llama 3 70B or Nemotron-4 340B, trained as in the paper"
_NEVER = "data that were never released"
_OTHERS = "other people's data and reports; not tested here"
_SFT, _DPO, _IT = "SFT w. Daring-Anteater", "DPO w. HelpSteer2", "Iterative DPO w. Daring-Anteater"
_PPO, _ST = "PPO w. HelpSteer2", "SteerLM w. Daring-Anteater"
_ST2, _SFT_OA, _ST_OA = "SteerLM 2.0 iter 2 w. Daring-Anteater", "SFT w. Open Assistant", "SteerLM w. Open Assistant"
_TOP, _LLAMA = "Nemotron-4 340B RM w. HelpSteer2", "Llama 3 70B w. HelpSteer2"
_MC2, _MT, _AE, _AH = "TruthfulQA MC2", "MT-Bench", "AlpacaEval 2 LC", "Arena Hard"
_SIZES = "benchmark-sizes.csv"

_DATA = (
    Claim("pairs-fewer", "abstract", DATASET, "HH-RLHF (above 160,000 by appendix D) has ten times as many pairs "
          "as these ten thousand, or more", ("ten thousand",), derive="order_of_magnitude"),
    Claim("best-reward-model", "abstract", BENCH, "92.0 % on RewardBench's primary set, above every listed model",
          ("92.0",), cells=(("table-3", _TOP, "overall"),), derive="tops_table_3", lacking=_MODEL),
    Claim("llama-2-comparisons", "section 1", DATASET, "Llama 2 used over 1 million binary comparisons", ("1",),
          lacking=_OTHERS),
    Claim("llama-3-samples", "section 1", DATASET, "Llama 3 used 10 million samples for tuning and preferences",
          ("10",),
          lacking=_OTHERS),
    Claim("sharegpt", "section 2.1", COLLECTION, "Over 95 % of the prompts are from ShareGPT", ("95",), lacking=_NEVER),
    Claim("topics", "section 2.1", COLLECTION, "Prompts were clustered into about 1,000 topics and sampled evenly",
          ("1000",), lacking=_NEVER),
    Claim("multi-turn", "section 2.1", DATASET, "About 29 % of the samples have multi-turn prompts", ("29",),
          reported=Reported("multi-turn.csv", "multi-turn (%)", 28.5, 29.5, "data", "helpsteer2")),
    Claim("two-responses", "section 2.1", DATASET, "Two responses a prompt, where HelpSteer had four", ("two", "four"),
          derive="two_responses"),
    Claim("source-shares", "section 2.1", DATASET, "The sources of responses and their shares (18.9, 40.4, 26.9, 7.9 "
          "and "
          "5.9 %) cover all of them", ("18.9", "40.4", "26.9", "7.9", "5.9"), derive="shares_add_up"),
    Claim("source-parts", "section 2.1", DATASET, "Nemotron-3's 40.4 % are 2.2 (8B) and 38.2 (22B); Nemotron-4's 26.9 "
          "% "
          "are 9.5 (15B) and 17.4 (340B)", ("2.2", "38.2", "9.5", "17.4"), derive="parts_add_up"),
    Claim("annotators-mean", "section 2.1", AGREEMENT, "3.41 annotators a sample on average", ("3.41",),
          reported=Reported("raters.csv", "ratings a row", 3.405, 3.415)),
    Claim("annotators-number", "section 2.1", COLLECTION, "About 1,000 annotators, against 200 for HelpSteer",
          ("1,000", "200"), lacking=_NEVER),
    Claim("kappa-initial", "section 2.1", AGREEMENT, "Kappa of helpfulness was .465 at first", ("0.465",),
          cells=(("table-1", "helpfulness", "initial"),), lacking="the first annotations, which were never released"),
    Claim("kappa-improved", "section 2.1", AGREEMENT, "Kappa of helpfulness reached .706", ("0.706",),
          cells=(("table-1", "helpfulness", "after improvements"),)),
    Claim("kappa-all-improved", "section 2.1", AGREEMENT, "Agreement rose for all five attributes", ("all",),
          derive="kappas_rise"),
    Claim("removed", "section 2.1", COLLECTION, "Keeping what is at most 2 points apart removed about 10 % of the "
          "samples", ("10",), derive="share_removed"),
    Claim("annotations-excluded", "section 2.1", COLLECTION, "About 50 % of all annotations were excluded", ("50",),
          lacking=_NEVER),
    Claim("samples", "section 2.1", DATASET, "21,362 samples: 10,681 prompts with two responses each",
          ("21,362", "10,681"), reported=Reported("multi-turn.csv", "prompts", 10_681, 10_681, "data", "helpsteer2"),
          derive="samples_are_pairs"),
    Claim("split", "section 2.1", DATASET, "95 % of the data are for training, 5 % for validation", ("95", "5"),
          derive="split_shares"),
    Claim("all-means-higher", "section 2.2", DATASET, "All five attributes are rated higher than in HelpSteer",
          ("all",),
          derive="means_rise"),
    Claim("coherence-mean", "section 2.2", DATASET, "Coherence reaches 3.63 of 4", ("3.63",),
          cells=_hs2(("coherence", "mean HS2"))),
    Claim("coherence-most", "section 2.2", DATASET, "The largest change of the five is coherence's", ("most",),
          derive="largest_change"),
    Claim("verbosity-mean", "section 2.2", DATASET, "Verbosity rose by almost .5, from 1.53 to 2.00", ("1.53", "2.00"),
          cells=_hs2(("verbosity", "mean HS"), ("verbosity", "mean HS2")), derive="verbosity_rise"),
    Claim("response-length", "section 2.2", DATASET, "Responses are 3 times as long: 497.3 to 1492.6 characters",
          ("497.3", "1492.6"), derive="three_times",
          cells=_hs2(("characters in response", "mean HS"), ("characters in response", "mean HS2"))),
    Claim("turns", "section 2.2", DATASET, "2.83 turns a prompt on average, one in HelpSteer", ("2.83",),
          cells=_hs2(("turns in prompt", "mean HS2"))),
    Claim("prompt-length", "section 2.2", DATASET, "Prompts have 712 characters on average, HelpSteer's 2491",
          ("712", "2491"), cells=_hs2(("characters in prompt", "mean HS2"), ("characters in prompt", "mean HS"))),
    Claim("coherence-predicts-less", "section 2.2", CORRELATIONS, "Coherence predicts helpfulness less: R .4979, was "
          ".6348", ("0.4979", "0.6348"), cells=_hs2(("coherence", "R HS2"), ("coherence", "R HS")), derive="falls"),
    Claim("correctness-predicts-more", "section 2.2", CORRELATIONS, "Correctness predicts it better: R .9430, was "
          ".8525",
          ("0.9430", "0.8525"), cells=_hs2(("correctness", "R HS2"), ("correctness", "R HS")), derive="rises"),
    Claim("complexity-predicts-less", "section 2.2", CORRELATIONS, "R of complexity fell from .2361 to .1805",
          ("0.1805", "0.2361"), cells=_hs2(("complexity", "R HS2"), ("complexity", "R HS")), derive="falls"),
    Claim("verbosity-predicts-less", "section 2.2", CORRELATIONS, "R of verbosity fell from .2555 to .0600",
          ("0.0600", "0.2555"), cells=_hs2(("verbosity", "R HS2"), ("verbosity", "R HS")), derive="falls"),
    Claim("long-prompts", "section 2.2", CORRELATIONS, "Longer prompts are answered slightly worse: R -.0774",
          ("-0.0774",), cells=_hs2(("characters in prompt", "R HS2"))),
    Claim("many-turns", "section 2.2", CORRELATIONS, "More turns go with slightly less help: R -.0520", ("-0.0520",),
          cells=_hs2(("turns in prompt", "R HS2"))),
    Claim("long-responses", "section 2.2", CORRELATIONS, "Longer responses are slightly more helpful: R .0845",
          ("0.0845",), cells=_hs2(("characters in response", "R HS2"))),
)  # fmt: skip

_REWARD = (
    Claim("epochs", "section 3", REWARD, "Two epochs at batch 128 (the reference code: 317 steps)", ("two", "128"),
          derive="reward_steps"),
    Claim("benchmark-size", "section 3", BENCH, "RewardBench has 2985 tasks", ("2985",), derive="benchmark_rows"),
    Claim("benchmark-parts", "section 3", BENCH, "... in 23 subsets, which form 4 categories", ("4", "23"),
          derive="benchmark_parts"),
    Claim("overall-is-mean", "section 3", BENCH, "Overall is the mean of the four categories (19 rows of Table 3)",
          ("mean",), derive="overall_is_mean"),
    Claim("leaderboard-size", "section 3", BENCH, "Its leaderboard had more than 80 models", ("80",), lacking=_OTHERS),
    Claim("best-permissive", "section 3", BENCH, "Llama 3 70B with HelpSteer2 has 88.8 %", ("88.8",),
          cells=(("table-3", _LLAMA, "overall"),), lacking=_MODEL),
    Claim("ahead-of-permissive", "section 3", BENCH, "... and is more than 9.7 points ahead of all other models "
          "trained "
          "on permissive data", ("9.7",), derive="ahead_of_permissive", lacking=_MODEL),
    Claim("scaling", "section 3", BENCH, "The 340B base model lifts the overall score to 92.0 %", ("92.0",),
          cells=(("table-3", _TOP, "overall"),), derive="scaling", lacking=_MODEL),
    Claim("chat-hard", "section 3", BENCH, "In Chat-Hard, models trained with HelpSteer2 are 6.5 points ahead of the "
          "second best", ("6.5",), derive="chat_hard_lead", lacking=_MODEL),
    Claim("reasoning", "section 3", BENCH, "They do not reach the best models' Reasoning", ("below",),
          derive="reasoning_below", lacking=_MODEL),
    Claim("prior-sets", "section 3", BENCH, "On Prior Sets they stand well below many others", ("below",),
          derive="prior_sets_below", lacking=_MODEL),
    Claim("goodness-weights", "section 4.3", BENCH, "Goodness weighs .65, .8 and .45 (the first three of the 70B "
          "model's "
          "weights in appendix H)", ("0.65", "0.8", "0.45"), derive="goodness_weights"),
    Claim("prior-sets-ceiling", "appendix H", BENCH, "Parts of Prior Sets are not predicted beyond 70 % even by models "
          "trained on them", ("70",), lacking=_OTHERS),
)  # fmt: skip

_ALIGN = (
    Claim("sft-epochs-oasst", "section 4.2", SFT, "Open Assistant, 56k conversations: 2400 steps of 128 are close to 4 "
          "epochs", ("56k", "2400", "128", "4"), derive="epochs_oasst"),
    Claim("sft-epochs-anteater", "section 4.2", SFT, "Daring-Anteater, 100k conversations: 1600 steps of 384 are close "
          "to "
          "2 epochs", ("100k", "1600", "384", "2"), derive="epochs_anteater"),
    Claim("sft-oasst-weak", "section 4.2", ALIGNED, "SFT on Open Assistant alone is weak beside Llama 3 70B Instruct",
          ("weak",), derive="sft_oasst_weak", lacking=_JUDGE),
    Claim("anteater-size", "section 4.2", SFT, "Daring-Anteater has 100k conversations", ("100k",),
          derive="anteater_rows", lacking="Daring-Anteater, from the Hub"),
    Claim("anteater-turns", "section 4.2", SFT, "... with 2.88 model turns each", ("2.88",),
          reported=Reported("daring-anteater.csv", "model turns", 2.875, 2.885),
          lacking="Daring-Anteater, from the Hub"),
    Claim("anteater-synthetic", "section 4.2", SFT, "About 93 % of it is generated by models", ("93",),
          lacking="the origin of each conversation"),
    Claim("dpo-pairs", "section 4.3", DPO, "7,221 pairs after dropping ties in helpfulness", ("7,221",),
          reported=Reported("against-pairs.csv", "ours", 7_221, 7_221), derive="dpo_pairs"),
    Claim("goodness-best", "section 4.3", ITERATIVE, "Of the weightings tried, .65, .8, .45 tells chosen from rejected "
          "best", ("0.65", "0.8", "0.45"), lacking=_MODEL),
    Claim("beta-fits", "section 4.5", STEERLM2, "The Beta distribution with alpha + beta = 24 has the spread of the "
          "annotators", ("24",), lacking="the released disagreements, from the Hub"),
    Claim("responses-three-times", "section 4.5", STEERLM, "HelpSteer2's responses are around 3 times as long as "
          "HelpSteer's, and more complex", ("3",), derive="three_times"),
    Claim("target-attributes", "section 4.5", STEERLM, "Complexity and verbosity 2 give better answers than 4", ("2",
          "4"),
          lacking=_JUDGE),
    Claim("match-instruct", "section 4.6", ALIGNED, "On every measure one of the models matches (within a standard "
          "error) "
          "or beats Llama 3 70B Instruct", ("every",), derive="match_instruct", lacking=_JUDGE),
    Claim("one-per-cent", "section 4.6", TABLES, "Llama 3 had 10 million samples; 10 thousand pairs with 100 thousand "
          "conversations are 1 % of that", ("1", "10", "100"), derive="one_per_cent"),
    Claim("beat-gpt-4", "section 4.6", ALIGNED, "The models exceed GPT-4-0613 on every measure", ("every",),
          derive="beat_gpt_4", lacking=_JUDGE),
    Claim("dpo-truthful", "section 4.6", ALIGNED, "DPO (with its iteration) is best on TruthfulQA", ("best",),
          derive="best_truthful", better=((_MC2, _DPO, _SFT), (_MC2, _IT, _PPO)), lacking=_JUDGE),
    Claim("dpo-arena", "section 4.6", ALIGNED, "... and on Arena Hard", ("best",), derive="best_arena",
          better=((_AH, _DPO, _SFT),), lacking=_JUDGE),
    Claim("dpo-most", "section 4.6", ALIGNED, "Most of that comes from the first round on HelpSteer2, and iterating "
          "adds "
          "more", ("most",), derive="first_round_most", lacking=_JUDGE),
    Claim("helpful-is-correct", "section 4.6", CORRELATIONS, "Helpfulness and correctness correlate at .943",
          ("0.943",),
          cells=_hs2(("correctness", "R HS2"))),
    Claim("arena-coding", "section 4.6", ALIGNED, "More than half of Arena Hard is coding", ("50",),
          lacking="labels of its questions"),
    Claim("ppo-alpaca", "section 4.6", ALIGNED, "PPO is best on AlpacaEval 2 LC", ("best",), derive="best_alpaca",
          better=((_AE, _PPO, _SFT),), lacking=_JUDGE),
    Claim("ppo-style", "section 4.6", ALIGNED, "PPO improves the style of the SFT model minimally", ("minimally",),
          derive="ppo_minimal", lacking=_JUDGE),
    Claim("ppo-truthful", "section 4.6", ALIGNED, "PPO loses much of TruthfulQA", ("severe",), derive="ppo_truthful",
          better=((_MC2, _SFT, _PPO),), lacking=_JUDGE),
    Claim("steerlm-mt-bench", "section 4.6", ALIGNED, "SteerLM is best on MT-Bench", ("best",), derive="best_mt_bench",
          better=((_MT, _ST2, _SFT),), lacking=_JUDGE),
    Claim("ablation-drop", "section 4.6", ALIGNED, "With Open Assistant alone MT-Bench falls from 7.96 to 6.75, and "
          "all "
          "else falls too", ("7.96", "6.75"), derive="ablation_drop", better=((_MT, _SFT, _SFT_OA),), lacking=_JUDGE,
          cells=(("table-4", _SFT, _MT), ("table-4", _SFT_OA, _MT))),
    Claim("ablation-gain", "section 4.6", ALIGNED, "There the reward model lifts it to 7.44, more than the lift from "
          "7.96 "
          "to 8.28", ("7.44", "8.28"), derive="ablation_gain", better=((_MT, _ST_OA, _SFT_OA),), lacking=_JUDGE,
          cells=(("table-4", _ST_OA, _MT), ("table-4", _ST2, _MT))),
    Claim("kappa-final", "section 5", AGREEMENT, "Kappa of helpfulness is .791", ("0.791",),
          cells=(("table-1", "helpfulness", "after post-processing"),)),
)  # fmt: skip

_APPENDICES = (
    Claim("oasst-size", "appendix D", DATASET, "Open Assistant: over 160,000 messages, 35 languages, over 10,000 trees",
          ("160,000", "35", "10,000"), lacking=_OTHERS),
    Claim("hh-size", "appendix D", DATASET, "HH-RLHF: above 160,000 comparisons", ("160,000",), lacking=_OTHERS),
    Claim("helpsteer-size", "appendix D", DATASET, "HelpSteer: over 37,000 rated responses", ("37,000",),
          lacking="HelpSteer, from the Hub"),
    Claim("mt-bench-size", "appendix H", ALIGNED, "MT-Bench: 80 questions of two turns, 160 prompts, 8 categories",
          ("80", "160", "8"), derive="mt_bench_prompts", lacking="MT-Bench's questions in the report of notebook 13",
          reported=Reported(_SIZES, "value", 80, 80, "quantity", "MT-Bench questions", of_paper=False)),
    Claim("mt-bench-referenced", "appendix H", ALIGNED, "Coding, mathematics and reasoning are 30 of the 80", ("30",
          "80"),
          derive="referenced"),
    Claim("references-wrong", "appendix H", ALIGNED, "13 of the 30 reference answers were wrong, and are listed",
          ("13", "30"), derive="wrong_references"),
    Claim("judge-lower", "appendix H", TABLES, "The new judge gives .8 points less on average", ("0.8",),
          derive="judge_lower"),
    Claim("r2-new", "appendix H", TABLES, "R squared of Arena Elo on the new judge's MT-Bench is .819", ("0.819",),
          derive="r2_new"),
    Claim("r2-old", "appendix H", TABLES, "... and .703 on the old judge's", ("0.703",), derive="r2_old"),
    Claim("judge-better", "appendix H", TABLES, "The new judge follows the crowd better", ("better",),
          derive="judge_better"),
    Claim("truthfulqa-size", "appendix H", ALIGNED, "TruthfulQA: 817 questions", ("817",),
          reported=Reported(_SIZES, "value", 817, 817, "quantity", "TruthfulQA questions", of_paper=False),
          lacking="TruthfulQA in the report of notebook 13"),
    Claim("truthfulqa-categories", "appendix H", ALIGNED, "... in 38 categories", ("38",),
          reported=Reported(_SIZES, "value", 38, 38, "quantity", "TruthfulQA categories", of_paper=False),
          lacking="TruthfulQA in the report of notebook 13"),
    Claim("truthfulqa-options", "appendix H", ALIGNED, "... with 4 to 5 answer options each (MC2)", ("4", "5"),
          reported=Reported(_SIZES, "value", 4, 5, "quantity", "TruthfulQA MC2 options, mean", of_paper=False),
          lacking="TruthfulQA in the report of notebook 13"),
    Claim("alpaca-size", "appendix H", ALIGNED, "AlpacaEval 2: 805 instructions", ("805",),
          reported=Reported(_SIZES, "value", 805, 805, "quantity", "AlpacaEval instructions", of_paper=False),
          lacking="AlpacaEval in the report of notebook 13"),
    Claim("arena-size", "appendix H", ALIGNED, "Arena Hard: 500 prompts", ("500",),
          reported=Reported(_SIZES, "value", 500, 500, "quantity", "Arena Hard prompts", of_paper=False),
          lacking="Arena Hard in the report of notebook 13"),
)  # fmt: skip

CLAIMS = (*_DATA, *_REWARD, *_ALIGN, *_APPENDICES)
