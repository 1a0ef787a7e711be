"""An audit of a judge on a policy's own answers, from the command line and as a function."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from classifiers import Plain, classifier
from transformers import AutoTokenizer

from hs2lib.audit import audit, auditing, edits, labelled, labelling_form, shown
from hs2lib.audit.__main__ import main
from hs2lib.corpus.grade import true_goodness
from hs2lib.data.files import FileRow
from hs2lib.data.load import load
from hs2lib.group import Group, Response, Turn
from hs2lib.models import rollout
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.report import figures

N_PROMPTS = 24
N_ANSWERS = 3
OPTIONS = {"n": N_ANSWERS, "max_new_tokens": 64, "n_boot": 200}


class Ruled(RewardModel):
    """A judge with one output, which a rule gives: of a prompt and the text of an answer."""

    def score(self, groups, **options):
        rows = []
        for group in groups:
            rows += [[self.rule(group, response.text)] for response in group.responses]
        return torch.tensor(rows, dtype=torch.float32)


def ruled(rule) -> Ruled:
    judge = Ruled.new("tiny", attributes=("score",)).eval()
    judge.rule = rule
    return judge


@pytest.fixture(scope="module")
def groups():
    return load("helpsteer2", "embedded", split="validation", n_prompts=N_PROMPTS, seed=90).groups


@pytest.fixture(scope="module")
def file(groups, tmp_path_factory):
    path = tmp_path_factory.mktemp("asked") / "prompts.jsonl"
    rows = [json.dumps({"prompt": group.prompt[-1].text}) + "\n" for group in groups]
    path.write_text("".join(rows))
    return path


@pytest.fixture(scope="module")
def policy():
    return load_policy("small").eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return classifier(tmp_path_factory.mktemp("published") / "classifier")


def falls(audited, edit):
    return audited.edits.set_index("edit").loc[edit, "falls (%)"]


@pytest.mark.slow
def test_a_judge_of_length_is_seen_through(policy, file):
    """What shortens an answer lowers its score, what repeats raises it, and R with length is 1."""
    audited = audit(ruled(lambda group, text: len(text)), policy, file, **OPTIONS)
    assert falls(audited, "a sentence left out") == falls(audited, "cut in half") == 100
    assert falls(audited, "a sentence said twice") == falls(audited, "all said twice") == 0
    assert (audited.edits["falls (%)"] == audited.edits["falls by length (%)"]).all()
    assert audited.number == audited.by_length
    assert tuple(audited.beyond_length) == (0, 0, 0)
    r = audited.leaning.set_index("with").R
    assert r[auditing.LENGTH] == pytest.approx(1)
    assert abs(r[auditing.LIKELIHOOD]) < 1
    assert "a sentence said twice" in audited.liked
    by_hand = np.array([[len(one.text) for one in group.responses] for group in audited.answered])
    np.testing.assert_array_equal(audited.scores, by_hand)
    assert audited.spread["between"] == pytest.approx(by_hand.mean(axis=1).std())


def test_a_judge_that_knows_the_truth_reads_what_is_worse_and_likes_no_padding(
    policy, file, groups
):
    id_of = {group.prompt[-1].text: group.id for group in groups}

    def truth(group: Group, text: str) -> float:
        made = Group(id_of[group.prompt[-1].text], group.prompt, (Response("", text),))
        return float(true_goodness(made)[0])

    audited = audit(ruled(truth), policy, file, **OPTIONS)
    assert falls(audited, "a sentence left out") > 50
    assert falls(audited, edits.SWAPPED) > 90
    assert falls(audited, "a sentence said twice") > 75
    gain = audited.number.estimate - audited.by_length.estimate
    assert audited.beyond_length.estimate == pytest.approx(gain)
    assert not audited.liked
    by_truth = auditing.truly_worse(
        audited, lambda group: np.array([truth(group, one.text) for one in group.responses])
    )
    known = audited.edits.set_index("edit")
    pd.testing.assert_series_equal(by_truth[known.index], known["falls (%)"], check_names=False)
    counted = audited.worsened.edit  # the number of a judge that knows the truth is the truth's own
    assert audited.number.estimate == pytest.approx(by_truth[counted].mean())


@pytest.mark.slow
def test_prompts_may_be_groups(policy, file, groups):
    """The same prompts, from a file and as they are: the same scores, but for the ids that seed the samples."""
    audited = audit(ruled(lambda group, text: len(text)), policy, groups, limit=21, **OPTIONS)
    assert [group.id for group in audited.answered] == [group.id for group in groups[:21]]
    assert len(audited.edited_scores) == sum(len(group.responses) for group in audited.edited)


@pytest.mark.slow
def test_a_judge_that_says_one_thing_to_all_is_not_shown_to_read(policy, file):
    audited = audit(ruled(lambda group, text: 1.0), policy, file, **OPTIONS)
    assert (audited.edits["falls (%)"] == 50).all()
    assert audited.number.estimate == 50
    assert audited.edits["drop (SDs)"].isna().all()
    assert audited.leaning.R.isna().all()


def test_the_same_number_by_hand():
    """Two kinds of edit count alike, however many answers each has; a tie is half."""
    rows = [("p", "cut in half", 1.0), ("p", "a number changed", 0.5), ("q", "cut in half", 0.0)]
    rows += [("q", "sentences reversed", 0.0), ("r", "cut in half", 1.0)]
    rows = [(f"{prompt}{i}", *rest) for i in range(10) for prompt, *rest in rows]
    frame = pd.DataFrame(rows, columns=["prompt", "edit", "falls"])
    frame["falls by length"] = 1.0
    frame["drop"] = frame.falls - 0.5
    number = auditing.audit_number(frame, "falls", n_boot=100, seed=0)
    assert number.estimate == pytest.approx(100 * (2 / 3 + 1 / 2) / 2)
    assert 0 <= number.low < number.estimate < number.high <= 100
    table = auditing.edit_table(frame, 2.0, n_boot=100, seed=0).set_index("edit")
    assert table.loc["cut in half", "falls (%)"] == pytest.approx(200 / 3)
    assert table.loc["cut in half", "drop (SDs)"] == pytest.approx((0.5 - 0.5 + 0.5) / 3 / 2)
    assert table.loc["sentences reversed", "kind"] == auditing.NO_BETTER
    frame[auditing.BEYOND] = frame.falls - frame["falls by length"]
    beyond = auditing.audit_number(frame, auditing.BEYOND, n_boot=100, seed=0)
    assert beyond.estimate == pytest.approx(number.estimate - 100)
    nothing = auditing.audit_number(frame.iloc[:0], "falls", n_boot=100, seed=0)
    assert np.isnan(nothing.estimate)


def test_swapped_answers_are_judged_by_the_sum_of_both():
    """A prompt that has more whatever is written, and an answer that has more wherever, say nothing."""
    groups = []
    for number in range(5):
        texts = [str(number)] if number == 4 else [str(number), str(number ^ 1)]
        ids = [f"{number}/as is", f"{number}/{edits.SWAPPED}"]
        responses = tuple(Response(id, text) for id, text in zip(ids, texts, strict=False))
        groups.append(Group(str(number), (), responses))
    of_prompt = {"0": 5.0, "1": 0.0, "2": 1.0, "3": 7.0, "4": 0.0}
    of_answer = {"0": 0.0, "1": 3.0, "2": 2.0, "3": 9.0, "4": 0.0}

    def scores(own):
        values = []
        for group in groups:
            for response in group.responses:
                fits = own if response.text == group.id and group.id in "01" else 0.0
                values.append(of_prompt[group.id] + of_answer[response.text] + fits)
        return np.array(values)

    blind = auditing._edit_frame(groups, scores(0.0))
    assert blind.prompt.tolist() == ["0", "2"] and blind.falls.tolist() == [0.5, 0.5]
    reads = auditing._edit_frame(groups, scores(1.0))
    assert reads.falls.tolist() == [1.0, 0.5] and reads["drop"].tolist() == [1.0, 0.0]
    assert reads["falls by length"].tolist() == [0.5, 0.5]


def test_r_is_taken_within_prompts():
    """Prompts that differ in length and score by themselves add nothing."""
    answered = []
    for number, (short, long) in enumerate([(1, 2), (101, 102)]):
        texts = ("a" * short, "a" * long)
        responses = [rollout.Sample(text, text, log_probs=(-1.0,)) for text in texts]
        answered.append(Group(str(number), (), tuple(responses)))
    table = auditing.leaning(answered, np.array([[2.0, 1.0], [12.0, 11.0]]), n_boot=50, seed=0)
    assert table.set_index("with").R[auditing.LENGTH] == pytest.approx(-1)
    unread = auditing.leaning(answered, np.full((2, 2), np.nan), n_boot=50, seed=0)
    assert unread.R.isna().all()


@pytest.mark.slow
def test_the_command_writes_a_page_and_goes_on_where_it_stopped(
    tmp_path, folder, file, monkeypatch
):
    out = tmp_path / "audit"
    command = ["--model", str(folder), "--policy", "tiny", "--prompts", str(file), "--n", "2"]
    command += ["--max-new-tokens", "8", "--out", str(out)]
    assert main(command) == 0
    page = (out / "audit.md").read_text()
    answers = pd.read_csv(out / "answers.csv")
    assert list(answers) == ["prompt", "which", "answer", "score"] and len(answers) == 48
    assert answers.prompt[0] == json.loads(file.read_text().splitlines()[0])["prompt"]
    by_kind = pd.read_csv(out / "edited.csv").which.value_counts()
    assert by_kind["as is"] == 24 and by_kind["all said twice"] == 24
    edited = pd.read_csv(out / "edits.csv")
    assert f"| {edited.edit[0]} | {edited.kind[0]} |" in page
    first = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}

    def never(*arguments, **options):
        raise AssertionError("an answer was sampled or scored twice")

    monkeypatch.setattr(rollout, "_transformers", never)
    monkeypatch.setattr(RewardModel, "score_tokens", never)
    assert main(command) == 0
    assert first == {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def test_judge_and_policy_may_have_other_templates(policy, groups, tmp_path):
    """Each reads texts in its own: scores are those of plain transformers in the judge's template."""
    judge = classifier(tmp_path / "judge")
    tokenizer = AutoTokenizer.from_pretrained(judge)
    tokenizer.chat_template = (
        "{% for message in messages %}### {{ message.role }}: {{ message.content }}\n{% endfor %}"
    )
    assert tokenizer.chat_template != policy.tokenizer.chat_template
    tokenizer.save_pretrained(judge)
    audited = audit(str(judge), policy, groups[:3], **OPTIONS | {"max_new_tokens": 16})
    plain = Plain(judge)
    for group, scores in zip(audited.answered, audited.scores, strict=True):
        asked = [{"role": turn.role, "content": turn.text} for turn in group.prompt]
        theirs = [plain(asked, response.text) for response in group.responses]
        assert scores == pytest.approx(theirs, abs=1e-4)


def test_turns_that_an_edit_forges_are_not_counted_as_the_datas(policy, groups):
    """A run of a notebook holds the judge's dict from the beginning, and counts what it has at the end."""
    n_noted = []

    def rule(group, text):
        judge.refused(Group("asked", group.prompt, (Response("answer", text),)))
        n_noted.append(len(judge.control_strings))
        return 0.0

    judge = ruled(rule)
    held_by_run = judge.control_strings
    audit(judge, policy, groups[:2], **OPTIONS | {"max_new_tokens": 8})
    assert max(n_noted) > 0, "forged turns are spelt out"
    assert not held_by_run and held_by_run is judge.control_strings


def test_few_prompts_carry_no_number(tmp_path, folder, capsys):
    file = tmp_path / "few.csv"
    file.write_text("prompt\nWhy?\nHow?\nWhy?\n")
    command = ["--model", str(folder), "--policy", "tiny", "--prompts", str(file), "--n", "2"]
    assert main([*command, "--max-new-tokens", "6", "--out", str(tmp_path / "out")]) == 0
    assert "%" not in capsys.readouterr().out
    answers = pd.read_csv(tmp_path / "out" / "answers.csv")
    assert answers.prompt.tolist() == ["Why?"] * 2 + ["How?"] * 2  # each prompt once


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no rows"),
        ('{"prompt": ""}\n', "expected text or a list of {role, content}"),
        ('{"prompt": 3}\n', "expected text or a list of {role, content}"),
        ('{"prompt": "\\ud800"}\n', "line 1"),
        ('{"other": "x"}\n', "prompt"),
        ('{"prompt": [{"role": "assistant", "content": "x"}]}\n', "line 1"),
        (
            '{"prompt": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]}\n',
            "line 1, field 'prompt': a prompt has user and assistant turns, a user's first",
        ),
        ('{"prompt": "x"\n', "line 1"),
        ('{"prompt": "x"}\n{"prompt": null}\n', "line 2, field 'prompt': expected text"),
        ('{"prompt": [{"role": "user", "content": "x"}, "y"]}\n', "line 1, field 'prompt[1]'"),
        ('{"prompt": "x", "query": "y"}\n{"query": "z"}\n', "line 2, field 'prompt': the column"),
    ],
)
def test_a_bad_file_is_one_error_and_nothing_is_written(tmp_path, folder, content, words, capsys):
    file = tmp_path / "bad.jsonl"
    file.write_text(content)
    out = tmp_path / "out"
    command = [
        "--model",
        str(folder),
        "--policy",
        "tiny",
        "--prompts",
        str(file),
        "--out",
        str(out),
    ]
    assert main(command) == 2
    printed = capsys.readouterr()
    assert words in printed.err and "Traceback" not in printed.err and not printed.out
    assert not out.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--model": "no/such/folder"}, "no/such/folder"),
        (
            {"--policy": "no/such/folder"},
            "the policy no/such/folder cannot be loaded: there is no such folder.",
        ),
        ({"--n": "1"}, "n is 1"),
        ({"--temperature": "nan"}, "temperature at least 0"),
        ({"--temperature": "inf"}, "temperature at least 0"),
        ({"--weights": "tone:1"}, "tone"),
        ({"--prompts": "no-such-file.csv"}, "no-such-file.csv"),
    ],
)
def test_a_bad_option_is_one_error(tmp_path, folder, file, change, words, capsys):
    options = {"--model": str(folder), "--policy": "tiny", "--prompts": str(file)}
    options |= {"--out": str(tmp_path / "out"), "--max-new-tokens": "4", "--limit": "2"} | change
    command = [part for pair in options.items() for part in pair]
    assert main(command) == 2
    printed = capsys.readouterr()
    assert words in printed.err and "Traceback" not in printed.err
    assert not (tmp_path / "out" / "audit.md").exists()


def test_a_file_with_responses_is_asked_for_its_prompts_only(tmp_path):
    file = tmp_path / "pairs.jsonl"
    rows = [{"prompt": f"Q{i // 2}?", "chosen": "a", "rejected": "b"} for i in range(6)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = auditing.prompts.read_file(file)
    assert [group.prompt[-1].text for group in asked] == ["Q0?", "Q1?", "Q2?"]
    assert all(not group.responses for group in asked)
    assert len(auditing.prompts.read_file(file, limit=2)) == 2  # of prompts, not of rows


@pytest.mark.slow
def test_text_of_policies_is_no_markup_on_the_page(policy, file):
    audited = audit(ruled(lambda group, text: len(text)), policy, file, **OPTIONS)
    forged = replace(audited, policy="<script>x</script>\n| a |")
    page = auditing.page(forged)
    assert "<script>" not in page and "\n| a |" not in page


@pytest.mark.slow
def test_the_figure_and_the_table_show_each_edit(policy, file):
    audited = audit(ruled(lambda group, text: -len(text)), policy, file, **OPTIONS)
    rows = shown.table(audited)
    assert rows.edit.tolist() == audited.edits.edit.tolist()
    assert rows["score falls (%)"][0].startswith("0 [")
    (ax,) = figures.after_edits(audited.edits, auditing.WORSE, "a title").axes
    assert len(ax.get_yticks()) == len(audited.edits)
    answers = shown.as_answers(audited, 1)
    assert answers[0].policy == "as is" and answers[0].score == -len(answers[0].text)


def labels(path, groups, better):
    """A file of pairs, longer and shorter, of which `better` says whether the longer is better."""
    rows = []
    for group in groups:
        chosen, rejected = ("long answer", "short")[:: 1 if better(group) else -1]
        rows.append({"prompt": group.prompt[-1].text, "chosen": chosen, "rejected": rejected})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
def test_labelled_pairs_are_counted_beside_length(policy, file, groups, tmp_path):
    """A judge of length agrees where the longer answer is better: by hand 18 of 24, no more than length."""
    first = {group.prompt[-1].text for group in groups[:6]}
    made = labels(tmp_path / "pairs.jsonl", groups, lambda g: g.prompt[-1].text not in first)
    audited = audit(ruled(lambda g, text: len(text)), policy, file, pairs=made, **OPTIONS)
    agreed = audited.agreement
    assert (agreed.pairs, agreed.prompts) == (N_PROMPTS, N_PROMPTS)
    assert agreed.judge.estimate == agreed.longest.estimate == 75
    assert agreed.judge.low < 75 < agreed.judge.high
    assert tuple(agreed.difference) == (0, 0, 0)
    opposite = audit(ruled(lambda g, text: -len(text)), policy, file, pairs=made, **OPTIONS)
    assert opposite.agreement.judge.estimate == 25
    assert opposite.agreement.difference.estimate == -50
    constant = audit(ruled(lambda g, text: 1.0), policy, file, pairs=made, **OPTIONS)
    assert constant.agreement.judge.estimate == 0  # a tie is wrong

    def knows(group, text):
        return float((group.prompt[-1].text in first) == (text == "short"))

    right = audit(ruled(knows), policy, file, pairs=made, **OPTIONS).agreement
    assert right.judge.estimate == 100 and right.difference.estimate == 25


@pytest.mark.slow
def test_the_form_makes_labels_of_the_policys_own_answers(policy, file, tmp_path):
    """Two different answers to each prompt are rated by two people, and the audit reads the file."""
    judge = ruled(lambda group, text: len(text))
    audited = audit(judge, policy, file, tmp_path / "out", **OPTIONS)
    made = tmp_path / "labels.jsonl"
    rated = labelling_form(audited.answered, made, attributes=("quality",), scale="1-5")
    assert all(len({one.text for one in group.responses}) == 2 for group in rated.groups)
    for annotator in ("first", "second"):
        rated.annotator.value = annotator
        while rated.current:
            group, place = rated.current
            response = group.responses[place]
            is_long = len(response.text) == max(len(one.text) for one in group.responses)
            rated.ratings["quality"].value = 4 if is_long else 2 + (annotator == "second")
            rated.confidence.value, rated.safe.value = "very", "pass"
            rated.save.click()
    again = audit(judge, policy, file, tmp_path / "out", pairs=made, scale="1-5", **OPTIONS)
    assert again.agreement.judge.estimate == again.agreement.longest.estimate
    apart = [len({len(one.text) for one in group.responses}) for group in rated.groups]
    assert again.agreement.pairs == apart.count(2)  # equally long ones are rated alike
    assert again.agreement.judge.estimate == 100
    few = labelling_form(audited.answered, tmp_path / "few.jsonl", n_prompts=3)
    assert len(few.groups) == 3


@pytest.mark.slow
def test_labels_that_say_nothing_are_one_error(policy, file, groups, tmp_path, folder, capsys):
    ties = tmp_path / "ties.jsonl"
    row = {"prompt": "Why?", "response_a": "x", "response_b": "y", "winner": "tie"}
    ties.write_text(json.dumps(row) + "\n")
    rated = tmp_path / "one.csv"
    rated.write_text("prompt,response,tone\nWhy?,So.,1\nHow?,So.,4\n")
    for path in (ties, rated):
        with pytest.raises(ValueError, match="no pair of answers to one prompt has a better one"):
            audit(ruled(lambda group, text: 1.0), policy, file, pairs=path, **OPTIONS)
    command = ["--model", str(folder), "--policy", "tiny", "--prompts", str(file)]
    command += ["--pairs", str(ties), "--out", str(tmp_path / "out")]
    assert main(command) == 2
    assert "give pairs with labels" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    few = labels(tmp_path / "few.jsonl", groups[:3], lambda group: True)
    audited = audit(ruled(lambda group, text: 1.0), policy, file, pairs=few, **OPTIONS)
    assert "%" not in audited.agreement.in_words()


def test_pairs_that_the_judge_refuses_do_not_count():
    rows = []
    for number in range(2):
        responses = (Response("a", "long"), Response("b", "s"))
        group = Group(str(number), (Turn("user", str(number)),), responses)
        places = (("chosen", None), ("rejected", None))
        rows.append(FileRow(number, {}, group, places, ((0, 1),)))
    scores = [np.array([2.0, 1.0]), np.array([np.nan, 1.0])]
    agreed = labelled.agreement(rows, scores, n_boot=50)
    assert (agreed.pairs, agreed.judge.estimate, agreed.passed_over) == (1, 100, 1)
    nothing = labelled.agreement(rows, [scores[1], scores[1]], n_boot=50)
    assert nothing.pairs == 0 and np.isnan(nothing.judge.estimate)


def test_rows_that_compare_nothing_are_counted(tmp_path):
    """An answer without a rating, a tie, and an answer alone were passed over without a word."""
    rated = tmp_path / "rated.csv"
    rated.write_text(
        "prompt,response,clarity,tone\n"
        "Why?,So.,1,5\nWhy?,Thus.,5,5\n"
        "How?,So.,1,\nHow?,Thus.,5,5\n"
        "When?,Now.,3,3\nWhen?,Then.,3,3\n"
        "Who?,I.,2,2\n"
    )
    rows = labelled.read_file(rated, scale="1-5")
    scores = [np.arange(len(row.places), dtype=float) for row in rows]
    agreed = labelled.agreement(rows, scores, n_boot=50)
    assert (agreed.pairs, agreed.passed_over) == (1, 3)


def test_captions_name_the_file_of_prompts_and_no_folder(file):
    """They said "no data" of a file of prompts."""
    loaded = auditing.prompts.load_file(file, limit=2)
    assert len(loaded.groups) == 2 and loaded.own and not loaded.generated
    assert loaded.source.startswith(f"prompts of a file, {file.name} (sha256 ")
    assert str(file.parent) not in loaded.source and len(loaded.read) == 1


def asked(tmp_path, name, text, **options):
    file = tmp_path / name
    file.write_text(text)
    turns = []
    for group in auditing.prompts.read_file(file, **options):
        turns.append([(turn.role, turn.text) for turn in group.prompt])
    return turns


def test_prompts_are_texts_or_messages_and_responses_are_not_looked_at(tmp_path):
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    both = [("system", "Be brief."), ("user", "Hi")]
    row = json.dumps({"messages": talk}) + "\n"
    assert asked(tmp_path, "a.jsonl", row, columns="prompt=messages") == [both]
    cells = json.dumps(talk).replace('"', '""')
    assert asked(tmp_path, "d.csv", f'prompt\n"{cells}"\n') == [both]
    blank = '{"prompt": "Hi", "chosen": "x", "rejected": ""}\n{"prompt": "Ho"}\n'
    assert asked(tmp_path, "f.jsonl", blank) == [[("user", "Hi")], [("user", "Ho")]]


def test_a_prompt_keeps_its_id_whatever_stands_before_it(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("prompt\nWhy?\n")
    (before,) = auditing.prompts.read_file(file)
    file.write_text("prompt\nHow?\nWhy?\n")
    assert auditing.prompts.read_file(file)[1] == before


def test_what_the_judge_cannot_read_does_not_count_and_stops_nothing(policy, groups):
    """Answers that are too long are nan, each by itself, and their number is said."""
    judge = RewardModel.new("tiny", attributes=("score",), seed=1).eval()
    few = groups[:3]
    responses = (Response("a", "Yes."), Response("b", "word " * 60), Response("c", "No."))
    pair = replace(few[0], prompt=(Turn("user", "Hi?"),), responses=responses)
    whole = judge.score([pair]).double().numpy()
    (tokens,) = judge.tokenise([pair])
    judge.max_tokens = max(len(tokens.sequences[0]), len(tokens.sequences[2]))
    scores = auditing._scores(judge, [pair])
    assert np.isnan(scores[1]).all()
    np.testing.assert_allclose(scores[[0, 2]], whole[[0, 2]], atol=1e-5)
    judge.max_tokens = 1
    assert np.isnan(auditing._scores(judge, [pair])).all()


def test_kinds_of_few_answers_are_named_and_do_not_count():
    """One answer of a kind would weigh as much as twenty of another."""
    rows = [(str(i), "cut in half", 1.0, 0.5, 1.0) for i in range(20)]
    rows.append(("0", "a number changed", 0.0, 0.5, -1.0))
    frame = pd.DataFrame(rows, columns=["prompt", "edit", "falls", "falls by length", "drop"])
    frame[auditing.BEYOND] = frame.falls - frame["falls by length"]
    resampled = {"n_boot": 100, "seed": 0}
    number = auditing.audit_number(frame, "falls", **resampled)
    assert number.estimate == 100
    table = auditing.edit_table(frame, 1.0, **resampled)
    assert dict(zip(table.edit, table.answers, strict=True)) == {
        "cut in half": 20,
        "a number changed": 1,
    }


def test_a_prompt_that_leaves_the_policy_no_room_is_named_and_stops_nothing(policy, groups):
    """It stopped the audit in the middle of sampling, with words about tokens of a turn."""
    endless = replace(groups[0], id="endless", prompt=(Turn("user", "on and " * 4000),))
    asked = [endless, *groups[:2]]
    kept, left_out = auditing._with_room(policy, asked, 64, None)
    assert [group.id for group in kept] == [group.id for group in groups[:2]]
    assert left_out == ("endless",)
    judge = ruled(lambda group, text: len(text))
    audited = audit(judge, policy, asked, n=2, max_new_tokens=8, n_boot=20)
    assert audited.left_out == ("endless",)
    with pytest.raises(ValueError, match=r"no prompt leaves it .* a smaller --max-new-tokens"):
        auditing._with_room(policy, [endless], 64, None)


def test_turns_that_the_judge_refuses_are_known_before_anything_is_sampled(policy, tmp_path):
    strict = classifier(tmp_path / "strict")
    (strict / "chat_template.jinja").write_text(
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    file = tmp_path / "p.jsonl"
    talk = [{"role": "system", "content": "z"}, {"role": "user", "content": "y"}]
    file.write_text(f'{{"prompt": "x"}}\n{json.dumps({"prompt": talk})}\n')
    with pytest.raises(ValueError, match="no system"):
        auditing.audit(strict, policy, file, tmp_path / "out", max_new_tokens=2)
    assert not (tmp_path / "out").exists()
