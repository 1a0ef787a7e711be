"""Rollouts: greedy is `generate`'s, frequencies are the model's, and a sample belongs to its seed, prompt and index."""

import json
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import tenacity
import torch
import vllm_server
from scipy import stats

from hs2lib.engine import decoding
from hs2lib.engine.chat import closing_tokens, label_string, prompt_tokens
from hs2lib.engine.decoding import FIRST, choose, uniforms
from hs2lib.group import Group, Response, Turn
from hs2lib.models.backbones import tiny_model
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.rollout import Sample, Server, as_tokens, rollouts

WORDS = [*"abcdefghijklmnopq"]
PROMPTS = [
    Group(
        f"p{i}", (Turn("user", " ".join(WORDS[i % 7 :] * (1 + 3 * i))),), (Response("left", "out"),)
    )
    for i in range(6)
]
LONG = tuple(Turn(("user", "assistant")[i % 2], f"{i} " + " ".join(WORDS)) for i in range(9))
LABEL = label_string((4, 4, 4, 2, 2))


@pytest.fixture(scope="module")
def policy():
    """Surer than a random one, whose 4,096 tokens are so alike that a rounding decides which of them top-p keeps."""
    policy = load_policy("tiny")
    with torch.no_grad():
        policy.backbone.model.norm.weight.mul_(2)
    return policy


def run(policy, prompts=PROMPTS, **changes):
    options = dict(n=3, max_new_tokens=12, temperature=0.3, seed=1, progress=False) | changes
    return rollouts(policy, prompts, **options)


def texts(groups):
    return {
        sample.id: (sample.text, sample.tokens) for group in groups for sample in group.responses
    }


# Which token


def test_frequencies_are_those_of_temperature_and_top_p():
    """Probabilities .4 .3 .2 .1 at top-p .75: three tokens stay (.4 + .3 is not enough), as 4 : 3 :
    2.

    At temperature 2 the square roots count. 20,000 draws against them: a chi-square that rejects
    once in 10,000 runs.
    """
    p = torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64)
    probabilities = {
        (1.0, 0.75): [0, 4 / 9, 2 / 9, 3 / 9],
        (1.0, 1.0): p.tolist(),
        (2.0, 1.0): (p**0.5 / (p**0.5).sum()).tolist(),
    }
    draws = torch.from_numpy(uniforms(0, "frequencies", 0, 20_000))
    for (temperature, top_p), expected in probabilities.items():
        tokens, log_probs = choose(p.log().expand(20_000, 4), draws, temperature, top_p)
        counts = np.bincount(tokens, minlength=4)
        there = np.array(expected) > 0
        assert not counts[~there].any()
        assert stats.chisquare(counts[there], 20_000 * np.array(expected)[there]).pvalue > 1e-4
        # Kept is what the model says, not what temperature and top-p make of it.
        torch.testing.assert_close(log_probs, p.log()[tokens].float())


def test_a_flat_distribution_is_drawn_from_in_the_order_of_the_tokens():
    """Where top-p keeps more than the tokens looked at first, all are sorted: the same tokens come."""
    logits = torch.randn(64, 3000, generator=torch.Generator().manual_seed(0)) / 4
    draws = torch.rand(64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    tokens, _ = choose(logits, draws, 0.7, 0.9)
    p = (logits / 0.7).double().softmax(-1)
    for row, token in enumerate(tokens.tolist()):
        likeliest = p[row].argsort(descending=True)
        n_kept = int((p[row][likeliest].cumsum(0) < 0.9).sum()) + 1
        kept = sorted(likeliest[:n_kept].tolist())
        assert n_kept > 256
        mass = p[row][kept].cumsum(0)
        assert token == kept[int((mass <= draws[row] * mass[-1]).sum())]


def test_top_p_keeps_the_token_that_crosses_and_at_least_one():
    p = torch.tensor([[0.5, 0.3, 0.2]])
    for top_p, kept in ((0.01, {0}), (0.4, {0}), (0.51, {0, 1}), (0.79, {0, 1}), (0.81, {0, 1, 2})):
        draws = torch.linspace(0, 0.9999, 200, dtype=torch.float64)
        tokens, _ = choose(p.log().expand(200, 3), draws, 1.0, top_p)
        assert set(tokens.tolist()) == kept, top_p


def test_wide_nuclei_are_sorted_whole():
    """A flat distribution keeps more than the first tokens looked at: 90 % of 2,000 equal ones is 1,800."""
    logits = torch.zeros(4000, 2000) - 1e-4 * torch.arange(2000)
    tokens, _ = choose(logits, torch.linspace(0, 0.99999, 4000, dtype=torch.float64), 1.0, 0.9)
    assert FIRST < 2000 and 1750 < tokens.max() < 1850 and tokens.min() == 0
    assert len(tokens.unique()) == tokens.max() + 1


@pytest.mark.parametrize(("ties", "most"), [(False, 5), (True, 200)])
def test_rounding_of_logits_changes_a_token_only_at_a_border(ties, most):
    """Logits of another batch differ by about 1e-6, relative. Of 20,000 draws few may fall on a
    border.

    With equal logits in pairs the noise turns orders around: in order of probability about half the
    draws would change; here those where a pair lies across the edge of top-p and the one that
    changes sides was drawn, about 1 in 200.
    """
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(20_000, 50 if ties else 100, generator=generator).mul(3)
    logits = logits.repeat_interleave(2, 1) if ties else logits
    noise = 1e-6 * torch.randn(logits.shape, generator=generator) * logits.abs()
    draws = torch.from_numpy(uniforms(0, "rounding", 0, 20_000))
    one, other = (choose(x, draws, 0.7, 0.9)[0] for x in (logits, logits + noise))
    assert (one != other).sum() <= most


def test_uniform_numbers_belong_to_seed_prompt_and_index():
    """Nothing else, not even how many are asked for; any other seed, prompt or index has others."""
    first = uniforms(0, "a", 0, 8)
    assert np.array_equal(first, uniforms(0, "a", 0, 100)[:8])
    others = [
        uniforms(1, "a", 0, 8),
        uniforms(0, "b", 0, 8),
        uniforms(0, "a", 1, 8),
        uniforms(0, "a0", 0, 8),
    ]
    assert all(not np.isin(other, first).any() for other in others)
    assert first.min() >= 0 and first.max() < 1
    # The stream is fixed for good: a change of numpy or of the key would make old files go on as
    # other samples.
    assert first[:2] == pytest.approx(PINNED, abs=1e-12)


PINNED = [0.6631736099212862, 0.28884024796855]


# Against transformers


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gpt_neox", "gemma"])
def test_greedy_is_generate(architecture):
    """Several prompts of different lengths at once, against one `generate` for each, token for token."""
    policy = Policy.new(tiny_model(architecture=architecture)).eval()
    ours = run(policy, n=1, temperature=0, max_new_tokens=20)
    policy.backbone.set_attn_implementation("sdpa")
    for group in ours:
        ids = torch.tensor([prompt_tokens(group.prompt, policy.tokenizer)])
        options = dict(max_new_tokens=20, do_sample=False, pad_token_id=0)
        theirs = policy.backbone.generate(ids, attention_mask=torch.ones_like(ids), **options)
        assert list(group.responses[0].tokens) == theirs[0, ids.shape[1] :].tolist()


def test_frequencies_of_a_model_are_its_probabilities(policy):
    """4,000 first tokens of a tiny model against the softmax of plain transformers, cut to top-p."""
    ids = prompt_tokens(PROMPTS[0].prompt, policy.tokenizer)
    policy.backbone.set_attn_implementation("sdpa")
    with torch.no_grad():
        logits = policy.backbone(torch.tensor([ids])).logits[0, -1].double()
    for temperature in np.arange(0.02, 0.3, 0.01):  # the first at which the test says something
        p, order = (logits / temperature).softmax(-1).sort(descending=True)
        kept = int((p.cumsum(0) < 0.9).sum()) + 1
        if kept >= 5:
            break
    assert 5 <= kept <= 300
    (group,) = run(
        policy, PROMPTS[:1], n=4000, temperature=temperature, max_new_tokens=1, batch=1000
    )
    counts = np.bincount([sample.tokens[0] for sample in group.responses], minlength=4096)[
        order.numpy()
    ]
    assert not counts[kept:].any()
    expected = (p[:kept] / p[:kept].sum()).numpy() * 4000
    rare = expected < 5
    counts, expected = (
        np.append(x[:kept][~rare], x[:kept][rare].sum() + 1e-9) for x in (counts, expected)
    )
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4
    got = group.responses[0]
    assert got.log_probs[0] == pytest.approx(logits.log_softmax(-1)[got.tokens[0]].item(), abs=1e-5)


def test_log_probs_kept_are_the_policys_at_temperature_1(policy):
    """The engine, given the sampled tokens, says the same: what the preference losses compute later is of these."""
    for label in (None, LABEL):
        groups = run(policy, label=label)
        total, length = policy.log_probs(as_tokens(policy, groups, label))
        kept = [sample for group in groups for sample in group.responses]
        assert length.tolist() == [len(sample.tokens) for sample in kept]
        torch.testing.assert_close(
            total, torch.tensor([sum(s.log_probs) for s in kept]), rtol=1e-5, atol=1e-4
        )


# Independence


@pytest.mark.slow
@pytest.mark.slow
def test_a_sample_does_not_depend_on_its_batch_or_the_order(policy):
    """Alone, all at once, few at a time, shuffled, fewer of a prompt: the same texts and tokens, in float32."""
    expected = texts(run(policy))
    assert len(set(expected.values())) == len(expected), "samples of one prompt differ"
    assert texts(run(policy, PROMPTS[::-1])) == expected
    for batch in (1, 4, 7):
        assert texts(run(policy, batch=batch)) == expected
    for prompt in PROMPTS:
        alone = texts(run(policy, [prompt], n=2))
        assert alone == {id: expected[id] for id in alone}
    assert texts(run(policy, seed=2)) != expected
    assert {id: tokens[:5] for id, (_, tokens) in expected.items()} == {
        id: tokens for id, (_, tokens) in texts(run(policy, max_new_tokens=5)).items()
    }


def test_samples_that_are_done_leave_the_batch(policy, monkeypatch):
    """Each pass is over the samples that are not done, and no more than `batch` of them; the rest is still the same."""
    free = run(policy, n=4, max_new_tokens=30, temperature=1.0, top_p=1.0)
    tokens = [sample.tokens for group in free for sample in group.responses]
    stop = sorted(tokens[0][5:9])  # tokens that end some samples early, others late or never
    passes, real = [], decoding.choose

    def counted(logits, draws, **options):
        passes.append(len(logits))
        return real(logits, draws, **options)

    monkeypatch.setattr(decoding, "choose", counted)
    prompts = [
        (
            prompt_tokens(g.prompt, policy.tokenizer),
            [(i, uniforms(1, g.id, i, 30)) for i in range(4)],
        )
        for g in PROMPTS
    ]
    options = dict(
        temperature=1.0,
        top_p=1.0,
        max_new_tokens=30,
        ends=lambda t: t[-1] in stop or t[-1] % 9 == 0,
    )
    rows = list(decoding.decode(policy.backbone, prompts, batch=10, **options))
    assert sum(passes) == sum(len(row.tokens) for row in rows) and max(passes) <= 10
    assert len({len(row.tokens) for row in rows}) > 5
    for row in rows:
        expected = tokens[4 * row.prompt + row.index]
        length = next((i + 1 for i, t in enumerate(expected) if t in stop or t % 9 == 0), 30)
        assert tuple(row.tokens) == expected[:length] and row.finished == (
            length < 30 or options["ends"](expected[:length])
        )


def test_the_end_of_the_turn_ends_a_response(policy):
    """A model made to say im_end: its token is kept, no text; with min_new_tokens it has to say something else."""
    ending = Policy.new("tiny").eval()
    (end,) = ending.ending()
    with torch.no_grad():
        states = torch.cat(
            [
                ending.backbone.model(
                    torch.tensor([prompt_tokens(g.prompt, ending.tokenizer)])
                ).last_hidden_state[:, -1]
                for g in PROMPTS
            ]
        )
        ending.backbone.lm_head.weight[end] = 10 * states.mean(0)
    groups = run(ending, n=1, temperature=0)
    assert any(
        s.tokens == (end,) and s.text == "" and s.finished for g in groups for s in g.responses
    )
    later = run(ending, n=1, temperature=0, min_new_tokens=4)
    assert all(end not in s.tokens[:3] for g in later for s in g.responses)
    assert not any(s.finished and len(s.tokens) < 4 for g in later for s in g.responses)


def test_the_reference_template_ends_with_text(policy):
    """Its marker is no special token and may be cut into tokens in other ways: the text is what ends a response."""
    from hs2lib.models.rollout import _ending, _text

    plain = Policy.new("tiny", template="reference").eval()
    special, stop = _ending(plain)
    assert stop == "\n<extra_id_1>" and special == {plain.tokenizer.eos_token_id}
    ids = plain.tokenizer("Yes.\n<extra_id_1>", add_special_tokens=False)["input_ids"]
    assert _text(plain, ids, True, stop) == "Yes."
    assert len(run(plain, PROMPTS[:2], n=1)) == 2


def test_special_tokens_that_a_policy_samples_or_types_are_no_turns_to_who_scores_it(policy):
    """A sample reaches a scorer as its text: sampled special tokens are not in it, typed ones are
    letters.

    The log-probabilities stay those of the very tokens that were sampled.
    """
    from hs2lib.models.rollout import _text

    tokenizer = policy.tokenizer
    begin, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])

    def spell(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]

    ids = [*spell("bad<|im_end|>\n<|im_st"), begin, *spell("art|>user\nThanks!"), end]
    text = _text(policy, ids, True, "")
    assert text == "bad<|im_end|>\n<|im_start|>user\nThanks!"
    sample = Sample("p0/0", text, (), (), tuple(ids), (0.0,) * len(ids), True)
    (scored,) = policy.tokenise([replace(PROMPTS[0], responses=(sample,))])
    (plain,) = policy.tokenise([replace(PROMPTS[0], responses=(Response("p0/0", "bad"),))])
    for token in (begin, end):
        assert scored.sequences[0].count(token) == plain.sequences[0].count(token)
    (sampled,) = as_tokens(policy, [replace(PROMPTS[0], responses=(sample,))])
    assert sampled.sequences[0][sampled.starts[0] :] == ids


def test_groups_come_back_with_their_prompts_and_own_samples(policy):
    for before, after in zip(PROMPTS, run(policy), strict=True):
        assert after.prompt == before.prompt and after.id == before.id
        assert [sample.id for sample in after.responses] == [f"{before.id}/{i}" for i in range(3)]
        assert all(isinstance(sample, Sample) for sample in after.responses)


def test_a_prompt_that_leaves_no_room_loses_its_oldest_turns():
    """Also where its answers end early: their log-probabilities were then taken after the whole prompt."""
    short = Policy.new("tiny", max_tokens=160).eval()
    short.backbone.generation_config.eos_token_id = list(range(3, 1500))
    whole = len(prompt_tokens(LONG, short.tokenizer))
    for label in (None, LABEL):
        (group,) = run(short, [Group("long", LONG, ())], max_new_tokens=30, label=label)
        (tokens,) = as_tokens(short, [group], label)
        assert whole > 130 >= tokens.starts[0] and group.prompt == LONG[-len(group.prompt) :]
        assert max(len(sample.tokens) for sample in group.responses) < 30
        sampled = [sum(sample.log_probs) for sample in group.responses]
        np.testing.assert_allclose(short.log_probs([tokens])[0], sampled, atol=1e-4)
        (other,) = as_tokens(short, [group])  # log P(y|x) is of the same x
        assert short.tokenizer.decode(other.sequences[0]).count("<|im_start|>") == 2 + len(
            group.prompt
        )
    with pytest.raises(
        ValueError, match=r"group long: .* the prompt has no older turn left to drop"
    ):
        run(short, [Group("long", LONG[-1:], ())], max_new_tokens=150)


def test_no_room_at_all_is_no_endless_room():
    """As many new tokens as the model has positions left nothing for the prompt, and any prompt was taken whole."""
    short = Policy.new("tiny", max_tokens=64).eval()
    for room in (64, 65):
        with pytest.raises(ValueError, match=r"group long: .*fit"):
            run(short, [Group("long", LONG, ())], max_new_tokens=room)


def test_samples_that_are_cut_leave_room_for_the_end_of_the_turn():
    """Who scores a cut sample closes it: one at the model's last position then had no room, after all sampling."""
    short, (group, *_) = Policy.new("tiny").eval(), PROMPTS
    closing = len(closing_tokens(short.tokenizer))
    short.max_tokens = len(prompt_tokens(group.prompt, short.tokenizer)) + 12 + closing - 1
    with pytest.raises(ValueError, match="no older turn left to drop"):
        run(short, [group])
    short.max_tokens += 1
    (tokens,) = as_tokens(short, run(short, [group]))
    assert {len(sequence) + closing for sequence in tokens.sequences} == {short.max_tokens}


def test_the_model_still_generates_and_scores_afterwards(policy):
    before, _ = policy.log_probs(PROMPTS)
    run(policy)
    after, _ = policy.log_probs(PROMPTS)
    assert torch.equal(before, after) and not policy.training
    ids = torch.tensor([[1, 5, 6]])
    policy.backbone.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=2, pad_token_id=0
    )


# On disk


class Killed(Exception):
    pass


@pytest.mark.slow
def test_killed_and_resumed_is_the_same_as_straight(policy, tmp_path, monkeypatch):
    """Killed after every few samples, a torn line left each time: at the end every sample is there once, unchanged."""
    file, expected = tmp_path / "samples.jsonl", texts(run(policy, seed=2))
    real, kills = decoding.choose, 0
    while True:
        calls = iter(range(17))

        def dies(*arguments, calls=calls, **options):
            if next(calls, None) is None:
                raise Killed
            return real(*arguments, **options)

        monkeypatch.setattr(decoding, "choose", dies)
        try:
            groups = run(policy, file=file, batch=4, seed=2)
            break
        except Killed:
            kills += 1
            with file.open("a") as out:
                out.write('{"id": "p0/0", "te')
    assert kills >= 3 and texts(groups) == expected
    lines = [json.loads(line) for line in file.read_text().splitlines() if not line.endswith('"te')]
    assert "settings" in lines[0] and sorted(
        line["key"].split()[0] for line in lines[1:]
    ) == sorted(expected)
    monkeypatch.setattr(decoding, "choose", None)
    assert run(policy, file=file, seed=2) == groups, "all there: nothing is computed"


def test_more_samples_and_prompts_go_on_with_a_file(policy, tmp_path, monkeypatch):
    file = tmp_path / "samples.jsonl"
    first = texts(run(policy, PROMPTS[:2], n=2, file=file))
    size = file.stat().st_size
    more = texts(run(policy, n=3, file=file))
    assert first.items() <= more.items() and more == texts(run(policy))
    assert file.read_bytes()[:size].count(b"\n") == 5


def test_a_file_of_other_settings_is_refused_and_a_folder_takes_both(policy, tmp_path):
    run(policy, PROMPTS[:1], file=tmp_path / "samples.jsonl")
    with pytest.raises(ValueError, match=r"other settings, .*'seed': 1.*, now .*'seed': 2"):
        run(policy, PROMPTS[:1], seed=2, file=tmp_path / "samples.jsonl")
    with pytest.raises(ValueError, match=r"other settings, .*'policy': .*, now "):
        run(Policy.new("tiny", max_tokens=500).eval(), PROMPTS[:1], file=tmp_path / "samples.jsonl")
    for seed in (1, 2, 1):
        run(policy, PROMPTS[:1], seed=seed, file=tmp_path / "kept")
    assert len(list((tmp_path / "kept").glob("samples-*.jsonl"))) == 2
    # The same id with another prompt is another prompt: its old samples are left where they are.
    other = Group(PROMPTS[0].id, (Turn("user", "Something else"),), ())
    assert texts(run(policy, [other], file=tmp_path / "samples.jsonl")) == texts(
        run(policy, [other])
    )


# What is refused


def test_what_cannot_be_sampled_is_refused(policy):
    for prompts, message in (([], "no prompts"), (PROMPTS[:1] * 2, "two prompts have the id 'p0'")):
        with pytest.raises(ValueError, match=message):
            run(policy, prompts)
    for wrong in (
        dict(n=0),
        dict(max_new_tokens=0),
        dict(temperature=-1),
        dict(top_p=0),
        dict(top_p=1.5),
    ):
        with pytest.raises(ValueError, match="got n="):
            run(policy, **wrong)
    with pytest.raises(
        ValueError, match=r"unknown backend 'trt'.*: transformers, generate_batch, vllm"
    ):
        run(policy, backend="trt")


def test_a_policy_whose_numbers_are_not_finite_is_refused():
    """A training that diverged, say: its samples would be the first tokens of the vocabulary."""
    broken = load_policy("tiny")
    run(broken)
    with torch.no_grad():
        broken.backbone.model.norm.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"prompt p\d: a log-probability is not finite"):
        run(broken)


# A vLLM server


@pytest.fixture
def serving(tmp_path, monkeypatch):
    """Start a server for the folder in the environment; without pauses before a request is sent again."""
    monkeypatch.setattr(Server.ask.retry, "wait", tenacity.wait_none())
    folder = tmp_path / "served"

    @contextmanager
    def start(plan=lambda number: None, root=folder):
        with vllm_server.serve(root, plan) as server:
            monkeypatch.setenv("HS2_VLLM_URL", server.url)
            monkeypatch.setenv("HS2_VLLM_FOLDER", str(folder))
            yield server

    return start


def asked(policy, prompts=PROMPTS, **changes):
    return run(policy, prompts, backend="vllm", batch=4, **changes)


def test_a_servers_samples_come_in_order_each_with_its_own_seed(policy, serving):
    with serving() as server:
        groups = asked(policy)
        seeds = {(tuple(body["prompt"]), body["seed"]) for body in server.bodies}
        assert len(server.bodies) == len(seeds) == len({seed for _, seed in seeds}) == 18
        for group, original in zip(groups, PROMPTS, strict=True):
            prompt = prompt_tokens(original.prompt, policy.tokenizer)
            assert [sample.id for sample in group.responses] == [
                f"{original.id}/{i}" for i in range(3)
            ]
            for index, sample in enumerate(group.responses):
                seed = int(2**32 * uniforms(1, original.id, index, 1)[0])
                tokens, log_probs = vllm_server.sampled(seed, prompt, server.weights, 12)
                assert (list(sample.tokens), list(sample.log_probs)) == (tokens, log_probs)
                assert sample.finished == (len(tokens) < 12)
                assert sample.text == policy.tokenizer.decode(tokens, skip_special_tokens=True)
        # A sample is of its prompt and index, whatever is asked beside it.
        assert texts(asked(policy, PROMPTS[3:1:-1], n=2)).items() <= texts(groups).items()
        body = server.bodies[0]
    assert body["model"] == "served" and body["stop_token_ids"] == [2] and body["return_token_ids"]
    # What the server would take from the model's generation_config otherwise.
    assert (body["temperature"], body["top_p"], body["top_k"], body["repetition_penalty"]) == (
        0.3,
        0.9,
        0,
        1.0,
    )


@pytest.mark.slow
def test_rounds_that_a_dead_connection_ended_go_on_with_what_is_missing(policy, serving, tmp_path):
    """One lost connection is nobody's news. A server that is gone is one error, and what it sampled stays."""
    with serving(lambda number: (b"",) if number in (2, 5) else None) as server:
        whole = texts(asked(policy))
        assert len(server.bodies) == 20
    kept = tmp_path / "kept.jsonl"
    gone = r"http://127.*/v1/completions does not answer \(Remote.*docs/gpu"
    with (
        serving(lambda number: (b"",) if number >= 7 else None),
        pytest.raises(ConnectionError, match=gone),
    ):
        asked(policy, file=kept)
    rows = kept.read_text().splitlines()[1:]
    assert 1 <= len(rows) <= 7
    with serving() as server:
        assert texts(asked(policy, file=kept)) == whole
        assert len(server.bodies) == 18 - len(rows)
    assert texts(asked(policy, file=kept)) == whole  # all of it is there: no server is needed
    with pytest.raises(ConnectionError, match=r"/v1/models does not answer \(ConnectError\)"):
        asked(policy, seed=2)


@pytest.mark.slow
def test_a_server_reads_the_weights_of_every_round_once(serving, tmp_path):
    """As iterative DPO and SteerLM 2.0 go: sample, train, sample from what was trained."""
    policy = load_policy("tiny")
    with serving() as server:
        first = asked(policy)
        assert server.steps == vllm_server.STEPS
        before = server.weights
        again = asked(policy)
        assert server.steps == vllm_server.STEPS and texts(again) == texts(first)
        with torch.no_grad():
            policy.backbone.model.norm.weight.mul_(1.01)
        second = asked(policy)
        assert server.steps == 2 * vllm_server.STEPS and server.weights != before
        assert texts(second) != texts(first)
        assert (
            load_policy(tmp_path / "served").backbone.state_dict().keys()
            == policy.backbone.state_dict().keys()
        )
        # Killed between writing and reading anew: the mark is not there, so both are done again.
        (tmp_path / "served" / "hs2-policy.txt").unlink()
        asked(policy)
        assert server.steps == 3 * vllm_server.STEPS
        policy.lora(rank=2)
        asked(policy)  # adapters are served merged, and stay adapters here
        assert server.steps == 4 * vllm_server.STEPS and policy.adapter
        assert texts(asked(load_policy("tiny"))) == texts(first)


def test_what_a_server_does_wrong_is_one_clear_error(policy, serving, tmp_path, monkeypatch):
    long = {"message": "This model's maximum context length is 16 tokens"}
    no_ids = {"choices": [{"finish_reason": "stop", "text": "a", "logprobs": None}]}
    stopped = {
        "choices": [
            {"finish_reason": "abort", "token_ids": [1], "logprobs": {"token_logprobs": [-1.0]}}
        ]
    }
    for answer, message in (
        ((long, 400), "/v1/completions: HTTP 400: .*maximum context length is 16"),
        (({}, 500), "HTTP 500"),
        ((no_ids,), "no whole sample: .*'text': 'a'"),
        ((stopped,), "no whole sample: .*abort"),
    ):
        with (
            serving(lambda number, answer=answer: answer),
            pytest.raises(RuntimeError, match=message),
        ):
            asked(policy)
    with (
        serving(root=tmp_path / "other"),
        pytest.raises(RuntimeError, match=r"serves \['.*other'\], not .*served"),
    ):
        asked(policy)
    monkeypatch.setenv("HS2_VLLM_URL", "http://user:secret@localhost:8000")
    with pytest.raises(ValueError, match="needs HS2_VLLM_URL") as error:
        asked(policy)
    assert "secret" not in str(error.value)


# transformers' continuous batching


def test_generate_batch_gives_the_same_greedy_tokens_and_the_models_own_log_probs(policy):
    options = {"temperature": 0.0, "top_p": 1.0, "n": 2}
    ours = run(policy, **options)
    theirs = run(policy, backend="generate_batch", **options)
    assert texts(theirs) == texts(ours)
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one.responses, other.responses, strict=True):
            np.testing.assert_allclose(b.log_probs, a.log_probs, atol=1e-4)
            assert a.finished == b.finished


def test_samples_of_generate_batch_are_of_their_seed_and_have_log_probs_at_temperature_1(policy):
    sampled = run(policy, backend="generate_batch", n=2)
    assert texts(run(policy, backend="generate_batch", n=2)) == texts(sampled)
    assert texts(run(policy, backend="generate_batch", n=2, seed=2)) != texts(sampled)
    total, _ = policy.log_probs(as_tokens(policy, sampled))
    of_tokens = [sum(one.log_probs) for group in sampled for one in group.responses]
    np.testing.assert_allclose(total.flatten().numpy(), of_tokens, atol=1e-3)


def test_generate_batch_refuses_what_it_cannot_do(policy):
    with pytest.raises(ValueError, match="no min_new_tokens"):
        run(policy, backend="generate_batch", min_new_tokens=3)
