"""The ledger: claims are whole and placed, arithmetic is what one gets by hand, and only evidence gives a verdict."""

import html.parser
import re
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import pandas as pd
import pytest
from made_reports import MADE, OTHER, PAPERS

from hs2lib import paper, paths
from hs2lib.paper import TABLES
from hs2lib.report import claims, ledger, ledger_alignment
from hs2lib.report.claims import (
    CLAIMS,
    CONTRADICTED,
    DIGIT,
    DIRECTION,
    NEEDS,
    SLIP,
    VERDICTS,
    agrees,
)
from hs2lib.runs import graph

ALIGNMENT = "13_aligned_model_evaluation"
DATASET = "01_dataset_statistics"

BY_ID = {claim.id: claim for claim in CLAIMS}


def against(table, **ours):
    """An against-<table>.csv; ours: "row|column" -> number."""
    columns = ["row", "column", "paper", "ours", "95 % low", "95 % high", "difference", "verdict"]
    values = {tuple(key.split("|")): value for key, value in ours.items()}
    cells = TABLES[table].values
    return pd.DataFrame(
        [(*k, v, values.get(k), *[None] * 3, "") for k, v in cells.items()], columns=columns
    )


# The claims


def test_claims_are_whole():
    """At least sixty, each with an id of its own, a place, numbers, and a notebook of the suite."""
    assert len(CLAIMS) >= 60 and len(BY_ID) == len(CLAIMS)
    for claim in CLAIMS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.id)
        assert re.fullmatch(r"abstract|section \d(\.\d)?|appendix [A-H]", claim.place), claim.place
        assert (
            re.fullmatch(r"(0[1-9]|1[0-4])_\w+", claim.notebook) and claim.claim and claim.numbers
        )
        assert not claim.check or claims.check(claim).verdict != NEEDS
        assert all((row, column) in TABLES[table].values for table, row, column in claim.cells)
        assert all(
            (row, measure) in TABLES["table-4"].values
            for measure, *rows in claim.better
            for row in rows
        ), claim.id
        assert len(claim.cells) <= len(claim.numbers)


# Arithmetic


def test_rounding_follows_the_printed_digits():
    """3.6393 rounds to 3.64, not to the 3.63 that the text has; 99,532 rounds to 100k; 2,941 is not 2,940."""
    assert agrees(3.6393, "3.64") and not agrees(3.6393, "3.63")
    assert agrees(99_532, "100k") and not agrees(99_400, "100k")
    assert agrees(2941, "2,941") and not agrees(2941, "2,940") and agrees(-0.07744, "-0.0774")


@pytest.mark.parametrize(
    ("name", "verdict", "number"),
    [
        ("ahead-of-permissive", DIRECTION, "9.7"),
        ("chat-hard", DIGIT, "6.5"),
        ("one-per-cent", DIGIT, "1.1"),
        ("removed", DIGIT, "9.7"),
        ("r2-new", DIGIT, "0.8186"),
        ("r2-old", DIGIT, "0.7025"),
        ("judge-lower", DIGIT, "0.832"),
        ("overall-is-mean", DIGIT, "19 of 19"),
        ("epochs", DIGIT, "317.6"),
        ("benchmark-size", DIGIT, "2,985"),
        ("dpo-pairs", DIGIT, "7,221"),
        ("references-wrong", DIGIT, "13"),
        ("match-instruct", DIRECTION, "33.17"),
        ("ablation-gain", DIRECTION, "+0.69"),
        ("dpo-most", DIRECTION, "98"),
        ("sft-epochs-oasst", SLIP, "5.49"),
        ("sft-epochs-anteater", SLIP, "6.14"),
        ("coherence-mean", SLIP, "3.6393"),
        ("prompt-length", SLIP, "712.6"),
        ("coherence-most", CONTRADICTED, "+0.4668"),
    ],
)
def test_what_the_papers_own_numbers_say(name, verdict, number):
    """Each can be done by hand from the tables: these are the findings the ledger stands on."""
    finding = claims.derived(BY_ID[name])
    assert finding.verdict == verdict and number in finding.words


def test_arithmetic_notices_when_the_claim_changes():
    """Said otherwise, each numeric claim is a slip: no check says yes to everything."""
    for name, numbers in {
        "chat-hard": ("6.6",),
        "one-per-cent": ("2",),
        "r2-new": ("0.820",),
        "benchmark-size": ("2986",),
        "split": ("96", "4"),
        "samples": ("21,363", "10,681"),
        "source-shares": ("18.9", "40.4", "26.9", "7.9", "6.0"),
        "goodness-weights": ("0.65", "0.8", "0.46"),
        "mt-bench-size": ("80", "161", "8"),
        "references-wrong": ("12", "30"),
        "benchmark-parts": ("4", "24"),
        "removed": ("12",),
        "anteater-size": ("101k",),
        "judge-lower": ("0.7",),
        "sft-epochs-oasst": ("56k", "2400", "128", "6"),
        "kappa-improved": ("0.707",),
    }.items():
        assert claims.derived(replace(BY_ID[name], numbers=numbers)).verdict == SLIP, name
    assert (
        claims.derived(
            replace(BY_ID["sft-epochs-oasst"], numbers=("56k", "1750", "128", "4"))
        ).verdict
        == DIGIT
    )


def test_numbers_taken_from_tables_are_checked_against_them():
    """Where the text repeats a table's number, it is the table's: all but the two cut off short."""
    off = {
        c.id
        for c in CLAIMS
        if c.cells and (finding := claims.derived(c)) and finding.verdict == SLIP
    }
    assert off == {"coherence-mean", "prompt-length"}
    assert claims.derived(BY_ID["coherence-mean"]).note == claims.CUT_OFF


def test_ways_to_fail_are_counted():
    """Of the paper's text one claim is contradicted, two are cut off, and two are of epochs."""
    findings = {claim.id: claims.derived(claim) for claim in CLAIMS}
    off = {
        name: finding.verdict
        for name, finding in findings.items()
        if finding and finding.verdict in (SLIP, CONTRADICTED)
    }
    assert off == {
        "sft-epochs-oasst": SLIP,
        "sft-epochs-anteater": SLIP,
        "coherence-mean": SLIP,
        "prompt-length": SLIP,
        "coherence-most": CONTRADICTED,
    }


# Verdicts


def test_without_reports_only_arithmetic_speaks(reports):
    table = claims.ledger(["demo"], paths.reports())
    assert len(table) == len(CLAIMS) and list(table.columns) == claims.COLUMNS
    assert set(table.evidence) == {claims.PAPERS_NUMBERS, claims.NONE} and set(
        table.verdict
    ) == set(VERDICTS)
    assert ((table.verdict == NEEDS) == (table.evidence == claims.NONE)).all()
    assert table.note[table.verdict == NEEDS].ne("").all()


@pytest.mark.slow
def test_the_papers_rows_give_a_verdict(reports):
    """.4981 differs from .4979 in the last digit; below .6348 it still is."""
    ours = {
        "coherence|R HS2": 0.4979,
        "coherence|R HS": 0.6348,
        "correctness|R HS2": 0.9,
        "correctness|R HS": 0.95,
    }
    ours |= {"complexity|R HS2": 0.19, "complexity|R HS": 0.24, "turns in prompt|R HS2": -0.0520}
    reports(
        "paper",
        "02_attribute_correlations",
        [PAPERS],
        {"against-table-2.csv": against("table-2", **ours)},
    )
    reports(
        "paper",
        "03_annotator_agreement",
        [PAPERS],
        {
            "against-table-1.csv": against("table-1", **{"helpfulness|after improvements": 0.703}),
            "raters.csv": pd.DataFrame({"ratings a row": [3.4123]}),
        },
    )
    row_of = {name: claims.verdict(BY_ID[name], "paper", paths.reports()) for name in BY_ID}
    assert row_of["coherence-predicts-less"]["verdict"] == DIGIT
    assert (
        row_of["complexity-predicts-less"]["verdict"] == DIRECTION
    )  # both numbers differ, and it still falls
    assert row_of["correctness-predicts-more"]["verdict"] == CONTRADICTED
    assert row_of["many-turns"]["verdict"] == row_of["annotators-mean"]["verdict"] == DIGIT
    assert row_of["kappa-improved"]["verdict"] == DIRECTION
    assert all(
        row_of[name]["evidence"] == claims.RUN
        for name in ("many-turns", "annotators-mean", "kappa-improved")
    )
    assert row_of["coherence-mean"]["verdict"] == SLIP  # no run makes 3.6393 round to 3.63


@pytest.mark.slow
@pytest.mark.parametrize("source", [MADE, OTHER])
def test_generated_or_other_data_are_never_evidence(reports, source):
    """The numbers are the paper's to the digit, and count for nothing."""
    printed = {
        f"{row}|{column}": v
        for (row, column), v in TABLES["table-2"].values.items()
        if v is not None
    }
    size = pd.DataFrame({"data": ["helpsteer2"], "multi-turn (%)": [29.0], "prompts": [10_681]})
    files = {"against-table-2.csv": against("table-2", **printed)}
    reports("demo", "01_dataset_statistics", [source], files | {"multi-turn.csv": size})
    reports("demo", "02_attribute_correlations", [source], files)
    table = claims.ledger(["demo"], paths.reports())
    assert claims.RUN not in set(table.evidence)
    if source is MADE:
        notes = table.set_index("id").note[["turns", "multi-turn", "samples", "long-prompts"]]
        assert notes.str.contains("generated").all()


def test_one_source_that_is_not_the_papers_spoils_a_number(reports):
    reports(
        "paper",
        DATASET,
        [PAPERS, OTHER],
        {"multi-turn.csv": pd.DataFrame({"data": ["helpsteer2"], "prompts": [10_681]})},
    )
    assert claims.verdict(BY_ID["samples"], "paper", paths.reports())["verdict"] == NEEDS


def test_the_size_of_a_public_benchmark_needs_no_papers_rows(reports):
    """MC2 has 7.6 options a question on average, not 4 to 5: read from the benchmark itself, which is what it is."""
    sizes = {
        "TruthfulQA questions": 817,
        "TruthfulQA categories": 38,
        "TruthfulQA MC2 options, mean": 7.59,
    }
    frame = pd.DataFrame({"quantity": sizes.keys(), "value": sizes.values()})
    reports("laptop", ALIGNMENT, [OTHER], {"benchmark-sizes.csv": frame})
    reports("demo", ALIGNMENT, [MADE], {"benchmark-sizes.csv": frame})
    row_of = {
        n: claims.verdict(BY_ID[n], "laptop", paths.reports())["verdict"]
        for n in ("truthfulqa-size", "truthfulqa-options", "arena-size")
    }
    assert row_of == {
        "truthfulqa-size": DIGIT,
        "truthfulqa-options": CONTRADICTED,
        "arena-size": NEEDS,
    }
    assert claims.verdict(BY_ID["truthfulqa-size"], "demo", paths.reports())["verdict"] == NEEDS


def trades(*rows):
    """A trades.csv; rows (measure of Table 4, policy, against, gain), each with an interval of +-.01."""
    lines = [
        (*claims.MEASURES.get(m, (m, m)), p, a, 817, v, v - 0.01, v + 0.01) for m, p, a, v in rows
    ]
    names = ["benchmark", "measure", "policy", "against", "questions", *paper.GAIN]
    return {claims.TRADES: pd.DataFrame(lines, columns=names)}


MC2 = "TruthfulQA MC2"


def test_policies_of_ours_test_a_direction_both_ways(reports):
    """PPO .04 below SFT, paired, is the direction claimed; .04 above contradicts it; .005 says
    nothing, nor does .012.

    .012 has an interval of +-.01, which leaves out 0, but not when eight comparisons are made.
    """
    reports("laptop", ALIGNMENT, [OTHER], trades((MC2, "PPO", "SFT", -0.04)))
    reports("gpu", ALIGNMENT, [OTHER], trades((MC2, "PPO", "SFT", 0.04)))
    reports("paper", ALIGNMENT, [OTHER], trades((MC2, "PPO", "SFT", -0.012)))
    reports("smoke", ALIGNMENT, [OTHER], trades((MC2, "PPO", "SFT", -0.005)))
    reports("demo", ALIGNMENT, [MADE], trades((MC2, "PPO", "SFT", -0.04)))
    row_of = {
        tier: claims.verdict(BY_ID["ppo-truthful"], tier, paths.reports()) for tier in graph.TIERS
    }
    assert row_of["laptop"]["verdict"] == DIRECTION and row_of["laptop"]["evidence"] == claims.RUN
    assert "+0.04 [0.03, 0.05]" in row_of["laptop"]["outcome"]
    assert row_of["gpu"]["verdict"] == CONTRADICTED and row_of["gpu"]["evidence"] == claims.RUN
    assert "-0.04 [-0.05, -0.03]" in row_of["gpu"]["outcome"]
    assert row_of["paper"]["evidence"] == claims.PAPERS_NUMBERS
    assert row_of["smoke"]["evidence"] == claims.PAPERS_NUMBERS
    assert (
        row_of["demo"]["evidence"] == claims.PAPERS_NUMBERS
        and "generated" in row_of["demo"]["note"]
    )


def test_a_pair_is_read_whichever_of_the_two_was_taken_from_the_other(reports):
    """DPO best on TruthfulQA needs DPO above SFT and above each rival: not all rows, then all, then one against."""
    first, second = (
        [(MC2, "DPO", "SFT", 0.02), (MC2, "DPO", "SteerLM 2.0", 0.02)],
        (MC2, "DPO", "PPO", 0.03),
    )
    reports("laptop", ALIGNMENT, [OTHER], trades(*first))
    reports("gpu", ALIGNMENT, [OTHER], trades(*first, (MC2, "PPO", "DPO", -0.03)))
    reports("paper", ALIGNMENT, [OTHER], trades(*first, second))
    reports("smoke", ALIGNMENT, [OTHER], trades(*first, (*second[:3], -0.03)))
    row_of = {
        tier: claims.verdict(BY_ID["dpo-truthful"], tier, paths.reports()) for tier in graph.TIERS
    }
    assert row_of["laptop"]["evidence"] != claims.RUN
    assert (
        row_of["gpu"]["outcome"] == row_of["paper"]["outcome"]
        and row_of["gpu"]["verdict"] == DIRECTION
    )
    assert row_of["smoke"]["verdict"] == CONTRADICTED


def test_a_reward_models_score_or_a_part_of_a_benchmark_is_no_judges_figure(reports):
    """Only the whole benchmark's own measure tests a claim; names that begin alike do not."""
    whole = trades(*(("MT-Bench", "SteerLM 2.0", other, 1.0) for other in ("SFT", "DPO", "PPO")))
    part = whole[claims.TRADES].assign(benchmark="MT-Bench, 16 of 80 questions")
    other = whole[claims.TRADES].assign(measure="goodness of the reward model")
    for tier, frame in (("laptop", part), ("demo", other), ("gpu", whole[claims.TRADES])):
        reports(tier, ALIGNMENT, [OTHER], {claims.TRADES: frame})
    row_of = {
        tier: claims.verdict(BY_ID["steerlm-mt-bench"], tier, paths.reports())
        for tier in ("laptop", "demo", "gpu")
    }
    for tier in ("laptop", "demo"):
        assert row_of[tier]["evidence"] == claims.PAPERS_NUMBERS
    assert row_of["gpu"]["evidence"] == claims.RUN


def test_of_numbers_that_differ_the_order_alone_confirms_nothing_where_pairs_are_compared(
    monkeypatch,
):
    """7.60 and 7.59 confirmed that MT-Bench "substantially drops" from 7.96 to 6.75.

    A fall of .9 in place of 1.21 is the order, which the paired differences judge; one of .01
    contradicts the numbers.
    """
    claim = BY_ID["ablation-drop"]
    cells_are(monkeypatch, claim, (7.30, 6.40))
    assert isinstance(claims.from_cells(claim, "gpu", paths.reports()), str)
    cells_are(monkeypatch, claim, (7.60, 7.59))
    assert claims.from_cells(claim, "gpu", paths.reports()).verdict == CONTRADICTED


@pytest.mark.parametrize("name", ["ablation-drop", "ablation-gain"])
def test_a_claim_that_cells_confirm_is_contradicted_by_cells(monkeypatch, name):
    """The column "contradicted by" of these two named numbers in another order, which then counted for nothing."""
    claim = BY_ID[name]
    papers = tuple(paper.value(*cell) for cell in claim.cells)
    cells_are(monkeypatch, claim, papers, claims.CONSISTENT)
    assert claims.from_cells(claim, "gpu", paths.reports()).verdict == DIGIT
    cells_are(monkeypatch, claim, papers[::-1])
    assert claims.from_cells(claim, "gpu", paths.reports()).verdict == CONTRADICTED


def test_a_direction_that_has_nothing_of_the_size_is_none(monkeypatch):
    """1.44 and 1.70 characters rise, as 497.3 and 1,492.6 do, and were "direction only"; 400 and 1,000 are."""
    claim = BY_ID["response-length"]
    cells_are(monkeypatch, claim, (1.44, 1.70))
    assert claims.from_cells(claim, "paper", paths.reports()).verdict == CONTRADICTED
    cells_are(monkeypatch, claim, (400.0, 1000.0))
    assert claims.from_cells(claim, "paper", paths.reports()).verdict == DIRECTION


def cells_are(monkeypatch, claim, ours, called=claims.DIFFERENT):
    """Let the tables have these numbers in the cells of a claim, all called alike."""
    rows = [
        (*cell[1:], paper.value(*cell), value, called)
        for cell, value in zip(claim.cells, ours, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["row", "column", "paper", "ours", "verdict"])
    monkeypatch.setattr(claims.tables, "assemble", lambda table, tier, root: frame)


def test_another_mean_of_released_annotations_contradicts_nothing(reports):
    """Half of the annotations were left out of what is released, so their mean is not the one claimed."""
    reports(
        "paper",
        "03_annotator_agreement",
        [PAPERS],
        {"raters.csv": pd.DataFrame({"ratings a row": [3.2]})},
    )
    row = claims.verdict(BY_ID["annotators-mean"], "paper", paths.reports())
    assert row["verdict"] == NEEDS


def test_a_named_run_tests_claims_on_its_own_policies(reports):
    """Its SFT is that of Open Assistant, which Table 4 has a row for; the notebook's own pairs are as they were."""
    own = trades(("MT-Bench", "SteerLM", "SFT", -1.0), (MC2, "PPO", "SFT", -0.04))
    reports("gpu", ALIGNMENT, [OTHER], own)
    claim = next(claim for claim in CLAIMS if ("MT-Bench", *OPEN_ASSISTANT) in claim.better)
    assert claims.verdict(claim, "gpu", paths.reports())["evidence"] != claims.RUN
    reports(
        "gpu", f"{ALIGNMENT}@open-assistant", [OTHER], trades(("MT-Bench", "SteerLM", "SFT", 1.0))
    )
    row = claims.verdict(claim, "gpu", paths.reports())
    assert row["verdict"] == DIRECTION and "SteerLM@open-assistant" in row["outcome"]
    assert claims.verdict(BY_ID["ppo-truthful"], "gpu", paths.reports())["verdict"] == DIRECTION


OPEN_ASSISTANT = ("SteerLM w. Open Assistant", "SFT w. Open Assistant")


def test_policies_have_one_list_of_names():
    """Of ours, and of the rows of Table 4 that they stand for: that of `judged_table`, read the other way."""
    assert {ours: row for row, ours in claims.POLICIES.items()} == paper.PAPER_ROWS
    assert {row for claim in CLAIMS for _, *rows in claim.better for row in rows} <= set(
        claims.POLICIES
    )


# The page


class Page(html.parser.HTMLParser):
    """Every tag with its attributes, and what is not closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.slow
def test_the_page_filters_without_a_script(reports):
    """Every radio button has a rule that hides the rows without its mark, and every row has one mark of each group."""
    table = claims.ledger(["demo", "laptop"], paths.reports())
    text = claims.page(table)
    html = Page(text)
    assert not html.open and not {"script", "iframe", "link"} & {tag for tag, _ in html.tags}
    assert "default-src 'none'" in text and not re.search(r"(src|href)=\"?https?:", text)
    rows = [
        a["class"].split()
        for tag, a in html.tags
        if tag == "tr" and a.get("class", "").startswith("c ")
    ]
    assert len(rows) == 2 * len(CLAIMS) and all(len(marks) == 6 for marks in rows)
    buttons = {a["id"] for tag, a in html.tags if tag == "input" and "id" in a}
    marks = {mark for row in rows for mark in row[1:]}
    assert buttons == marks
    for button in buttons:
        assert f"main:has(#{button}:checked) tr.c:not(.{button}) {{ display: none; }}" in text
    ids = [a["id"] for _, a in html.tags if "id" in a]
    assert len(set(ids)) == len(ids)


@pytest.mark.slow
def test_the_page_escapes_what_it_shows(reports):
    table = claims.ledger(["demo"], paths.reports())
    table.loc[0, ["outcome", "note"]] = "<script>alert(1)</script>"
    assert "<script>" not in claims.page(table)


def test_the_ledger_becomes_artefacts_of_a_run(reports):
    """Through the run, so that its manifest names them and its last act does not sweep them away."""
    kept = {}
    run = SimpleNamespace(
        tier="demo",
        notebook="14_paper_tables_and_figures",
        caption=lambda text: f"{text} Tier demo.",
    )
    run.keep = lambda name, content, caption: kept.update({name: (content, caption)})
    claims.save(run, claims.ledger(["demo"], paths.reports()))
    assert set(kept) == {"claims.csv", "claims.html"} and all(
        "Tier demo" in caption for _, caption in kept.values()
    )
    assert len(pd.read_csv(StringIO(kept["claims.csv"][0]))) == len(CLAIMS)


@pytest.mark.slow
def test_counts_add_up(reports):
    tally = claims.counts(claims.ledger(["demo", "laptop"], paths.reports()))
    assert (tally.sum() == len(CLAIMS)).all() and list(tally.columns) == ["demo", "laptop"]
    assert list(tally.index.get_level_values("verdict").unique()) == list(VERDICTS)


@pytest.mark.parametrize(
    ("name", "frame", "row", "column", "value"),
    [
        ("overall-is-mean", ledger.table_3, ledger.LLAMA, "overall", 89.0),
        ("scaling", ledger.table_3, ledger.NEMOTRON, "overall", 88.0),
        ("kappa-all-improved", ledger.table_1, "coherence", "after improvements", 0.0),
        ("sft-oasst-weak", ledger.table_4, ledger.SFT_OASST, "MT-Bench", 9.0),
        ("coherence-most", ledger.table_2, "coherence", "mean HS2", 4.0),
        ("beat-gpt-4", ledger.table_4, ledger_alignment.GPT_4, "Arena Hard", 99.0),
        ("ablation-gain", ledger.table_4, ledger.STEERLM_2, "MT-Bench", 9.0),
        ("judge-lower", ledger.table_5, "GPT-4-1106", "GPT-4 judge", 1.0),
    ],
)
def test_every_kind_of_check_can_say_no(name, frame, row, column, value):
    """Another number in the paper's table: what held no longer holds, and the other way round."""
    claim = BY_ID[name]
    turned = {DIGIT: SLIP, DIRECTION: CONTRADICTED, CONTRADICTED: DIRECTION}
    expected = turned[claims.check(claim).verdict]
    printed = frame.loc[row, column]
    frame.loc[row, column] = value
    try:
        assert claims.check(claim).verdict == expected
    finally:
        frame.loc[row, column] = printed


def test_a_check_of_stated_numbers_can_say_no(monkeypatch):
    """20,000 samples are not two a prompt, and then 15 % were removed, not about 10 %."""
    monkeypatch.setitem(ledger.stated, "samples released", 20_000)
    assert claims.check(BY_ID["two-responses"]).verdict == SLIP
    assert claims.check(BY_ID["removed"]).verdict == SLIP


def test_numbers_are_the_same_but_for_rounding():
    """1,000 + 1e-7 is as good as 1,000; of three numbers none may differ."""
    assert ledger.same(1000, 1000 + 1e-7) and not ledger.same(1, 1, 1.001)
    assert 2 * ledger.number("10,681") == ledger.stated["samples released"]


def test_dashes_of_the_paper_count_as_no_number():
    """Fourteen other models have a number for prior sets, three a dash."""
    table = TABLES["table-3"]
    dashes = sum(table.values[row, "prior sets"] is None for row in table.rows)
    assert ledger.table_3["prior sets"].count() == 19 - dashes


def test_the_constants_used_agree_with_those_of_the_paper():
    """Counts of released rows that the ledger has of its own: pairs and ties give the paper's pairs."""
    pairs, ties = ledger_alignment.TRAIN_PAIRS, ledger_alignment.TRAIN_TIES
    assert paper.STATED["DPO pairs"] == pairs - ties and paper.STATED["train rows"] == 2 * pairs


def test_a_note_on_other_models_is_true_of_table_4():
    """Only on AlpacaEval does a reference stand above the best aligned model; each round of DPO lowers it."""
    values, aligned = TABLES["table-4"].values, ledger_alignment.ALIGNED
    reference, sft = ledger_alignment.INSTRUCT, ledger.SFT
    best = {
        m: max(values[row, m] for row in aligned)
        for m in ("MT-Bench", "TruthfulQA MC2", "Arena Hard")
    }
    assert all(best[m] > values[row, m] for m in best for row in (reference, sft))
    assert values[reference, "AlpacaEval 2 LC"] > values["PPO w. HelpSteer2", "AlpacaEval 2 LC"]
    rows = ("SFT w. Daring-Anteater", "DPO w. HelpSteer2", "Iterative DPO w. Daring-Anteater")
    first, second, third = (values[row, "AlpacaEval 2 LC"] for row in rows)
    assert first > second > third, "what claim dpo-most notes"
