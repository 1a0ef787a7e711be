"""Rollouts: n responses to every prompt, kept on disk as they come.

    sampled = rollouts(policy, prompts, n=10, max_new_tokens=256, seed=0, file=folder / "samples.jsonl")
    scores = reward_model.score(sampled)                 # [all responses]: groups like any others
    tokens = as_tokens(policy, sampled)                  # TokenGroups of the very tokens that were sampled
    total, length = policy.log_probs(tokens)             # log pi(y|x) of them under any policy with this tokenizer

A sample depends on (seed, prompt id, index) and on the model alone. What is sampled beside it, in
which order, or after how many kills changes nothing. In float32 that holds but for rounding that
falls on a border between two tokens (about one token in 100,000). Under bfloat16 autocast logits of
two batches differ by a hundredth: texts may differ after a while, though their distribution does
not. The engine is `hs2lib.engine.decoding`, or a vLLM server (`Server`).

Who scores a sample reads its text anew, as the answer of one turn (`hs2lib.engine.chat`): special
tokens that a policy samples are not in the text, and control strings that it types are letters
there. Its own log-probabilities are of the very tokens.

Paper: sections 4.3 and 4.5 (ten samples a prompt, temperature 0.7, top-p 0.9).
"""

import copy
import fcntl
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import numpy as np
import tenacity
import torch
from torch import distributed

from hs2lib import code
from hs2lib.engine.attention import computing
from hs2lib.engine.cache import Cache, content_key
from hs2lib.engine.chat import TokenGroup, closing_tokens, prompt_tokens, tokenise
from hs2lib.engine.decoding import decode, uniforms
from hs2lib.group import Group, Response, Turn
from hs2lib.names import ADDRESS, BACKENDS, one_of
from hs2lib.train.progress import progress_bar

LOST = tenacity.retry_if_exception_type(ConnectionError)

LONGEST = 3600.0  # seconds that a reply of vLLM may take: reading 70B anew takes minutes


@dataclass(frozen=True, slots=True)
class Sample(Response):
    """A sampled response: its text, and the tokens it was sampled as.

    tokens: the sampled ids, the end of the turn included where it was reached (finished).
    log_probs: of each of them, float32, under the policy that sampled at temperature 1 over the
    whole vocabulary: log pi(token|before), whatever temperature and top-p chose the token.
    """

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    finished: bool = True


def rollouts(
    policy,
    prompts: Sequence[Group],
    *,
    n: int,
    max_new_tokens: int,
    temperature: float = 0.7,
    top_p=0.9,
    seed: int = 0,
    label: str | None = None,
    file: Path | None = None,
    batch: int = 128,
    autocast="float32",
    progress=True,
    backend="transformers",
    min_new_tokens: int = 0,
) -> list[Group]:
    """The prompts in their order, each with n `Sample`s in place of its responses (id "<prompt
    id>/<index>").

    Paper: section 4.3 (n = 10, temperature 0.7, top-p 0.9). temperature 0 takes the likeliest token
    each time. max_new_tokens: with the end of the turn. label: SteerLM's label string that opens
    every answer; it is no part of the text. A prompt too long to leave room loses its oldest turns,
    here and in the group that comes back. file: a JSONL file, one line a sample as soon as it is
    done; what it holds already is not sampled again. A folder stands for a file in it that is named
    by the policy, the settings and the code that samples. batch: samples at once. autocast:
    "bfloat16" for speed on a GPU. min_new_tokens: no end before. backend: "transformers", or "vllm"
    (a server, see `Server`; its samples are its own, seeded alike). Several processes call this
    alike and all get all samples; where each holds the whole policy they share them out. Raises
    ValueError for no prompts, ids that are not unique, settings out of range, and a file that holds
    samples of another policy or other settings; ConnectionError and RuntimeError of a `Server`.
    """
    prompts = list(prompts)
    if not prompts:
        raise ValueError("there are no prompts to sample responses for")
    ((twice, times),) = Counter(group.id for group in prompts).most_common(1)
    if times > 1:
        raise ValueError(
            f"two prompts have the id {twice!r}: a sample is seeded by the id of its prompt"
        )
    if n < 1 or max_new_tokens < 1 or temperature < 0 or not 0 < top_p <= 1:
        what = f"n={n}, max_new_tokens={max_new_tokens}, temperature={temperature}, top_p={top_p}"
        raise ValueError(
            f"n and max_new_tokens are at least 1, temperature at least 0, top_p in (0, 1]; got {what}"
        )
    one_of("backend", backend, BACKENDS)
    prompts = [_shorter(policy, group, label, max_new_tokens) for group in prompts]
    tokens = {group.id: _tokens(policy, group, label) for group in prompts}
    how = dict(seed=seed, temperature=temperature, top_p=top_p)
    how |= dict(max_new_tokens=max_new_tokens, min_new_tokens=min_new_tokens)
    settings = {
        "policy": policy.fingerprint() if file else "",
        **how,
        "backend": backend,
        "autocast": autocast,
    }
    several = distributed.is_initialized()
    alike = bool(policy.root) or (
        several and backend == "vllm"
    )  # all sample in step, or the first asks for all
    rank, processes = (
        (distributed.get_rank(), distributed.get_world_size()) if several and not alike else (0, 1)
    )
    by = code.digest(__name__, type(policy)) if file else ""
    kept = Cache(file, settings, name="samples", shared=alike, code=by)
    if kept.reused:
        policy.reused.append(kept.reused)
    digests = {id: content_key(ids, 16) for id, ids in tokens.items()}

    def key(id: str, index: int) -> str:
        return f"{id}/{index} {digests[id]}"

    mine = list(tokens)[rank::processes]
    wanted = {id: [i for i in range(n) if key(id, i) not in kept] for id in mine}
    missing = [(id, tokens[id], indices) for id, indices in wanted.items() if indices]
    if missing:
        special, stop = _ending(policy)
        sample = _vllm if backend == "vllm" else _transformers
        done = n * len(mine) - sum(map(len, wanted.values()))
        with progress_bar(n * len(mine), "sample", progress, done) as bar:
            for id, index, row in sample(
                policy, missing, special, stop, batch=batch, autocast=autocast, **how
            ):
                if not np.isfinite(row["log_probs"]).all():
                    raise ValueError(
                        f"prompt {id}: a log-probability is not finite: the policy's weights are broken"
                    )
                kept.add(
                    {
                        key(id, index): {
                            "text": _text(policy, row["tokens"], row["finished"], stop),
                            **row,
                        }
                    }
                )
                bar.update()
        kept.share()
    if several and not alike:
        parts = [None] * processes
        distributed.all_gather_object(
            parts, {key(id, i): kept[key(id, i)] for id in mine for i in range(n)}
        )
        for part in parts:
            kept.update(part)
    out = []
    for group in prompts:
        samples = tuple(_sample(f"{group.id}/{i}", kept[key(group.id, i)]) for i in range(n))
        out.append(replace(group, responses=samples, preference=None, preferences=()))
    return out


def _sample(id: str, row: dict) -> Sample:
    return Sample(
        id, row["text"], (), (), tuple(row["tokens"]), tuple(row["log_probs"]), row["finished"]
    )


def as_tokens(policy, groups: Sequence[Group], label: str | None = None) -> list[TokenGroup]:
    """Groups of samples as the token sequences they were sampled as, for `Policy.log_probs` and the
    engine.

    Text tokenised anew may give other tokens, and its end of turn was never sampled where a
    response is unfinished. The label need not be the one sampled with: log P(y|x) and log Q(y|a,x)
    are of the same y.
    """
    out = []
    for group in groups:
        longest = max(len(sample.tokens) for sample in group.responses)
        prompt = _tokens(policy, _shorter(policy, group, label, longest), label)
        sequences = tuple([*prompt, *sample.tokens] for sample in group.responses)
        out.append(TokenGroup(group, sequences, (len(prompt),) * len(sequences)))
    return out


def _tokens(policy, group: Group, label: str | None) -> list[int]:
    """The tokens to go on from."""
    return prompt_tokens(group.prompt, policy.tokenizer, **policy.written | {"label": label})


def _shorter(policy, group: Group, label: str | None, room: int) -> Group:
    """The group without the oldest turns of its prompt where they leave no room for the response."""
    closed = room + len(
        closing_tokens(policy.tokenizer, **policy.written)
    )  # a cut response is closed by who scores it
    if policy.max_tokens and len(_tokens(policy, group, label)) + closed > policy.max_tokens:
        return replace(
            group, prompt=fitted(policy, group, room, **policy.written | {"label": label})
        )
    return group


def fitted(policy, group: Group, room: int, **options) -> tuple[Turn, ...]:
    """The prompt without its oldest turns where these leave no room for a response of so many
    tokens.

    Paper: silent. options: template, control_text and label of `chat.tokenise`. Raises ValueError
    where its last turn leaves none.
    """
    bare = replace(group, responses=(Response("", ""),))
    limit = policy.max_tokens and (policy.max_tokens - room or -1)  # 0 is no limit
    (shorter,) = tokenise([bare], policy.tokenizer, max_tokens=limit, **options)
    system = int(group.prompt[0].role == "system")
    return (*group.prompt[:system], *group.prompt[system + shorter.dropped :])


def _ending(policy) -> tuple[set[int], str]:
    """Token ids that end a response, and the text that does where the template's end is no special token."""
    ending = policy.ending()
    named = getattr(getattr(policy.backbone, "generation_config", None), "eos_token_id", None)
    ids = {policy.tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
    if ending[-1] in policy.tokenizer.all_special_ids:
        return ids | {ending[-1]}, ""
    return ids, policy.tokenizer.decode(ending)


def _text(policy, ids: Sequence[int], finished: bool, stop: str) -> str:
    """The answer's text: without the end of the turn and without special tokens."""
    text = policy.tokenizer.decode(
        list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return text.partition(stop)[0] if stop and finished else text


def _transformers(
    policy, missing, special, stop, *, seed, max_new_tokens, autocast, **options
) -> Iterator[tuple]:
    """Samples (prompt id, index, {"tokens", "log_probs", "finished"}), in the order in which they
    are done.

    missing: [(prompt id, its tokens, indices of the samples), ..]. special, stop: of `_ending`.
    """

    def ends(tokens: list[int]) -> bool:
        # A text that ends a turn may be cut into tokens in more than one way, so text is compared.
        return tokens[-1] in special or (
            bool(stop) and stop in policy.tokenizer.decode(tokens[-len(stop) :])
        )

    device = next(policy.backbone.parameters()).device
    size = policy.backbone.config.get_text_config().vocab_size
    forbidden = torch.tensor([token in special for token in range(size)], device=device)  # bool [V]
    prompts = (
        (ids, [(i, uniforms(seed, id, i, max_new_tokens)) for i in indices])
        for id, ids, indices in missing
    )
    options |= dict(
        max_new_tokens=max_new_tokens, ends=ends, forbidden=forbidden, shared=bool(policy.root)
    )
    with computing(policy, autocast):
        for row in decode(policy.backbone, prompts, **options):
            values = {"tokens": row.tokens, "log_probs": row.log_probs, "finished": row.finished}
            yield missing[row.prompt][0], row.index, values


def _vllm(
    policy,
    missing,
    special,
    stop,
    *,
    seed,
    max_new_tokens,
    min_new_tokens,
    batch,
    autocast,
    **common,
):
    """As `_transformers`, asked of a server that samples from this policy. Its own defaults count for nothing."""
    common |= dict(
        max_tokens=max_new_tokens,
        min_tokens=min_new_tokens,
        top_k=0,
        min_p=0.0,
        repetition_penalty=1.0,
    )
    common |= dict(
        stop_token_ids=sorted(special), stop=[stop] if stop else [], include_stop_str_in_output=True
    )
    common |= dict(logprobs=0, return_token_ids=True)  # logprobs=0: of the sampled token alone
    server = Server(batch)

    def sample(id: str, index: int, ids: Sequence[int]) -> tuple[str, int, dict]:
        own = {"prompt": list(ids), "seed": int(2**32 * uniforms(seed, id, index, 1)[0])}
        return id, index, server.sample(common | own)

    with server.holding(policy) as common["model"], ThreadPoolExecutor(batch) as pool:
        try:
            wanted = missing if common["model"] else ()
            asked = [
                pool.submit(sample, id, i, ids) for id, ids, indices in wanted for i in indices
            ]
            for done in as_completed(asked):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class Server:
    """A vLLM server (0.30) that serves a folder: policies are written there, and it reads each anew
    (docs/guide.md).

    Its address and the folder are in the environment, HS2_VLLM_URL and HS2_VLLM_FOLDER; it gets no
    key. at_once: requests. Raises ValueError where these are not set; the methods raise
    ConnectionError for a server that does not answer, RuntimeError for one that answers with an
    error or serves another folder.
    """

    def __init__(self, at_once: int = 1):
        self.url, folder = os.environ.get("HS2_VLLM_URL", ""), os.environ.get("HS2_VLLM_FOLDER", "")
        if not folder or not self.url or not re.fullmatch(ADDRESS, self.url):
            what = "HS2_VLLM_URL, http://host:port of a vLLM server, and HS2_VLLM_FOLDER, the folder that it serves"
            raise ValueError(f'backend="vllm" needs {what}, in the environment: see docs/guide.md')
        self.folder = Path(folder).absolute()
        limits, timeout = (
            httpx2.Limits(max_connections=at_once),
            httpx2.Timeout(LONGEST, connect=10.0),
        )
        self.client = httpx2.Client(
            base_url=self.url, limits=limits, timeout=timeout, trust_env=False
        )

    @contextmanager
    def holding(self, policy) -> Iterator[str]:
        """Let the server hold this policy's weights, and no other run change them; yields the
        model's name there.

        What the folder was last read for stands in a file beside: nothing is written or read again
        for the same policy. Of several processes, which call this alike, the first one does all
        that; the others yield "".
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        mark, name = self.folder / "hs2-policy.txt", policy.fingerprint()
        first = not distributed.is_initialized() or distributed.get_rank() == 0
        with (self.folder / "hs2.lock").open("ab") as file:
            if first:
                fcntl.flock(file, fcntl.LOCK_EX)  # who comes second waits
            same = [mark.is_file() and mark.read_text() == name]
            if policy.root:
                distributed.broadcast_object_list(same)
            if not same[0] and (first or policy.root):
                mark.unlink(missing_ok=True)
                plain = copy.deepcopy(policy).merge() if policy.adapter else policy
                plain.write(self.folder, first)
            rows = self.ask("GET", "/v1/models")["data"] if first else ()
            served = {str(row["root"]).rstrip("/"): row["id"] for row in rows}
            if first and str(self.folder) not in served:
                raise RuntimeError(
                    f"{self.url} serves {list(served)}, not {self.folder}: start it on that folder"
                )
            if first and not same[0]:
                self.ask("POST", "/sleep?level=2")
                self.ask("POST", "/wake_up?tags=weights")
                self.ask("POST", "/collective_rpc", {"method": "reload_weights"})
                self.ask("POST", "/wake_up?tags=kv_cache")
                self.ask("POST", "/reset_prefix_cache")
                mark.write_text(name)
            yield served.get(str(self.folder), "")

    def sample(self, body: dict) -> dict:
        """One completion: {"tokens", "log_probs", "finished"}."""
        choice = self.ask("POST", "/v1/completions", body)["choices"][0]
        tokens, log_probs = (
            choice.get("token_ids"),
            (choice.get("logprobs") or {}).get("token_logprobs"),
        )
        if (
            choice["finish_reason"] not in ("stop", "length")
            or not tokens
            or len(tokens) != len(log_probs or ())
        ):
            raise RuntimeError(f"{self.url}: no whole sample: {str(choice)[:300]}")
        return {
            "tokens": tokens,
            "log_probs": log_probs,
            "finished": choice["finish_reason"] == "stop",
        }

    @tenacity.retry(
        retry=LOST,
        stop=tenacity.stop_after_attempt(5),
        wait=tenacity.wait_exponential(),
        reraise=True,
    )
    def ask(self, method: str, path: str, body: dict | None = None) -> dict:
        """The reply to one request; where the connection is lost it is tried again, 1, 2, 4 and 8 seconds later."""
        try:
            reply = self.client.request(method, path, json=body)
        except httpx2.HTTPError as error:
            what = f"does not answer ({type(error).__name__}): start it as docs/guide.md says; all samples are kept"
            raise ConnectionError(f"{self.url}{path} {what}") from None
        if not reply.is_success:
            raise RuntimeError(f"{self.url}{path}: HTTP {reply.status_code}: {reply.text[:300]!r}")
        return reply.json() if reply.content else {}
