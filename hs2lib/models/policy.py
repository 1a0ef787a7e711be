"""The policy: a causal language model, and log-probabilities of whole responses.

    policy = load_policy("embedded")  # or a folder that Policy.save wrote, or a Hub repository
    # [R] each: log P(y|x) of every response, and its number of tokens
    log_probs, lengths = policy.log_probs(groups, cache=folder)
    policy.lora(rank=16)  # then `hs2lib.train.trainer.fit` on an objective such as dpo(beta)
    policy.merge().save(folder)

Paper: section 4. SteerLM's label goes before the answer and so into the prompt: `label=` of
`tokenise` and `log_probs`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import torch
from torch import distributed

from hs2lib.engine.attention import computing, in_order, response_log_probs
from hs2lib.engine.chat import TokenGroup, closing_tokens
from hs2lib.group import Group
from hs2lib.models.backbones import source_of
from hs2lib.models.base import STATE, Decoder
from hs2lib.models.rollout import as_tokens

# SteerLM's label string before every answer, or what says it for each group.
Label = str | Callable[[Group], str | None] | None


class Policy(Decoder):
    """A causal language model pi(y|x), with how a conversation is written for it.

    Paper: section 4 (the models that are aligned).

    A response is the tokens of the answer and of what ends a turn: the closing marker up to its
    first special token, where a sampler stops. What a template writes after it (a line break, say)
    no model has to learn, and it counts in no log-probability. `attributes` is empty: there is no
    head.
    """

    causal = True
    kind = "policy"

    @property
    def written(self) -> dict[str, object]:
        """As for any decoder, with "scored" False.

        The reference template ends a policy's turns otherwise than what a reward model reads.
        """
        return super().written | {"scored": False}

    def ending(self) -> list[int]:
        """The tokens that end a response: the closing marker up to its first special token."""
        closing = closing_tokens(self.tokenizer, **self.written)
        special = set(self.tokenizer.all_special_ids)
        for position, token in enumerate(closing):
            if token in special:
                return closing[: position + 1]
        return closing

    def tokenise(
        self, groups: Iterable[Group], label: Label = None, **options: object
    ) -> Iterator[TokenGroup | None]:
        """Token groups in this policy's template and length, each sequence ending with `ending`.

        Args:
            groups: texts.
            label: SteerLM's label string before every answer, or a function of a group that
                returns it.
            options: too_long, as for `chat.tokenise`.
        """
        surplus = len(closing_tokens(self.tokenizer, **self.written)) - len(self.ending())
        label_of = label if callable(label) else lambda group: label
        for text, groups_of_label in groupby(groups, key=label_of):
            for group in super().tokenise(groups_of_label, label=text, **options):
                if group is not None:
                    sequences = tuple(ids[: len(ids) - surplus] for ids in group.sequences)
                    group = replace(group, sequences=sequences)
                yield group

    def log_probs(
        self,
        groups: Iterable[Group] | Iterable[TokenGroup],
        *,
        label: Label = None,
        **options: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The log-probability of every response, and its number of tokens, in the caller's order.

        Paper: section 4.3 (the reference model's log-probabilities in DPO), section 4.5 (P(y|x),
        Q'(y|a,x)).

        Args:
            groups: texts, or tokens.
            label: as for `tokenise`; only for texts.
            options: budget, autocast and cache, as for `rows`.

        Returns:
            log pi(y|x), float32 [R]: sums over the response's tokens, its end included, at
            temperature 1. The numbers of tokens, int64 [R].

        Raises:
            ValueError: there are no groups.
        """
        groups = list(self.as_tokens(groups, label=label))
        lengths = [
            len(sequence) - start
            for group in groups
            for sequence, start in zip(group.sequences, group.starts, strict=True)
        ]
        return self.rows(groups, "log-probs", **options), torch.tensor(lengths)  # [R] each

    def _computed(self, groups: Sequence[TokenGroup], budget: int, autocast: str) -> torch.Tensor:
        sequences = [group.sequences for group in groups]
        starts = [group.starts for group in groups]
        with computing(self, autocast):
            log_probs = in_order(
                partial(response_log_probs, self),
                sequences,
                budget,
                predict=starts,
                shared=distributed.is_initialized(),
            )  # [R, 1]
            return log_probs[:, 0]


def load_policy(
    name: str | Path,
    *,
    revision: str | None = None,
    pad_token: str | None = None,
    **options: object,
) -> Policy:
    """Any policy: a folder that `Policy.save` wrote, or any backbone by name.

    Args:
        name: the folder, or a name as for `Policy.new`.
        revision: as for `Policy.new`, and so the others; a saved policy has its own.
        pad_token: likewise.
        options: likewise.
    """
    folder = Path(source_of(name))
    if (folder / STATE).is_file():
        return Policy.load(folder)
    return Policy.new(name, revision=revision, pad_token=pad_token, **options).eval()


def unlabelled(judge: Policy, sampler: Policy, sampled: Sequence[Group]) -> list[TokenGroup]:
    """The sampled tokens after the prompt without label, with the end of turn of the judge.

    Two templates end a turn in two ways. Whether a model would write the other's marker is not
    asked.

    Args:
        judge: the policy whose log-probabilities are wanted.
        sampler: the policy that sampled.
        sampled: groups of `Sample`s.

    Raises:
        ValueError: the two tokenizers differ.
    """
    if judge.tokenizer.get_vocab() != sampler.tokenizer.get_vocab():
        raise ValueError(
            "the two policies have different tokenizers, so the same tokens mean other texts"
        )
    sampler_ending = sampler.ending()
    judge_ending = judge.ending()

    def with_judge_ending(tokens: list[int]) -> list[int]:
        if tokens[-len(sampler_ending) :] != sampler_ending:
            return tokens  # the response was cut
        return [*tokens[: -len(sampler_ending)], *judge_ending]

    groups = []
    for group in as_tokens(judge, sampled):
        sequences = tuple(with_judge_ending(tokens) for tokens in group.sequences)
        groups.append(replace(group, sequences=sequences))
    return groups
