"""The policy: a causal language model, and log-probabilities of whole responses.

    policy = load_policy("embedded")                       # or a folder that Policy.save wrote, or a Hub repository
    total, tokens = policy.log_probs(groups, cache=folder) # [R] each: log P(y|x) of every response, and its length
    policy.lora(rank=16)                                   # train with hs2lib.train.trainer.fit on objectives such as
    dpo(beta) policy.merge().save(folder)

Paper: section 4. SteerLM's label goes before the answer and so into the prompt: `label=` of both
functions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import torch
from torch import distributed

from hs2lib.engine.attention import computing, in_order, response_log_probs
from hs2lib.engine.chat import TokenGroup, closing_tokens
from hs2lib.group import Group
from hs2lib.models.backbones import where
from hs2lib.models.base import STATE, Decoder
from hs2lib.models.rollout import as_tokens


class Policy(Decoder):
    """A causal language model pi(y|x), with how a conversation is written for it.

    Paper: section 4 (the models that are aligned). A response is the tokens of the answer and of
    what ends a turn: the closing marker up to its first special token, where a sampler stops; what
    a template writes after it (a line break, say) no model has to learn, and it counts in no
    log-probability. `attributes` is empty: there is no head.
    """

    causal, kind = True, "policy"

    @property
    def written(self) -> dict:
        """As for any decoder; the reference template ends a policy's turns otherwise than what a reward model reads."""
        return super().written | {"scored": False}

    def ending(self) -> list[int]:
        """The tokens that end a response of this policy: the template's closing marker to its first special token."""
        closing = closing_tokens(self.tokenizer, **self.written)
        special = set(self.tokenizer.all_special_ids)
        return closing[
            : next((i + 1 for i, token in enumerate(closing) if token in special), len(closing))
        ]

    def tokenise(
        self, groups: Iterable[Group], label=None, **options
    ) -> Iterator[TokenGroup | None]:
        """Token groups in this policy's template and length, each sequence ending with `ending`.

        label: SteerLM's label string before every answer, or a function that says it for each
        group. options: too_long. Otherwise as `chat.tokenise`.
        """
        surplus = len(closing_tokens(self.tokenizer, **self.written)) - len(self.ending())
        for text, several in groupby(groups, key=label if callable(label) else lambda group: label):
            for group in super().tokenise(several, label=text, **options):
                if group is not None:
                    ended = tuple(s[: len(s) - surplus] for s in group.sequences)
                    group = replace(group, sequences=ended)
                yield group

    def log_probs(
        self, groups: Iterable, *, label=None, **options
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(log pi(y|x) float32 [R], its number of tokens int64 [R]) of every response, in the
        caller's order.

        Paper: section 4.3 (the reference model's log-probabilities in DPO), section 4.5 (P(y|x),
        Q'(y|a,x)). Sums over the response's tokens, its end included, at temperature 1. label: as
        for `tokenise`. options: budget, autocast and cache, as for `rows`. Raises ValueError for no
        groups.
        """
        tokens = list(self.as_tokens(groups, label=label))
        lengths = [
            len(s) - start
            for group in tokens
            for s, start in zip(group.sequences, group.starts, strict=True)
        ]
        return self.rows(tokens, "log-probs", **options), torch.tensor(lengths)  # [R] each

    def _computed(self, groups: list[TokenGroup], budget: int, autocast: str) -> torch.Tensor:
        sequences, starts = (
            [getattr(group, name) for group in groups] for name in ("sequences", "starts")
        )
        with computing(self, autocast):
            function, shared = partial(response_log_probs, self), distributed.is_initialized()
            return in_order(function, sequences, budget, predict=starts, shared=shared)[:, 0]  # [R]


def load_policy(
    name: str | Path, *, revision: str | None = None, pad_token: str | None = None, **options
) -> Policy:
    """Any policy: a folder that `Policy.save` wrote, or any backbone by name. options: as for `Policy.new`."""
    place = Path(where(name))
    if (place / STATE).is_file():
        return Policy.load(place)
    return Policy.new(name, revision=revision, pad_token=pad_token, **options).eval()


def unlabelled(judge, sampler, sampled: Sequence[Group]) -> list[TokenGroup]:
    """The sampled tokens after the prompt without label, each with the end of turn of the model
    that judges it.

    Two templates end a turn in two ways; whether a model would write the other's marker is not
    asked. Raises ValueError where the two tokenizers differ.
    """
    if judge.tokenizer.get_vocab() != sampler.tokenizer.get_vocab():
        raise ValueError(
            "the two policies have different tokenizers, so the same tokens mean other texts"
        )
    theirs, ours = sampler.ending(), judge.ending()

    def ended(tokens: list[int]) -> list[int]:
        return [*tokens[: -len(theirs)], *ours] if tokens[-len(theirs) :] == theirs else tokens

    tokens = as_tokens(judge, sampled)
    return [replace(group, sequences=tuple(map(ended, group.sequences))) for group in tokens]
