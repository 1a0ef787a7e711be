"""The engine is exact: packed groups give the outputs and gradients of their sequences one by one.

That is the licence to use it for every number of the suite, so it is tested on random group shapes
against a brute-force mask, and against plain transformers, never against itself alone. Other
architectures than Llama are in `test_contract.py`.
"""

import functools
import itertools

import forked
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from transformers import AutoConfig, AutoModelForCausalLM

from hs2lib.engine import attention as groups
from hs2lib.engine import trees
from hs2lib.engine.trees import block_mask, pack, plan

torch.set_num_threads(1)
SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def tiny(name: str = "llama", **overrides):
    """A random model whose attention matters: with transformers' own small weights a token is all but its embedding."""
    config = AutoConfig.for_model(
        name, **SIZES | {"num_key_value_heads": 2, "initializer_range": 0.2} | overrides
    )
    config.bos_token_id = config.eos_token_id = config.pad_token_id = None
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


def visible(batch) -> torch.Tensor:
    """Who sees whom, bool [T, T] (query, key)."""
    i = torch.arange(len(batch.tokens))
    return (i[None] <= i[:, None]) & (i[:, None] <= batch.last[None])


def draw(rng: np.random.Generator, n: int) -> list[int]:
    return rng.integers(0, 97, n).tolist()


def example(seed: int = 0) -> list[list[list[int]]]:
    """A preamble over three prompts with branches of unequal length; prefixes of one another, a copy, a short one."""
    rng = np.random.default_rng(seed)
    preamble = draw(rng, 20)
    out = []
    for length in (30, 5, 90):
        prompt = preamble + draw(rng, length)
        out.append([prompt + draw(rng, int(n)) for n in rng.integers(1, 60, 3)])
    a = draw(rng, 40)
    return [*out, [draw(rng, 5), draw(rng, 1)], [a, a[:10], a, a[:11] + draw(rng, 70)]]


def one_by_one(model, token_groups):
    """End states [R, H] and log-probabilities of every token but the first, by plain transformers."""
    base = getattr(model, "get_base_model", lambda: model)()
    base.set_attn_implementation("sdpa")
    ends, logp = [], []
    for sequence in itertools.chain.from_iterable(token_groups):
        ids = torch.tensor(sequence)
        read = getattr(base, base.base_model_prefix).register_forward_hook(
            lambda *call: ends.append(call[2][0][0, -1])
        )
        logits = base(input_ids=ids[None], use_cache=False).logits[0, :-1]
        read.remove()
        logp.append(logits.log_softmax(-1).gather(1, ids[1:, None])[:, 0])
    return torch.stack(ends), torch.cat(logp)


def gradients(model, ends, logp):
    """Every parameter's gradient of a random linear function of both outputs."""
    generator = torch.Generator().manual_seed(1)
    weights = (torch.randn(x.shape, generator=generator) for x in (ends, logp))
    model.zero_grad()
    sum((x * w).sum() for x, w in zip((ends, logp), weights, strict=True)).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(model, token_groups):
    expected = one_by_one(model, token_groups)
    gradient = gradients(model, *expected)
    batch = pack(token_groups, [[0] * len(g) for g in token_groups])
    hidden = groups.states(model, batch)
    got = groups.end_states(model, batch, hidden), groups.log_probs(model, batch, hidden)
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
    assert gradient
    for name, g in gradients(model, *got).items():
        assert (g - gradient[name]).norm() <= 1e-5 * gradient[name].norm(), name


def test_outputs_and_gradients_equal_one_by_one():
    assert_same(tiny(), example())


def test_a_window_is_exact():
    assert_same(tiny("mistral", sliding_window=20), example())


@pytest.mark.parametrize("block", [1, 10**6])
def test_the_split_into_calls_changes_nothing(monkeypatch, block):
    # block=1: a causal call for each chain and one for each branching; 10**6: a single call with a
    # dense mask.
    monkeypatch.setattr(trees, "BLOCK", block)
    assert_same(tiny(), example())


def test_gradient_checkpointing_is_exact():
    model = tiny()
    model.activation_checkpointing_enable({"use_reentrant": False})
    model.train()
    assert_same(model, example())


def test_adapters_are_exact():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny(), LoraConfig(r=4, target_modules="all-linear"))
    for (
        name,
        p,
    ) in model.named_parameters():  # adapters start at zero, which would hide a wrong gradient
        if "lora_B" in name:
            torch.nn.init.normal_(p, std=0.1)
    assert_same(model, example())


def test_batching_and_shuffling_change_no_score():
    """In float64: float32 rounds sums in another order on each processor, by more than 1e-6 on some."""
    model, token_groups = tiny().double(), [*example(0), *example(1), *example(2)]

    def score(some, **options):
        return groups.in_order(lambda batch: groups.end_states(model, batch), some, **options)

    expected = score(token_groups)
    for options in ({"budget": 1}, {"budget": 300}, {"budget": 300, "window": 2}, {"window": None}):
        assert (
            score(token_groups, **options) - expected
        ).abs().max() <= 1e-12 * expected.abs().max()
    order = np.random.default_rng(0).permutation(len(token_groups))
    rows = list(
        itertools.chain.from_iterable([g] * len(group) for g, group in enumerate(token_groups))
    )
    shuffled = np.concatenate([np.flatnonzero(np.array(rows) == g) for g in order])
    got = score([token_groups[g] for g in order], budget=300)
    assert (got - expected[shuffled]).abs().max() <= 1e-12 * expected.abs().max()


# Few distinct tokens, so that random sequences share prefixes, repeat and contain one another.
sequence_shapes = st.lists(st.integers(0, 2), min_size=1, max_size=12)
shapes = st.lists(st.lists(sequence_shapes, min_size=1, max_size=5), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(shapes, st.sampled_from([1, 3, 8, 64]))
def test_any_group_shape(token_groups, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "BLOCK", block)
        batch = pack(token_groups, [[0] * len(g) for g in token_groups])
    sequences = list(itertools.chain.from_iterable(token_groups))
    # Every node once: as many tokens as there are distinct non-empty prefixes.
    assert len(batch.tokens) == len({tuple(s[:i]) for s in sequences for i in range(1, len(s) + 1)})
    seen = torch.eye(len(batch.tokens), dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        path = [int(batch.end[row])]
        while batch.parent[path[0]] >= 0:
            path.insert(0, int(batch.parent[path[0]]))
        assert batch.tokens[path].tolist() == sequence
        assert batch.positions[path].tolist() == list(range(len(sequence)))
        assert batch.node[batch.owner == row].tolist() == path[1:]
        for i, node in enumerate(path):
            seen[node, path[: i + 1]] = True
    assert torch.equal(visible(batch), seen)
    # The calls, which the CPU attention makes, against a dense softmax under the brute-force mask,
    # in float64.
    generator = torch.Generator().manual_seed(len(batch.tokens))
    q, k, v, w = (
        torch.randn(
            1, n, len(batch.tokens), 8, dtype=torch.double, generator=generator, requires_grad=True
        )
        for n in (4, 2, 2, 4)
    )
    dense = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=seen, enable_gqa=True
    )
    ours = groups._Attention.apply(q, k, v, groups.Tree(batch), 8**-0.5, None).transpose(1, 2)
    assert torch.allclose(ours, dense, atol=1e-12)
    for a, b in zip(
        *(torch.autograd.grad((x * w).sum(), (q, k, v)) for x in (ours, dense)), strict=True
    ):
        assert torch.allclose(a, b, atol=1e-11)


def test_hand_sized_tree():
    # 1-2-3, 1-2-4 and 1-2: five sequences' worth of tokens in four nodes; the shorter one ends
    # inside the others.
    batch = pack([[[1, 2, 3], [1, 2, 4]], [[1, 2]]], [[2, 2], [0]])
    assert batch.tokens.tolist() == [1, 2, 3, 4]
    assert batch.positions.tolist() == [0, 1, 2, 2]
    assert batch.parent.tolist() == [-1, 0, 1, 1]
    assert batch.last.tolist() == [3, 3, 2, 3]
    assert batch.end.tolist() == [2, 3, 1]
    assert batch.node.tolist() == [2, 3, 1] and batch.owner.tolist() == [0, 1, 2]


@pytest.mark.slow
def test_flex_attention_sees_the_same():
    batch = pack(example())
    n = len(batch.tokens)
    i = torch.arange(n)
    mask = block_mask(batch.last).mask_mod
    assert torch.equal(mask(0, 0, i[:, None], i[None]), visible(batch))
    # Our block mask, made from intervals, is the one PyTorch makes from all pairs of tokens.
    for size in (32, 128):
        theirs = create_block_mask(mask, None, None, n, n, device="cpu", BLOCK_SIZE=size)
        blocks = block_mask(batch.last, size)
        for name in ("kv_num_blocks", "full_kv_num_blocks"):
            assert torch.equal(getattr(blocks, name), getattr(theirs, name))
        assert torch.equal(blocks.to_dense(), theirs.to_dense())
    q, k, v = (torch.randn(1, h, n, 16) for h in (4, 2, 2))
    for window in (None, 7):
        blocks = block_mask(batch.last, positions=batch.positions, window=window)
        theirs = flex_attention(q, k, v, block_mask=blocks, enable_gqa=True).transpose(1, 2)
        ours = groups._Attention.apply(q, k, v, groups.Tree(batch), 0.25, window)
        assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("device", "width", "dtype", "power", "got"),
    [
        ("cuda", 8, torch.float32, (9, 0), "A GPU 9.0, heads 8 wide, torch.float32"),
        ("cuda", 64, torch.bfloat16, (7, 5), "A GPU 7.5, heads 64 wide, torch.bfloat16"),
        ("cuda", 64, torch.float64, (9, 0), "A GPU 9.0, heads 64 wide, torch.float64"),
        ("mps", 64, torch.float32, (), "mps , heads 64 wide, torch.float32"),
        ("cuda", 16, torch.bfloat16, (8, 0), ""),
        ("cuda", 128, torch.float32, (7, 5), ""),
    ],
)
def test_what_a_gpus_kernel_cannot_do_is_refused_before_it_is_chosen(
    monkeypatch, device, width, dtype, power, got
):
    """The compiler's own words come from deep inside, after minutes."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: power)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A GPU")
    if not got:
        return groups.check_kernel(torch.device(device), width, dtype)
    with pytest.raises(
        ValueError,
        match=f"groups on a GPU want CUDA, heads at least 16 wide.*got {got}: set autocast",
    ):
        groups.check_kernel(torch.device(device), width, dtype)


@pytest.mark.slow
def test_flex_attention_is_compiled_once_for_all_lengths(monkeypatch):
    """Past its limit of variants the compiler runs FlexAttention uncompiled: scores of all tokens by all tokens."""
    made = []

    def counted(graph, inputs):
        made.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=counted))
    groups._compiled.cache_clear()
    try:
        for window in (None, 7, 9):
            for seed in range(4):
                batch = pack(example(seed))
                q, k, v = (torch.randn(1, h, len(batch.tokens), 16) for h in (4, 2, 2))
                blocks = block_mask(batch.last, positions=batch.positions, window=window)
                with torch.no_grad():
                    out = groups._compiled()(
                        q, k, v, block_mask=blocks, scale=0.25, enable_gqa=True
                    ).transpose(1, 2)
                ours = groups._Attention.apply(q, k, v, groups.Tree(batch), 0.25, window)
                assert torch.allclose(out, ours, atol=1e-5)
    finally:
        groups._compiled.cache_clear()
    assert len(made) == 2  # without a window, and with one


def test_plan_keeps_groups_whole_and_to_the_budget():
    token_groups = [*example(0), *example(1)]
    batches = list(plan(token_groups, 250))
    sizes = torch.tensor([len(group) for group in token_groups])
    group = torch.arange(len(sizes)).repeat_interleave(sizes)  # of each sequence
    assert len(batches) > 2
    assert sorted(torch.cat([b.index for b in batches]).tolist()) == list(
        range(sum(map(len, token_groups)))
    )
    for batch in batches:
        assert len(batch.tokens) <= 250
        assert len(batch.end) == sizes[group[batch.index].unique()].sum()
    large = list(plan(token_groups, 50))
    assert all(len(b.tokens) <= 50 or len(group[b.index].unique()) == 1 for b in large)
    again = list(plan(token_groups, 250))
    assert all(torch.equal(a.index, b.index) for a, b in zip(batches, again, strict=True))


def test_plan_brings_shared_prefixes_together_and_streams():
    rng = np.random.default_rng(0)
    preambles = [draw(rng, 50), draw(rng, 50)]
    token_groups = [[preambles[i % 2] + [i] + draw(rng, 9)] for i in range(20)]
    assert sum(len(b.tokens) for b in plan(token_groups, 160)) == 2 * 50 + 20 * 10
    endless = ([draw(rng, 5)] for _ in itertools.count())
    assert len(next(plan(endless, 100, window=30)).tokens) <= 100


def test_a_shared_token_is_predicted_once(monkeypatch):
    model, projected = tiny(), []
    model.lm_head.register_forward_hook(
        lambda module, inputs, output: projected.append(inputs[0].shape[0])
    )
    prompt, shared = [5] * 30, [7] * 10
    token_groups = [[prompt + shared + [i] for i in range(8)]]
    batch = pack(token_groups, [[30] * 8])
    monkeypatch.setattr(groups, "CHUNK", 4)
    with torch.no_grad():
        logp = groups.log_probs(model, batch)
        # The states that predict ten shared tokens, and that at the branching: eleven for 88 tokens.
        assert sum(projected) == 11 and max(projected) == 4 and logp.shape == (88,)
        monkeypatch.setattr(groups, "CHUNK", 256)
        whole = groups.log_probs(model, batch)
    assert torch.allclose(logp, whole)
    _, expected = one_by_one(model, token_groups)
    total = groups.per_sequence(logp, batch)
    assert torch.allclose(total, expected.view(8, 40)[:, 29:].sum(1), rtol=1e-5)


def test_predict_spans_and_predicting_states():
    rng = np.random.default_rng(0)
    token_groups = [[draw(rng, 12), draw(rng, 9)]]
    batch = pack(token_groups, [[[(3, 5), (8, 12)], []]])
    assert batch.owner.tolist() == [0] * 6
    model = tiny()
    with torch.no_grad():
        hidden = groups.states(model, batch)
        _, expected = one_by_one(model, token_groups)
        got = groups.log_probs(model, batch, hidden)
        assert torch.allclose(got, expected[[2, 3, 7, 8, 9, 10]], atol=1e-6)
        assert torch.equal(
            groups.predicting_states(batch, hidden), hidden[batch.parent[batch.node]]
        )
    assert groups.per_sequence(got, batch)[1] == 0


def test_bfloat16_autocast_stays_within_its_rounding():
    model, token_groups = tiny(), example()
    exact, _ = one_by_one(model, token_groups)
    exact_gradient = gradients(model, exact, torch.zeros(0))
    with torch.autocast("cpu", torch.bfloat16):
        plain, _ = one_by_one(model, token_groups)
        ours = groups.end_states(model, pack(token_groups))
    ours_gradient = gradients(model, ours.float(), torch.zeros(0))
    # No further from float32 than plain bfloat16 is, with room for chance.
    assert (ours - exact).norm() < 1.5 * (plain - exact).norm()
    for name, g in ours_gradient.items():
        assert (g - exact_gradient[name]).norm() < 0.05 * exact_gradient[name].norm(), name


def test_a_prepared_model_still_generates_and_runs_padded():
    model = tiny()
    ids, mask = (
        torch.tensor([[3, 4, 5, 6], [0, 0, 7, 8]]),
        torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]]),
    )
    options = {"attention_mask": mask, "max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        before, text = model(ids, attention_mask=mask).logits, model.generate(ids, **options)
        groups.prepare(model)
        assert torch.equal(model(ids, attention_mask=mask).logits, before)
        assert torch.equal(model.generate(ids, **options), text)


def saved_bytes(function) -> int:
    """Bytes that autograd keeps for the backward pass, each storage once, parameters left out."""
    kept = {}

    def pack_hook(x):
        if not (x.requires_grad and x.is_leaf):
            kept[x.untyped_storage().data_ptr()] = x
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack_hook, lambda x: x):
        function()
    return sum(x.untyped_storage().nbytes() for x in kept.values())


def test_training_keeps_less_memory_than_a_padded_batch():
    model, token_groups = tiny(), example()[:3]
    sequences = [torch.tensor(s) for g in token_groups for s in g]
    ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence(
        [torch.ones_like(s) for s in sequences], batch_first=True
    )
    padded = saved_bytes(
        lambda: model.model(ids, attention_mask=mask, use_cache=False).last_hidden_state
    )
    batch = pack(token_groups)
    ours = saved_bytes(lambda: groups.states(model, batch))
    assert ours < padded * len(batch.tokens) / ids.numel() * 1.25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pack([]), "at least one sequence"),
        (lambda: pack([[]]), "group 0 has no sequence"),
        (lambda: pack([[[1]], [[1, 2], []]]), "group 1, sequence 1: token ids are .* at least one"),
        (lambda: pack([[[1.5, 2.0]]]), "token ids are integers"),
        (lambda: pack([[[1, -100]]]), "token ids are integers >= 0"),
        (lambda: pack([[[1, 2]]], [[3]]), "cannot predict tokens 3 to 2 of 2"),
        (
            lambda: groups.states(tiny(max_position_embeddings=4), pack([[[1] * 5]])),
            "5 tokens exceeds the positions",
        ),
        (lambda: groups.log_probs(tiny(), pack([[[1, 2]]])), "pass predict="),
        (
            lambda: groups.log_probs(tiny().model, pack([[[1, 2]]], [[1]])),
            "no vocabulary projection",
        ),
        (
            lambda: groups.states(tiny(attention_dropout=0.1).train(), pack([[[1, 2]]])),
            "attention dropout",
        ),
        (lambda: groups.in_order(lambda b: b.end, []), "no groups"),
    ],
)
def test_errors_say_what_and_where(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_wrong_model_is_refused():
    with pytest.raises(TypeError, match="got Linear"):
        groups.prepare(torch.nn.Linear(2, 2))


class Wrapped(torch.nn.Module):
    """A reward model as a trainer wraps it: the engine runs inside forward."""

    def __init__(self):
        super().__init__()
        self.decoder = tiny().model
        self.head = torch.nn.Linear(32, 5)

    def forward(self, batch):
        return self.head(groups.end_states(self.decoder, batch))


def worker(rank: int, port: int, queue) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(Wrapped())
    model(pack(example()[rank::2])).square().sum().backward()
    if rank == 0:
        queue.put({name: p.grad.numpy() for name, p in model.module.named_parameters()})
    torch.distributed.barrier()
    del model  # before the process group: the reducer, gone last, would wait for gloo's thread, which waits for the GIL
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_give_the_gradient_of_one():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    queue = forked.FORKS.SimpleQueue()
    running = torch.multiprocessing.start_processes(
        worker, (port, queue), 2, join=False, start_method="forkserver"
    )
    got = queue.get()
    while not running.join():
        pass
    torch.manual_seed(0)
    model = Wrapped()
    (model(pack(example())).square().sum() / 2).backward()
    for name, p in model.named_parameters():
        assert np.linalg.norm(got[name] - p.grad.numpy()) <= 1e-5 * p.grad.norm(), name
