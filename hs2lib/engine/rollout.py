"""Rollouts: n responses to every prompt, each its own random stream, kept on disk as they come.

    sampled = rollouts(policy, prompts, n=10, max_new_tokens=256, seed=0, file=folder / "samples.jsonl")
    scores = reward_model.score(sampled)                 # [all responses]: groups like any others
    tokens = as_tokens(policy, sampled)                  # TokenGroups of the very tokens that were sampled
    total, length = policy.log_probs(tokens)             # log pi(y|x) of them under any policy with this tokenizer

A sample depends on (seed, prompt id, index) and on the model alone, not on what is sampled beside it, in which order,
or after how many kills: see `hs2lib.engine.decoding`. In float32 that holds but for rounding that falls on a border
between
two tokens (about one token in 100,000); under bfloat16 autocast logits of two batches differ by a hundredth, and texts
may differ after a while, though their distribution does not. The engine is `hs2lib.engine.decoding`, or vLLM by
parameter.

Paper: sections 4.3 and 4.5 (ten samples a prompt, temperature 0.7, top-p 0.9).
"""

import copy
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from IPython import get_ipython
from IPython.display import display
from tqdm import tqdm

from hs2lib.engine.cache import Cache
from hs2lib.engine.chat import TokenGroup, prompt_tokens, tokenise
from hs2lib.engine.decoding import decode, uniforms
from hs2lib.engine.modes import computing
from hs2lib.group import Group, Response, Turn


class Handle:
    """A file whose last line is what a notebook shows."""

    def __init__(self, handle):
        self.handle = handle

    def write(self, text: str) -> None:
        if text.strip():
            self.handle.update({"text/plain": text.strip()}, raw=True)

    def flush(self) -> None:
        pass


CHUNK = 256  # prompts handed over at once: what is done is kept when the next ones begin


def sample(policy, missing, bar, *, stop, seed, temperature, top_p, max_new_tokens, min_new_tokens, batch, autocast,
           label) -> Iterator[tuple]:  # fmt: skip
    """Samples (prompt id, index, tokens, log-probabilities at temperature 1, finished), as `hs2lib.engine.rollout`
    asks.

    missing: [(prompt id, its tokens, indices due), ..]. stop: (ids that end a response, text that does or ""). Raises
    ImportError where vllm is not installed.
    """
    try:
        from vllm import LLM, SamplingParams
    except ImportError as error:
        raise ImportError(
            'backend="vllm" needs the package vllm, which is not installed: install it in an environment of its own '
            '(pip install vllm, on a machine with a GPU), or use backend="transformers"'
        ) from error
    special, text = stop
    common = dict(temperature=temperature, top_p=top_p, max_tokens=max_new_tokens, min_tokens=min_new_tokens)
    common |= dict(stop_token_ids=sorted(special), stop=[text] if text else None, include_stop_str_in_output=True)
    common |= dict(logprobs=0, detokenize=bool(text))  # logprobs=0: of the sampled token alone
    with tempfile.TemporaryDirectory() as folder:
        plain = copy.deepcopy(policy).merge() if policy.adapter else policy
        plain.backbone.save_pretrained(Path(folder))
        plain.tokenizer.save_pretrained(Path(folder))
        dtype = "float32" if autocast is None else str(autocast).removeprefix("torch.")
        engine = LLM(model=folder, dtype=dtype, max_num_seqs=batch, max_model_len=policy.max_tokens,
                     enable_prefix_caching=True, logprobs_mode="raw_logprobs", seed=0)  # fmt: skip
        for start in range(0, len(missing), CHUNK):
            asked = [(id, i, ids) for id, ids, due in missing[start : start + CHUNK] for i in due]
            params = [SamplingParams(seed=_seed(seed, id, i), **common) for id, i, _ in asked]
            prompts = [{"prompt_token_ids": ids} for _, _, ids in asked]
            for (id, i, _), found in zip(asked, engine.generate(prompts, params, use_tqdm=False), strict=True):
                out = found.outputs[0]
                tokens = list(out.token_ids)
                kept = [step[token].logprob for step, token in zip(out.logprobs, tokens, strict=True)]
                bar.tokens(len(tokens))
                yield id, i, tokens, kept, out.finish_reason == "stop"


def _seed(seed: int, prompt: str, index: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{prompt}\0{index}".encode()).digest()[:4], "little")


@dataclass(frozen=True, slots=True)
class Sample(Response):
    """A sampled response: its text, and the tokens it was sampled as.

    tokens: the sampled ids, the end of the turn included where it was reached (finished). log_probs: of each of them,
    float32, under the policy that sampled at temperature 1 over the whole vocabulary: log pi(token|before), whatever
    temperature and top-p chose the token.
    """

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    finished: bool = True

    @property
    def log_prob(self) -> float:
        """log pi(y|x) of the sampled tokens, nats."""
        return float(sum(self.log_probs))


__all__ = ["BACKENDS", "Sample", "as_tokens", "rollouts"]

BACKENDS = ("transformers", "vllm")


def rollouts(
    policy,
    prompts: Sequence[Group],
    *,
    n: int,
    max_new_tokens: int,
    temperature: float = 0.7,
    top_p: float = 0.9,
    seed: int = 0,
    label: str | Callable[[Group], str] | None = None,
    file: Path | None = None,
    batch: int = 128,
    autocast: torch.dtype | None = None,
    progress: bool = True,
    backend: str = "transformers",
    min_new_tokens: int = 0,
) -> list[Group]:
    """The prompts in their order, each with n `Sample`s in place of its responses (id "<prompt id>/<index>").

    Paper: section 4.3 (n = 10, temperature 0.7, top-p 0.9). temperature 0 takes the likeliest token each time.
    max_new_tokens: with the end of the turn. label: SteerLM's label string that opens every answer, or a function that
    says it for each group; it is no part of the text. A prompt too long to leave room loses its oldest turns.
    file: a JSONL file, one line a sample as soon as it is done; what it holds already is not sampled again. A folder
    stands for a file in it that is named by the policy and the settings.
    batch: samples at once. autocast: torch.bfloat16 for speed on a GPU. min_new_tokens: no end before.
    backend: "transformers", or "vllm" (a GPU, installed apart; its samples are its own, seeded alike).
    Raises ValueError for no prompts, ids that are not unique, settings out of range, and a file that holds samples of
    another policy or other settings; ImportError where vllm is not installed.
    """
    prompts = list(prompts)
    _check(prompts, n, max_new_tokens, temperature, top_p, backend)
    tokens = {group.id: _prompt(policy, group, label, max_new_tokens) for group in prompts}
    settings = {
        "policy": policy.fingerprint() if file else "",
        "temperature": temperature,
        "top_p": top_p,
        "seed": seed,
    }
    settings |= {"max_new_tokens": max_new_tokens, "min_new_tokens": min_new_tokens, "backend": backend}
    settings |= {"autocast": str(autocast or torch.float32).removeprefix("torch.")}
    kept = Cache(file, settings, name="samples")
    digests = {id: hashlib.sha256(str(ids).encode()).hexdigest()[:16] for id, ids in tokens.items()}

    def key(id: str, index: int) -> str:
        return f"{id}/{index} {digests[id]}"

    missing = []
    for group in prompts:
        due = [i for i in range(n) if key(group.id, i) not in kept]
        if due:
            missing.append((group.id, tokens[group.id], due))
    if missing:
        stop = _ending(policy, label is not None)[1]
        engine = _vllm if backend == "vllm" else _transformers
        options = dict(temperature=temperature, top_p=top_p, seed=seed, label=label, batch=batch, autocast=autocast)
        options |= dict(max_new_tokens=max_new_tokens, min_new_tokens=min_new_tokens)
        with _Bar(n * len(prompts), sum(len(due) for _, _, due in missing), progress) as bar:
            for id, index, ids, log_probs, finished in engine(policy, missing, bar, **options):
                text = _text(policy, ids, finished, stop)
                row = {"text": text, "tokens": ids, "log_probs": log_probs, "finished": finished}
                kept.add({key(id, index): row})
                bar.sample()
    out = []
    for group in prompts:
        samples = tuple(_sample(f"{group.id}/{i}", kept[key(group.id, i)]) for i in range(n))
        out.append(replace(group, responses=samples, preference=None, preferences=()))
    return out


def _sample(id: str, row: dict) -> Sample:
    return Sample(id, row["text"], (), (), tuple(row["tokens"]), tuple(row["log_probs"]), row["finished"])


def as_tokens(policy, groups: Sequence[Group], label: str | Callable[[Group], str] | None = None) -> list[TokenGroup]:
    """Groups of samples as the token sequences they were sampled as, for `Policy.log_probs` and the engine.

    Text tokenised anew may give other tokens, and its end of turn was never sampled where a response is unfinished.
    The label need not be the one sampled with: log P(y|x) and log Q(y|a,x) are of the same y.
    """
    found = []
    for group in groups:
        longest = max(len(sample.tokens) for sample in group.responses)
        prompt = _prompt(policy, group, label, longest)
        sequences = tuple([*prompt, *sample.tokens] for sample in group.responses)
        found.append(TokenGroup(group, sequences, (len(prompt),) * len(sequences)))
    return found


def _check(prompts, n, max_new_tokens, temperature, top_p, backend) -> None:
    ids = [group.id for group in prompts]
    if not ids:
        raise ValueError("there are no prompts to sample responses for")
    if len(set(ids)) < len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise ValueError(f"two prompts have the id {twice!r}: a sample is seeded by the id of its prompt")
    if n < 1 or max_new_tokens < 1 or temperature < 0 or not 0 < top_p <= 1:
        what = f"n={n}, max_new_tokens={max_new_tokens}, temperature={temperature}, top_p={top_p}"
        raise ValueError(f"n and max_new_tokens are at least 1, temperature at least 0, top_p in (0, 1]; got {what}")
    if backend not in BACKENDS:
        raise ValueError(f"backend is one of {', '.join(BACKENDS)}, got {backend!r}")


def _label(label, group: Group) -> str | None:
    return label(group) if callable(label) else label


def _prompt(policy, group: Group, label, room: int) -> list[int]:
    """The tokens to go on from, without the oldest turns where they leave no room for the response."""
    text, options = _label(label, group), {"template": policy.template}
    prompt: tuple[Turn, ...] = group.prompt
    ids = prompt_tokens(prompt, policy.tokenizer, label=text, **options)
    if policy.max_tokens and len(ids) + room > policy.max_tokens:
        bare = replace(group, responses=(Response("", ""),))
        (found,) = tokenise([bare], policy.tokenizer, label=text, max_tokens=policy.max_tokens - room, **options)
        system = int(bool(prompt) and prompt[0].role == "system")
        prompt = (*prompt[:system], *prompt[system + found.dropped :])
        ids = prompt_tokens(prompt, policy.tokenizer, label=text, **options)
    return ids


def _ending(policy, label: bool) -> tuple[set[int], str]:
    """Token ids that end a response, and the text that does where the template's end is no special token."""
    ending = policy.ending("" if label else None)
    ids, stop = {policy.tokenizer.eos_token_id}, ""
    named = getattr(policy.backbone, "generation_config", None)
    named = getattr(named, "eos_token_id", None) or []
    ids |= set(named if isinstance(named, list) else [named])
    if ending[-1] in policy.tokenizer.all_special_ids:
        ids.add(ending[-1])
    else:
        stop = policy.tokenizer.decode(ending)
    return ids - {None}, stop


def _text(policy, ids: Sequence[int], finished: bool, stop: str) -> str:
    """The answer's text: without the end of the turn and without special tokens."""
    text = policy.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text.partition(stop)[0] if stop and finished else text


def _transformers(policy, missing, bar, *, seed, label, autocast, max_new_tokens, **options) -> Iterator[tuple]:
    special, stop = _ending(policy, label is not None)

    def ends(tokens: list[int]) -> bool:
        # A text that ends a turn may be cut into tokens in more than one way, so text is compared.
        return tokens[-1] in special or (bool(stop) and stop in policy.tokenizer.decode(tokens[-len(stop) :]))

    device = next(policy.backbone.parameters()).device
    forbidden = torch.zeros(policy.backbone.config.get_text_config().vocab_size, dtype=torch.bool, device=device)
    forbidden[list(special)] = True
    prompts = ((ids, [(i, uniforms(seed, id, i, max_new_tokens)) for i in due]) for id, ids, due in missing)
    options |= dict(max_new_tokens=max_new_tokens, ends=ends, forbidden=forbidden, step=bar.tokens)
    with computing(policy, autocast):
        for row in decode(policy.backbone, prompts, **options):
            yield missing[row.prompt][0], row.index, row.tokens, row.log_probs, row.finished


def _vllm(policy, missing, bar, **options) -> Iterator[tuple]:

    yield from sample(policy, missing, bar, stop=_ending(policy, options["label"] is not None), **options)


class _Bar:
    """A tqdm bar of samples with tokens a second; in a notebook it is drawn in place of the last."""

    def __init__(self, total: int, missing: int, shown: bool):
        self.sampled, handle = 0, None
        if shown and get_ipython() is not None:
            handle = display({"text/plain": ""}, raw=True, display_id=True)
        options = {"file": Handle(handle), "ncols": 90} if handle else {"dynamic_ncols": True}
        self.bar = tqdm(
            total=total, initial=total - missing, unit="sample", mininterval=0.5, disable=not shown, **options
        )

    def tokens(self, number: int) -> None:
        self.sampled += number
        seconds = self.bar.format_dict["elapsed"] if not self.bar.disable else 0
        if seconds:
            self.bar.set_postfix_str(f"{self.sampled / seconds:,.0f} tokens/s", refresh=False)

    def sample(self) -> None:
        self.bar.update(1)

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.bar.close()
