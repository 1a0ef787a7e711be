r"""Conversations as text and as tokens, with SteerLM's label strings.

Two templates, chosen by name. "chat" is the tokenizer's own chat template. "reference" is the one
of the paper's code (paper/reference.csv), plain text for any tokenizer:

    <extra_id_0>System\n{system}\n<extra_id_1>User\n{prompt}\n<extra_id_1>Assistant\n{answer}\n<extra_id_2>

This is what a reward model reads; it has a system text of its own. A policy (`scored` False) has an
empty system text, and ends each of its turns with what begins the next, `\n<extra_id_1>`. Both
templates can carry a SteerLM label line, `<extra_id_2>helpfulness:4,..\n`, between the assistant
marker and the answer. The answer is then a policy's.

The closing marker is what a template writes after the answer. A reward is read at the last token of
the closing marker, never inside the answer: there the model has seen that the answer is over.
Paper: silent; as in the reference code.

A text may spell out what a template writes between turns, `<|im_end|>` or `[INST]`, and so pass for
further turns. Here it never does. A control token in a text is tokenised as plain text. A marker
that is plain text itself cannot be told apart by its tokens, so in a text it gets a backslash,
`[\INST]`. With `control_text` "refuse", not "escape", whoever scores or trains sets such a response
aside besides, and counts it.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from hs2lib.group import ATTRIBUTES, MISSING, Group, Response, Turn, named_numbers, prompt_string
from hs2lib.names import CONTROL_TEXT, TEMPLATES, TOO_LONG, one_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The nine outputs of the reference code's regression models: Open Assistant's attributes before
# HelpSteer's.
NINE = ("quality", "toxicity", "humor", "creativity", *ATTRIBUTES)

LEVELS = (0, 1, 2, 3, 4)  # of an attribute in a label string

# The system turn of the reference code's reward models, word for word. A model that was trained
# with it is scored with it.
SYSTEM_PROMPT = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)

CHUNK = 128  # groups whose texts are tokenised in one call

_LABEL = "<extra_id_2>"

_REFERENCE = ("<extra_id_0>", "<extra_id_1>", "<extra_id_2>")  # the reference template's markers

_ANSWER = "\ue000answer\ue000"  # a private-use mark; shows where a chat template puts the answer

# The marks that transformers puts around a control token of a text.
_START = "\U000f0000"

_END = "\U000f0001"

# A control token between its two marks, or a lone mark.
_MARKED = re.compile(f"{_START}([^{_START}{_END}]*){_END}|[{_START}{_END}]")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text, with the place of the answer.

    `text[:start]` is the prompt, `text[start:end]` the answer, and the closing marker follows. A
    control token that one of its turns spells out stands between transformers' two private-use
    marks: see `encode`.
    """

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """A group as token sequences, one per response, each holding prompt, answer and closing marker.

    starts[i]: the index in sequences[i] of the first token that holds a character of the answer (or
        of its closing marker, where the answer is empty).
    dropped: the number of turns of the prompt that were left out to fit; 0 for most.
    """

    group: Group
    sequences: tuple[list[int], ...]
    starts: tuple[int, ...]
    dropped: int = 0


def label_vector(
    labels: Sequence[float], attributes: Sequence[str], outputs: Sequence[str] = ATTRIBUTES
) -> tuple[float, ...]:
    """A response's labels in the order of a model's outputs, MISSING (-100) where unlabelled.

    Paper: silent; the reference code's 9-vector is `outputs=NINE`.

    Args:
        labels: values in the order of `attributes`, nan for missing, or () for none at all.
        attributes: the names of the labels.
        outputs: the names of the model's outputs.
    Raises:
        ValueError: if labels and attributes differ in number.
    """
    if labels and len(labels) != len(attributes):
        raise ValueError(
            f"{len(labels)} labels for {len(attributes)} attributes {tuple(attributes)}"
        )
    by_name = dict(zip(attributes, labels, strict=False))
    values = (by_name.get(name, math.nan) for name in outputs)
    return tuple(MISSING if math.isnan(value) else float(value) for value in values)


def label_string(labels: Sequence[float], attributes: Sequence[str] = ATTRIBUTES) -> str:
    """SteerLM's label string, `helpfulness:4,correctness:4,..`; a missing label (nan) is left out.

    Paper: section 4.5; the string is the reference code's. Raises ValueError for a value that is no
    whole number 0-4: predictions are made whole by `whole` first.
    """
    if len(labels) != len(attributes):
        raise ValueError(
            f"{len(labels)} labels for {len(attributes)} attributes {tuple(attributes)}"
        )
    parts = []
    for name, value in zip(attributes, labels, strict=True):
        if math.isnan(value):
            continue
        if value not in LEVELS:
            raise ValueError(
                f"a label is a whole number from 0 to 4, got {value}: "
                "make predictions whole with `whole`"
            )
        parts.append(f"{name}:{int(value)}")
    return ",".join(parts)


def parse_label(string: str, attributes: Sequence[str] = ATTRIBUTES) -> tuple[float, ...]:
    """The values of a label string in the order of `attributes`; the inverse of `label_string`.

    An attribute that the string does not name is nan. Raises ValueError for other names, and for
    values that are no whole number 0-4.
    """
    values = named_numbers(string) if string else {}
    for name, value in values.items():
        if name not in attributes or value not in LEVELS:
            raise ValueError(
                f"expected name:0 to name:4, names {tuple(attributes)}, got {name!r} in {string!r}"
            )
    return tuple(values.get(name, math.nan) for name in attributes)


def as_labels(values: Iterable[float]) -> tuple[float, ...]:
    """Predicted values as labels: clamped to 0-4, rounded half to even.

    Paper: section 4.5 (reference code).
    """
    return tuple(float(round(min(max(value, 0.0), 4.0))) for value in values)


def _in_reference(turns: Sequence[Turn], scored: bool) -> str:
    """The reference code's text of a conversation.

    A system turn of the prompt replaces the reward model's, or the policy's empty one.

    scored: whether a reward model reads it, so that it ends in `<extra_id_2>`; or else a policy.
    """
    if turns[0].role != "system":
        turns = (Turn("system", SYSTEM_PROMPT if scored else ""), *turns)
    ending = "\n<extra_id_2>" if scored else "\n<extra_id_1>"
    return prompt_string(turns) + ending


def _in_chat(turns: Sequence[Turn], tokenizer: "PreTrainedTokenizerBase") -> str:
    """The conversation as the tokenizer's chat template writes it."""
    try:
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        return tokenizer.apply_chat_template(messages, tokenize=False)
    except Exception as error:  # jinja2 and the templates raise many kinds
        roles = [turn.role for turn in turns[:-1]]
        raise ValueError(
            f"the chat template refuses a conversation with roles {roles}: {error}"
        ) from error


def _control(
    tokenizer: "PreTrainedTokenizerBase", template: str
) -> tuple[re.Pattern, tuple[str, ...]]:
    """A pattern of the control tokens, and the markers of the template that are plain text."""
    return _control_of(tokenizer, template, str(getattr(tokenizer, "chat_template", "")))


@lru_cache(maxsize=8)
def _control_of(
    tokenizer: "PreTrainedTokenizerBase", template: str, chat_template: str
) -> tuple[re.Pattern, tuple[str, ...]]:
    """`_control` of a tokenizer whose chat template has this source.

    Control tokens are the special ones, and others that the chat template names.
    """
    named = chat_template if template == "chat" else ""
    words = []
    for token in tokenizer.added_tokens_decoder.values():
        if token.special or (token.content.strip() and token.content in named):
            words.append(token.content)
    words.sort(key=len, reverse=True)
    tokens = re.compile("|".join(map(re.escape, words)) or "(?!)")
    if template == "reference":
        return tokens, _REFERENCE
    return tokens, _markers(tokenizer, tokens)


def _markers(tokenizer: "PreTrainedTokenizerBase", tokens: re.Pattern) -> tuple[str, ...]:
    """What a chat template opens its turns with, where that is no token: `[INST]`, `USER:`.

    A plain word is no marker.
    """
    words: set[str] = set()
    for roles in (("system", "user", "assistant"), ("user", "assistant", "user", "assistant")):
        turns = [{"role": role, "content": _ANSWER} for role in roles]
        try:
            text = tokenizer.apply_chat_template(turns, tokenize=False)
        except Exception:  # this one knows no system turn; jinja2 and templates raise many kinds
            continue
        for before in text.split(_ANSWER)[:-1]:
            words |= set(tokens.split(before)[-1].split()[-1:])
    return tuple(sorted(word for word in words if len(word) > 1 and re.search(r"[^\w]", word)))


def control_strings(
    group: Group, tokenizer: "PreTrainedTokenizerBase", template: str = "chat"
) -> list[list[str]]:
    """The control tokens and template markers that each response, or the prompt, spells out."""
    tokens, markers = _control(tokenizer, template)

    def spelt_out(text: str) -> list[str]:
        strings = tokens.findall(text)
        for marker in markers:
            strings += [marker] * text.count(marker)
        return strings

    of_prompt = []
    for turn in group.prompt:
        of_prompt += spelt_out(turn.text)
    return [of_prompt + spelt_out(response.text) for response in group.responses]


def written(
    tokenizer: "PreTrainedTokenizerBase", prompt: Sequence[Turn], answer: str, **options: object
) -> Rendered:
    """A conversation in either template, with no turn but its own, whatever its texts spell out.

    A template that closes no turn gets the tokenizer's end token. Paper: silent.

    Args:
        tokenizer: whose chat template and control tokens count.
        prompt: the turns before the answer.
        answer: the last turn, the assistant's.
        template ("chat"): "chat" or "reference".
        label (None): a label string, whose line opens a policy's answer.
        control_text ("escape"): "escape" or "refuse", as the module says.
        scored (True): False for a conversation as a policy writes it, which is another text in the
            reference template.
    Raises:
        ValueError: if there is no template, if it refuses the roles, or changes the answer other
            than by stripping (drops thoughts, say).
    """
    group = Group("", tuple(prompt), (Response("", answer),))
    return _written(group, tokenizer, **options)[0]


def _written(
    group: Group,
    tokenizer: "PreTrainedTokenizerBase",
    template: str = "chat",
    label: str | None = None,
    control_text: str = "escape",
    scored: bool = True,
) -> list[Rendered]:
    """`written` for each response of a group."""
    one_of("template", template, TEMPLATES)
    one_of("control_text", control_text, CONTROL_TEXT)
    tokens, markers = _control(tokenizer, template)
    texts = [turn.text for turn in group.prompt] + [response.text for response in group.responses]
    texts = _without_control(texts, tokens, markers)
    n_prompt = len(group.prompt)
    prompt = []
    for turn, text in zip(group.prompt, texts[:n_prompt], strict=True):
        prompt.append(Turn(turn.role, text))

    def render(answer: str) -> str:
        turns = (*prompt, Turn("assistant", answer))
        if template == "reference":
            return _in_reference(turns, scored and label is None)
        return _in_chat(turns, tokenizer)

    before, after, strips = _around_answer(prompt, render)
    after = after or tokenizer.eos_token
    if before is None or not after:
        raise ValueError(
            "the chat template leaves out the last turn, or nothing closes it: no place for a score"
        )
    opened = before if label is None else f"{before}{_LABEL}{label}\n"
    out = []
    for answer in texts[n_prompt:]:
        words = answer.strip() if strips else answer
        text = render(answer)
        if text not in (before + words, before + words + after):
            raise ValueError(
                f"the chat template changes this answer: {answer[:60]!r} .. in {text[-120:]!r}"
            )
        out.append(Rendered(opened + words + after, len(opened), len(opened) + len(words)))
    return out


def _without_control(texts: list[str], tokens: re.Pattern, markers: Sequence[str]) -> list[str]:
    """Texts that pass for no turn: control tokens between marks, markers with a backslash.

    Marks of its own a text loses, as with transformers.
    """
    for mark in (_START, _END):
        texts = [text.replace(mark, "") for text in texts]
    for marker in markers:
        escaped = f"{marker[0]}\\{marker[1:]}"
        texts = [text.replace(marker, escaped) for text in texts]
    return [tokens.sub(f"{_START}\\g<0>{_END}", text) for text in texts]


def _around_answer(
    prompt: Sequence[Turn], render: Callable[[str], str]
) -> tuple[str | None, str, bool]:
    """What a template writes before and after an answer, and whether it strips answers.

    Llama 3's does. The text before is None where the template leaves the answer out.
    """
    mark = _ANSWER
    while any(mark in turn.text for turn in prompt):
        mark += mark
    spaced = f" {mark} "  # the spaces show whether the template strips
    text = render(spaced)
    strips = spaced not in text
    before, shown, after = text.partition(mark if strips else spaced)
    return (before if shown else None), after, strips


def tokenise(
    groups: Iterable[Group],
    tokenizer: "PreTrainedTokenizerBase",
    *,
    max_tokens: int | None = None,
    too_long: str = "raise",
    **options: object,
) -> Iterator[TokenGroup | None]:
    """A `TokenGroup` of each group, lazily and in order.

    A text is tokenised as a whole, as plain transformers would. Where a group's longest sequence
    exceeds `max_tokens`, the oldest turns of its prompt are dropped, whole exchanges at a time. The
    system turn and the last user turn are never dropped. Paper: silent (the reference code replaces
    a reward model's row by the next one, so trains on that twice).

    Args:
        groups: may be endless.
        tokenizer: whose chat template and control tokens count.
        max_tokens: the most tokens of a sequence; None for no limit.
        too_long: "leave out" puts None in the place of a group whose last turn alone is too long.
            A cut answer is another answer, so nothing else is cut.
        options: those of `written`.
    Raises:
        ValueError: naming the group whose last turn alone is too long, with too_long "raise".
    """
    one_of("too_long", too_long, TOO_LONG)
    groups = iter(groups)
    while chunk := list(islice(groups, CHUNK)):
        rendered = [_render(group, tokenizer, options) for group in chunk]
        encoded = iter(_encode(tokenizer, list(chain.from_iterable(rendered))))
        for group, texts in zip(chunk, rendered, strict=True):
            tokens = list(islice(encoded, len(texts)))
            shown = group
            if max_tokens:
                longest = _longest(tokens)
                while shown is not None and longest > max_tokens:
                    shown = _shorter(shown, longest, max_tokens, too_long)
                    if shown is not None:
                        tokens = _encode(tokenizer, _render(shown, tokenizer, options))
                        longest = _longest(tokens)
            if shown is None:
                yield None
                continue
            sequences = tuple(ids for ids, _ in tokens)
            starts = tuple(start for _, start in tokens)
            yield TokenGroup(group, sequences, starts, len(group.prompt) - len(shown.prompt))


def prompt_tokens(
    prompt: Sequence[Turn], tokenizer: "PreTrainedTokenizerBase", **options: object
) -> list[int]:
    """The tokens of a prompt up to where the answer begins, label line included.

    A sampler continues them. options: those of `written`.
    """
    opened = written(tokenizer, prompt, "", **options)
    ((ids, _),) = encode(tokenizer, [replace(opened, text=opened.text[: opened.start])])
    return ids


def closing_tokens(tokenizer: "PreTrainedTokenizerBase", **options: object) -> list[int]:
    """The tokens of the closing marker alone, to be put after sampled tokens that are to be scored.

    options: those of `written`.
    """
    closed = written(tokenizer, (Turn("user", "?"),), ".", **options)
    return tokenizer(closed.text[closed.end :], add_special_tokens=False)["input_ids"]


def _render(
    group: Group, tokenizer: "PreTrainedTokenizerBase", options: dict[str, object]
) -> list[Rendered]:
    """`_written`, whose errors name the group."""
    try:
        return _written(group, tokenizer, **options)
    except ValueError as error:
        raise ValueError(f"group {group.id}: {error}") from error


def encode(
    tokenizer: "PreTrainedTokenizerBase", rendered: Sequence[Rendered]
) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """Token ids of each text, and the (start, stop) in the text that each token covers.

    This is the one function that makes tokens of a conversation. It adds no special token to the
    template's. Control tokens in its turns become plain text, with the ids that transformers gives
    them, `apply_chat_template(.., sanitize_control_tokens=True)`. Paper: silent.
    """
    if not rendered:
        return []
    texts = [one.text for one in rendered]
    encoding = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    out = []
    for text, ids, offsets in zip(
        texts, encoding["input_ids"], encoding["offset_mapping"], strict=True
    ):
        if _START in text or _END in text:
            out.append(_encode_marked(tokenizer, text))
        else:
            out.append((ids, offsets))
    return out


def _encode_marked(
    tokenizer: "PreTrainedTokenizerBase", text: str
) -> tuple[list[int], list[tuple[int, int]]]:
    """`encode` for a text with control tokens in its turns, as `encode_marked_chat` does it.

    The pieces between the control tokens are tokenised one by one.
    """
    from transformers.utils.chat_template_utils import encode_marked_chat

    ids = []
    offsets = []
    at = 0  # where the next piece begins
    for mark in _MARKED.finditer(text):
        piece_ids, piece_offsets = _encode_piece(tokenizer, text, at, mark.start())
        ids += piece_ids
        offsets += piece_offsets
        # A lone mark, whose other a template cut off, is no token: its place stays a border.
        if mark[1]:
            control = encode_marked_chat(tokenizer, mark[0])
            ids += control
            offsets += [mark.span()] * len(control)
        at = mark.end()
    piece_ids, piece_offsets = _encode_piece(tokenizer, text, at, len(text))
    return ids + piece_ids, offsets + piece_offsets


def _encode_piece(
    tokenizer: "PreTrainedTokenizerBase", text: str, start: int, stop: int
) -> tuple[list[int], list[tuple[int, int]]]:
    """The tokens of text[start:stop], and the (start, stop) in the text that each covers."""
    # After the beginning a piece is read behind a line break, because SentencePiece puts no space
    # of its own after one. Where the line break does not stay a token, the piece is read alone.
    for before in ("\n", "") if start else ("",):
        encoding = tokenizer(
            before + text[start:stop], add_special_tokens=False, return_offsets_mapping=True
        )
        skipped = tokenizer(before, add_special_tokens=False)["input_ids"]
        if encoding["input_ids"][: len(skipped)] == skipped:
            break
    ids = encoding["input_ids"][len(skipped) :]
    shift = start - len(before)
    covered = encoding["offset_mapping"][len(skipped) :]
    return ids, [(first + shift, last + shift) for first, last in covered]


def _encode(
    tokenizer: "PreTrainedTokenizerBase", rendered: Sequence[Rendered]
) -> list[tuple[list[int], int]]:
    """(token ids, index of the answer's first token) of each text."""
    out = []
    for one, (ids, offsets) in zip(rendered, encode(tokenizer, rendered), strict=True):
        # A token may hold the end of the prompt and the answer's beginning (two newlines, say): it
        # counts as answer.
        behind = (i for i, (_, stop) in enumerate(offsets) if stop > one.start)
        out.append((ids, next(behind, len(ids) - 1)))
    return out


def _longest(tokens: list[tuple[list[int], int]]) -> int:
    """The length of the longest sequence of `_encode`."""
    return max((len(ids) for ids, _ in tokens), default=0)


def _shorter(group: Group, n_tokens: int, max_tokens: int, too_long: str) -> Group | None:
    """The group without the oldest exchange of its prompt.

    Where the prompt has one exchange alone, None or an error, as `tokenise` says of `too_long`.
    """
    system = []
    if group.prompt and group.prompt[0].role == "system":
        system = [group.prompt[0]]
    for i, turn in enumerate(group.prompt):
        if turn.role == "user" and i > len(system):
            return replace(group, prompt=(*system, *group.prompt[i:]))
    if too_long == "leave out":
        return None
    raise ValueError(
        f"group {group.id}: {n_tokens} tokens with its longest response, {max_tokens} fit, and the "
        "prompt has no older turn left to drop; raise max_tokens or leave the group out"
    )
