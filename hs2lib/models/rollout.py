"""Rollouts: n responses to every prompt, kept on disk as they come.

    sampled = rollouts(policy, prompts, n=10, max_new_tokens=256, seed=0, file=folder)
    scores = reward_model.score(sampled)  # [all responses, A]: groups like any others
    groups = as_tokens(policy, sampled)  # TokenGroups of the very tokens that were sampled
    # log pi(y|x) of them under any policy with this tokenizer, and their lengths
    log_probs, lengths = policy.log_probs(groups)

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
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import httpx2
import numpy as np
import tenacity
import torch
from torch import distributed
from tqdm.auto import tqdm
from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from hs2lib import code, rehearsal
from hs2lib.engine import attention, checkpoints
from hs2lib.engine.attention import computing
from hs2lib.engine.cache import Cache, content_key
from hs2lib.engine.chat import TokenGroup, prompt_tokens, tokenise
from hs2lib.engine.decoding import decode, uniforms
from hs2lib.group import Group, Response
from hs2lib.names import ADDRESS, BACKENDS, one_of

if TYPE_CHECKING:
    from hs2lib.engine.trees import Batch

    # Every policy here is a `Policy`. Its module imports this one, so its base class is named.
    from hs2lib.models.base import Decoder

LOST = tenacity.retry_if_exception_type(ConnectionError)

# Seconds that a reply of vLLM may take: to read 70B weights anew takes minutes.
LONGEST = 3600.0

# The samples of a prompt that are not there yet: its id, its tokens, and their indices.
_Missing = tuple[str, list[int], list[int]]


class _How(NamedTuple):
    """How to sample: settings of `rollouts`."""

    seed: int
    max_new_tokens: int
    min_new_tokens: int
    temperature: float
    top_p: float
    batch: int
    autocast: str


# A sample as an engine returns it: the id of its prompt, its index, and {"tokens", "log_probs",
# "finished"}.
_Sampled = tuple[str, int, dict]


@dataclass(frozen=True, slots=True)
class Sample(Response):
    """A sampled response: its text, and the tokens it was sampled as.

    Args:
        tokens: the sampled ids, with the end of the turn where it was reached.
        log_probs: of each token, float32, under the policy that sampled at temperature 1 over the
            whole vocabulary: log pi(token|before), whatever temperature and top-p chose the token.
        finished: whether the end of the turn was reached.
    """

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    finished: bool = True


def rollouts(
    policy: "Decoder",
    prompts: Sequence[Group],
    *,
    n: int,
    max_new_tokens: int,
    temperature: float = 0.7,
    top_p: float = 0.9,
    seed: int = 0,
    label: str | None = None,
    file: Path | None = None,
    batch: int = 128,
    autocast: str = "float32",
    progress: bool = True,
    backend: str = "transformers",
    min_new_tokens: int = 0,
) -> list[Group]:
    """The prompts in their order, each with n `Sample`s in place of its responses.

    Paper: section 4.3 (n = 10, temperature 0.7, top-p 0.9).

    The id of a sample is "<prompt id>/<index>". A prompt too long to leave room loses its oldest
    turns, here and in the group that is returned. Several processes call this alike and all get all
    samples; where each has the whole policy they share them out.

    Args:
        policy: that samples.
        prompts: groups; their responses are not read.
        n: samples of a prompt.
        max_new_tokens: of a sample, with the end of the turn.
        temperature: 0 takes the likeliest token each time.
        top_p: of the probability that the candidates for a token have together.
        seed: of all samples.
        label: SteerLM's label string that opens every answer; it is no part of the text.
        file: a JSONL file, one line a sample as soon as it is done. Samples that it holds already
            are not sampled again. A folder stands for a file in it that is named by the policy, the
            settings and the code that samples.
        batch: samples at once.
        autocast: "bfloat16" for speed on a GPU.
        progress: whether to show a bar of samples.
        backend: "transformers", our engine. "generate_batch", transformers' continuous batching:
            its samples have one seed for all, and so depend on what else is sampled. "vllm", a
            `Server`: its samples are its own, seeded alike.
        min_new_tokens: a sample does not end before.

    Raises:
        ValueError: there are no prompts, ids are not unique, settings are out of range, the file
            holds samples of another policy or other settings, or a log-probability is not finite.
        ConnectionError: a `Server` does not answer.
        RuntimeError: a `Server` answers with an error.
    """
    prompts = list(prompts)
    if not prompts:
        raise ValueError("there are no prompts to sample responses for")
    (id, times), *_ = Counter(group.id for group in prompts).most_common(1)
    if times > 1:
        raise ValueError(
            f"two prompts have the id {id!r}: a sample is seeded by the id of its prompt"
        )
    if n < 1 or max_new_tokens < 1 or temperature < 0 or not 0 < top_p <= 1:
        raise ValueError(
            "n and max_new_tokens are at least 1, temperature at least 0, top_p in (0, 1]; "
            f"got n={n}, max_new_tokens={max_new_tokens}, temperature={temperature}, top_p={top_p}"
        )
    one_of("backend", backend, BACKENDS)
    prompts = [shortened(policy, group, max_new_tokens, label) for group in prompts]
    tokens = {group.id: _tokens(policy, group, label) for group in prompts}
    sampling = {
        "seed": seed,
        "temperature": temperature,
        "top_p": top_p,
        "max_new_tokens": max_new_tokens,
        "min_new_tokens": min_new_tokens,
    }
    settings = {
        "policy": policy.fingerprint() if file else "",
        **sampling,
        "backend": backend,
        "autocast": autocast,
    }

    several = distributed.is_initialized()
    # Processes that hold one policy in parts sample in step. Of those that ask a server the first
    # one asks for all.
    alike = bool(policy.root) or (several and backend == "vllm")
    rank = 0
    processes = 1
    if several and not alike:
        rank = distributed.get_rank()
        processes = distributed.get_world_size()
    code_digest = code.digest(__name__, type(policy)) if file else ""
    cache = Cache(file, settings, name="samples", shared=alike, code=code_digest)

    digests = {id: content_key(ids, 16) for id, ids in tokens.items()}

    def key(id: str, index: int) -> str:
        return f"{id}/{index} {digests[id]}"

    own_ids = list(tokens)[rank::processes]  # of the prompts that this process samples
    missing: list[_Missing] = []
    for id in own_ids:
        indices = [i for i in range(n) if key(id, i) not in cache]
        if indices:
            missing.append((id, tokens[id], indices))
    if missing:
        special, stop = _ending(policy)
        samplers = {"vllm": _vllm, "generate_batch": _generate_batch}
        sample = samplers.get(backend, _transformers)
        if rehearsal.on():
            sample = rehearsal.of_few(sample)
        total = n * len(own_ids)
        done = total - sum(len(indices) for _, _, indices in missing)
        with tqdm(total=total, initial=done, unit="sample", disable=not progress) as bar:
            for id, index, row in sample(
                policy, missing, special, stop, _How(**sampling, batch=batch, autocast=autocast)
            ):
                if not np.isfinite(row["log_probs"]).all():
                    raise ValueError(
                        f"prompt {id}: a log-probability is not finite: "
                        "the policy's weights are broken"
                    )
                text = _text(policy, row["tokens"], row["finished"], stop)
                cache.add({key(id, index): {"text": text, **row}})
                bar.update()
        cache.share()
    if several and not alike:
        own_rows = {key(id, i): cache[key(id, i)] for id in own_ids for i in range(n)}
        rows_of_processes = [None] * processes
        distributed.all_gather_object(rows_of_processes, own_rows)
        for rows in rows_of_processes:
            cache.update(rows)

    sampled = []
    for group in prompts:
        samples = tuple(_sample(f"{group.id}/{i}", cache[key(group.id, i)]) for i in range(n))
        sampled.append(replace(group, responses=samples, preference=None, preferences=()))
    return sampled


def _sample(id: str, row: dict) -> Sample:
    """The sample of a row of the cache."""
    tokens = tuple(row["tokens"])
    log_probs = tuple(row["log_probs"])
    return Sample(id, row["text"], tokens=tokens, log_probs=log_probs, finished=row["finished"])


def as_tokens(
    policy: "Decoder", groups: Sequence[Group], label: str | None = None
) -> list[TokenGroup]:
    """Groups of samples as the token sequences that they were sampled as.

    They are for `Policy.log_probs` and the engine. Text tokenised anew may give other tokens, and
    its end of turn was never sampled where a response is unfinished.

    Args:
        policy: whose prompts are wanted.
        groups: with `Sample`s.
        label: SteerLM's label string. It need not be the one sampled with: log P(y|x) and
            log Q(y|a,x) are of the same y.
    """
    token_groups = []
    for group in groups:
        longest = max(len(sample.tokens) for sample in group.responses)
        prompt = _tokens(policy, shortened(policy, group, longest, label), label)
        sequences = tuple([*prompt, *sample.tokens] for sample in group.responses)
        token_groups.append(TokenGroup(group, sequences, (len(prompt),) * len(sequences)))
    return token_groups


def _tokens(policy: "Decoder", group: Group, label: str | None) -> list[int]:
    """The tokens that a sampler continues."""
    return prompt_tokens(group.prompt, policy.tokenizer, **policy.written | {"label": label})


def shortened(policy: "Decoder", group: Group, room: int, label: str | None = None) -> Group:
    """The group without the oldest turns of its prompt where they leave no room for a response.

    The response is closed by who scores it, also where it is cut. Paper: silent.

    Args:
        policy: that samples.
        group: a prompt.
        room: tokens of the response.
        label: SteerLM's label string.

    Raises:
        ValueError: the last turn of the prompt alone leaves no room.
    """
    if not policy.max_tokens:
        return group
    bare = replace(group, responses=(Response("", ""),))
    options = policy.written | {"label": label}
    limit = policy.max_tokens - room or -1  # 0 would be no limit
    (tokens,) = tokenise([bare], policy.tokenizer, max_tokens=limit, **options)
    system_turns = 1 if group.prompt[0].role == "system" else 0
    prompt = (*group.prompt[:system_turns], *group.prompt[system_turns + tokens.dropped :])
    return replace(group, prompt=prompt)


def _ending(policy: "Decoder") -> tuple[set[int], str]:
    """What ends a response: token ids, and a text where the template's end is no special token."""
    ending = policy.ending()
    ids = {policy.tokenizer.eos_token_id}
    config = getattr(policy.backbone, "generation_config", None)
    named = getattr(config, "eos_token_id", None)  # one id, a list of ids, or None
    if isinstance(named, list):
        ids.update(named)
    else:
        ids.add(named)
    ids.discard(None)
    if ending[-1] in policy.tokenizer.all_special_ids:
        return ids | {ending[-1]}, ""
    return ids, policy.tokenizer.decode(ending)


def _text(policy: "Decoder", ids: Sequence[int], finished: bool, stop: str) -> str:
    """The answer's text, without the end of the turn and without special tokens.

    Args:
        policy: that sampled.
        ids: the sampled tokens.
        finished: whether the end of the turn is among them.
        stop: the text that ends a turn, "" where a special token does.
    """
    text = policy.tokenizer.decode(
        list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return text.partition(stop)[0] if stop and finished else text


def _transformers(
    policy: "Decoder",
    missing: Sequence[_Missing],
    special: Collection[int],
    stop: str,
    how: _How,
) -> Iterator[_Sampled]:
    """Samples of our own engine, in the order in which they are done.

    Args:
        policy: that samples.
        missing: what to sample.
        special: token ids that end a response.
        stop: a text that ends a response, "" for none.
        how: the settings.
    """

    def ends(tokens: list[int]) -> bool:
        if tokens[-1] in special:
            return True
        # A text that ends a turn may be cut into tokens in more than one way, so text is compared.
        return bool(stop) and stop in policy.tokenizer.decode(tokens[-len(stop) :])

    # Prompts of about one length are quickest together.
    missing = sorted(missing, key=lambda one: len(one[1]))

    def prompts() -> Iterator[tuple[list[int], list[tuple[int, np.ndarray]]]]:
        for id, ids, indices in missing:
            yield ids, [(i, uniforms(how.seed, id, i, how.max_new_tokens)) for i in indices]

    device = next(policy.backbone.parameters()).device
    size = policy.backbone.config.get_text_config().vocab_size
    forbidden = torch.tensor([token in special for token in range(size)], device=device)  # bool [V]
    with computing(policy, how.autocast):
        for row in decode(
            policy.backbone,
            prompts(),
            max_new_tokens=how.max_new_tokens,
            ends=ends,
            forbidden=forbidden,
            min_new_tokens=how.min_new_tokens,
            batch=how.batch,
            shared=bool(policy.root),
            temperature=how.temperature,
            top_p=how.top_p,
        ):
            values = {"tokens": row.tokens, "log_probs": row.log_probs, "finished": row.finished}
            id, _, _ = missing[row.prompt]
            yield id, row.index, values


def _generate_batch(
    policy: "Decoder",
    missing: Sequence[_Missing],
    special: Collection[int],
    stop: str,
    how: _How,
) -> Iterator[_Sampled]:
    """As `_transformers`, by transformers' `generate_batch`, which shares prompts' caches.

    Its log-probabilities are of what it chose from, so ours are computed after it. It works in a
    thread of its own, which autocast does not reach: a copy in bfloat16 then takes the model's
    place.

    Raises:
        ValueError: a turn of this policy's template ends with a text, or `min_new_tokens` is set.
        RuntimeError: a sample did not come.
    """
    if stop or how.min_new_tokens:
        raise ValueError(
            f'backend="generate_batch" ends a turn at special tokens alone, and has no '
            f"min_new_tokens; here a turn ends with {stop!r}"
        )
    model = copy.deepcopy(policy.backbone) if how.autocast == "bfloat16" else policy.backbone
    if how.autocast == "bfloat16":
        model = model.to(torch.bfloat16)
    on_cpu = model.device.type == "cpu"
    options = (
        {"temperature": how.temperature, "top_p": how.top_p, "top_k": 0} if how.temperature else {}
    )
    asked = [(id, index, ids) for id, ids, indices in missing for index in indices]
    before = model.config._attn_implementation
    model.set_attn_implementation("sdpa")
    try:
        done = model.generate_batch(
            [ids for _, _, ids in asked],
            generation_config=GenerationConfig(
                do_sample=how.temperature > 0,
                max_new_tokens=how.max_new_tokens,
                eos_token_id=sorted(special),
                pad_token_id=policy.tokenizer.pad_token_id,
                **options,
            ),
            continuous_batching_config=ContinuousBatchingConfig(
                seed=how.seed,
                max_requests_per_batch=how.batch,
                max_memory_percent=0.1 if on_cpu else None,  # of a CPU it would take most
            ),
            warmup=not on_cpu,
        )
    finally:
        model.set_attn_implementation(before)
    results = list(done.values())
    if len(results) < len(asked) or any(result.error for result in results):
        errors = {result.error for result in results if result.error}
        raise RuntimeError(f"{len(asked) - len(results)} samples did not come; errors: {errors}")
    rest = iter(results)
    sequences = []
    starts = []
    for _, ids, indices in missing:
        sequences.append([[*ids, *next(rest).generated_tokens] for _ in indices])
        starts.append([len(ids)] * len(indices))

    def log_probs(batch: "Batch") -> torch.Tensor:
        """[R, max_new_tokens], 0 behind the end."""
        values = attention.log_probs(policy.backbone, batch)  # [P], row by row
        lengths = torch.bincount(batch.owner, minlength=len(batch.index))  # [R]
        first = (lengths.cumsum(0) - lengths)[batch.owner]  # [P]
        column = torch.arange(len(values), device=first.device) - first
        rows = values.new_zeros(len(batch.index), how.max_new_tokens)
        rows[batch.owner.to(values.device), column.to(values.device)] = values
        return rows

    with computing(policy, how.autocast):
        found = attention.in_order(log_probs, sequences, predict=starts)
    for (id, index, _), one, row in zip(asked, results, found, strict=True):
        tokens = list(one.generated_tokens)
        values = row[: len(tokens)].tolist()
        finished = tokens[-1] in special
        yield id, index, {"tokens": tokens, "log_probs": values, "finished": finished}


def _vllm(
    policy: "Decoder",
    missing: Sequence[_Missing],
    special: Collection[int],
    stop: str,
    how: _How,
) -> Iterator[_Sampled]:
    """As `_transformers`, asked of a server that samples from this policy.

    The server's own defaults count for nothing, and it has a precision of its own.
    """
    common = {
        "temperature": how.temperature,
        "top_p": how.top_p,
        "max_tokens": how.max_new_tokens,
        "min_tokens": how.min_new_tokens,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "stop_token_ids": sorted(special),
        "stop": [stop] if stop else [],
        "include_stop_str_in_output": True,
        "logprobs": 0,  # of the sampled token alone
        "return_token_ids": True,
    }
    server = Server(how.batch)

    def sample(model: str, id: str, index: int, ids: list[int]) -> _Sampled:
        seed_of_sample = int(2**32 * uniforms(how.seed, id, index, 1)[0])
        body = {**common, "model": model, "prompt": list(ids), "seed": seed_of_sample}
        return id, index, server.sample(body)

    with server.holding(policy) as model, ThreadPoolExecutor(how.batch) as pool:
        try:
            asked = []
            if model:  # "" in a process that does not ask
                for id, ids, indices in missing:
                    asked += [pool.submit(sample, model, id, index, ids) for index in indices]
            for future in as_completed(asked):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class Server:
    """A vLLM server (0.30) that serves a folder.

    Policies are written into the folder, and the server reads each anew. Its address and the folder
    are in the environment, HS2_VLLM_URL and HS2_VLLM_FOLDER (docs/gpu.md). It gets no key.

    Args:
        at_once: requests at the same time.

    Raises:
        ValueError: the address or the folder is not set.
        ConnectionError: by the methods, where the server does not answer.
        RuntimeError: by the methods, where it answers with an error or serves another folder.
    """

    def __init__(self, at_once: int = 1) -> None:
        self.url = os.environ.get("HS2_VLLM_URL", "")
        folder = os.environ.get("HS2_VLLM_FOLDER", "")
        if not folder or not self.url or not re.fullmatch(ADDRESS, self.url):
            raise ValueError(
                'backend="vllm" needs HS2_VLLM_URL, http://host:port of a vLLM server, and '
                "HS2_VLLM_FOLDER, the folder that it serves, in the environment: see docs/gpu.md"
            )
        self.folder = Path(folder).absolute()
        self.client = httpx2.Client(
            base_url=self.url,
            limits=httpx2.Limits(max_connections=at_once),
            timeout=httpx2.Timeout(LONGEST, connect=10.0),
            trust_env=False,
        )

    @contextmanager
    def holding(self, policy: "Decoder") -> Iterator[str]:
        """Let the server hold this policy's weights, and no other run change them meanwhile.

        A file in the folder says which policy the server read last. For the same policy nothing is
        written or read again. Several processes call this alike, and the first one does all that.

        Yields:
            The model's name at the server; "" in all processes but the first.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        mark = self.folder / "hs2-policy.txt"
        fingerprint = policy.fingerprint()
        is_first = checkpoints.is_first()
        with (self.folder / "hs2.lock").open("ab") as file:
            if is_first:
                fcntl.flock(file, fcntl.LOCK_EX)  # another run waits here
            same = [mark.is_file() and mark.read_text() == fingerprint]
            if policy.root:
                distributed.broadcast_object_list(same)
            is_same = same[0]
            # Where processes share the weights out they gather them together to write them.
            if not is_same and (is_first or policy.root):
                mark.unlink(missing_ok=True)
                plain = copy.deepcopy(policy).merge() if policy.adapter else policy
                plain.write(self.folder)
            if not is_first:
                yield ""
                return
            model = self._model()
            if not is_same:
                self._reload()
                mark.write_text(fingerprint)
            yield model

    def _model(self) -> str:
        """The name of the model that is served from the folder."""
        served = {}  # folder -> name
        for row in self.ask("GET", "/v1/models")["data"]:
            served[str(row["root"]).rstrip("/")] = row["id"]
        if str(self.folder) not in served:
            raise RuntimeError(
                f"{self.url} serves {list(served)}, not {self.folder}: start it on that folder"
            )
        return served[str(self.folder)]

    def _reload(self) -> None:
        """Let the server read the weights in the folder, and drop what others computed."""
        self.ask("POST", "/sleep?level=2")
        self.ask("POST", "/wake_up?tags=weights")
        self.ask("POST", "/collective_rpc", {"method": "reload_weights"})
        self.ask("POST", "/wake_up?tags=kv_cache")
        self.ask("POST", "/reset_prefix_cache")

    def sample(self, body: dict) -> dict:
        """One completion: {"tokens", "log_probs", "finished"}."""
        choice = self.ask("POST", "/v1/completions", body)["choices"][0]
        reason = choice["finish_reason"]
        tokens = choice.get("token_ids") or []
        log_probs = (choice.get("logprobs") or {}).get("token_logprobs") or []
        if reason not in ("stop", "length") or not tokens or len(tokens) != len(log_probs):
            raise RuntimeError(f"{self.url}: no whole sample: {str(choice)[:300]}")
        return {"tokens": tokens, "log_probs": log_probs, "finished": reason == "stop"}

    @tenacity.retry(
        retry=LOST,
        stop=tenacity.stop_after_attempt(5),
        wait=tenacity.wait_exponential(),
        reraise=True,
    )
    def ask(self, method: str, path: str, body: dict | None = None) -> dict:
        """The reply to one request.

        Where the connection is lost it is tried again, 1, 2, 4 and 8 seconds later.
        """
        try:
            reply = self.client.request(method, path, json=body)
        except httpx2.HTTPError as error:
            raise ConnectionError(
                f"{self.url}{path} does not answer ({type(error).__name__}): "
                "start it as docs/gpu.md says; all samples are kept"
            ) from None
        if not reply.is_success:
            raise RuntimeError(f"{self.url}{path}: HTTP {reply.status_code}: {reply.text[:300]!r}")
        return reply.json() if reply.content else {}
