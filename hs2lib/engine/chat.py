r"""Conversations as text and as tokens, with SteerLM's label strings.

Two templates, chosen by name. "chat" is the tokenizer's own chat template. "reference" is the one
of the paper's code (docs/reference.md), plain text for any tokenizer:

    <extra_id_0>System\n{system}\n<extra_id_1>User\n{prompt}\n<extra_id_1>Assistant\n{answer}\n<extra_id_2>

So a reward model reads it, with a system text of its own. A policy (`scored` False) has an empty
one, and ends each of its turns with what begins the next, `\n<extra_id_1>`. Either template can
carry a SteerLM label line, `<extra_id_2>helpfulness:4,..\n`, between the assistant marker and the
answer, which is then a policy's. What a template writes after the answer is its closing marker. A
reward is read at the last token of the closing marker, never inside the answer: there the model has
seen that the answer is over. Paper: silent; as in the reference code.

A text may spell out what a template writes between turns, `<|im_end|>` or `[INST]`, and so pass for
further turns. Here it never does. A control token in a text is tokenised as plain text. A marker
that is plain text itself cannot be told apart by its tokens, so in a text it gets a backslash,
`[\INST]`. `control_text` says what is done besides:

    plain    nothing; a template with markers of plain text is refused
    escape   the backslash (the default)
    refuse   the same, and whoever scores or trains sets the response aside and counts it
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice

from hs2lib.group import ATTRIBUTES, MISSING, Group, Response, Turn, named_numbers, prompt_string
from hs2lib.names import CONTROL_TEXT, TEMPLATES, TOO_LONG, one_of

# The nine outputs of the reference code's regression models: Open Assistant's attributes before
# HelpSteer's.
NINE = ("quality", "toxicity", "humor", "creativity", *ATTRIBUTES)

LEVELS = (0, 1, 2, 3, 4)  # of an attribute in a label string

# The system turn of the reference code's reward models, word for word: a model trained with it is
# asked with it.
SYSTEM_PROMPT = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)

CHUNK = 128  # groups whose texts are tokenised in one call

_LABEL = "<extra_id_2>"

_REFERENCE = ("<extra_id_0>", "<extra_id_1>", "<extra_id_2>")  # the reference template's markers

_ANSWER = "\ue000answer\ue000"  # a private-use mark; shows where a chat template puts the answer

# The marks that transformers puts around a control token of a text, and what lies between two of
# them.
_START, _END = "\U000f0000", "\U000f0001"
_MARKED = re.compile(f"{_START}([^{_START}{_END}]*){_END}|[{_START}{_END}]")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text: `text[:start]` is the prompt, `text[start:end]` the answer, then the
    closing.

    A control token that a turn of it spells out stands between transformers' two private-use marks:
    see `encode`.
    """

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """A group as token sequences, one per response, each holding prompt, answer and closing marker.

    starts[i]: the index in sequences[i] of the first token that holds a character of the answer (or
    of its closing marker, where the answer is empty). dropped: how many turns of the prompt were
    left out to fit; 0 for most.
    """

    group: Group
    sequences: tuple[list[int], ...]
    starts: tuple[int, ...]
    dropped: int = 0


def label_vector(
    labels: Sequence[float], attributes: Sequence[str], outputs=ATTRIBUTES
) -> tuple[float, ...]:
    """A response's labels in the order of a model's outputs, MISSING (-100) where unlabelled.

    Paper: silent; the reference code's 9-vector is `outputs=NINE`. labels: values in the order of
    `attributes`, nan for missing, or () for none at all. Raises ValueError if labels and attributes
    differ in number.
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
    pairs = [
        (name, value)
        for name, value in zip(attributes, labels, strict=True)
        if not math.isnan(value)
    ]
    if wrong := [value for _, value in pairs if value not in LEVELS]:
        raise ValueError(
            f"a label is a whole number from 0 to 4, got {wrong[0]}: make predictions whole with `whole`"
        )
    return ",".join(f"{name}:{int(value)}" for name, value in pairs)


def parse_label(string: str, attributes: Sequence[str] = ATTRIBUTES) -> tuple[float, ...]:
    """The values of a label string in the order of `attributes`, nan where not named; the inverse of label_string."""
    values = named_numbers(string) if string else {}
    wrong = [
        name for name, value in values.items() if name not in attributes or value not in LEVELS
    ]
    if wrong:
        raise ValueError(
            f"expected name:0 to name:4, names {tuple(attributes)}, got {wrong[0]!r} in {string!r}"
        )
    return tuple(values.get(name, math.nan) for name in attributes)


def whole(values: Iterable[float]) -> tuple[float, ...]:
    """Predicted values as labels: clamped to 0-4, rounded half to even. Paper: section 4.5 (reference code)."""
    return tuple(float(round(min(max(value, 0.0), 4.0))) for value in values)


def _in_reference(turns: Sequence[Turn], scored: bool) -> str:
    """The reference code's text of a conversation: with `<extra_id_2>`, where it is scored, or as a
    policy writes it.

    A system turn of the prompt replaces the reward model's, or the policy's empty one.
    """
    system = () if turns[0].role == "system" else (Turn("system", SYSTEM_PROMPT if scored else ""),)
    return prompt_string((*system, *turns)) + ("\n<extra_id_2>" if scored else "\n<extra_id_1>")


def _in_chat(turns: Sequence[Turn], tokenizer) -> str:
    """The conversation as the tokenizer's chat template writes it."""
    try:
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        return tokenizer.apply_chat_template(messages, tokenize=False)
    except Exception as error:  # jinja2 and the templates raise many kinds
        roles = [turn.role for turn in turns[:-1]]
        raise ValueError(
            f"the chat template refuses a conversation with roles {roles}: {error}"
        ) from error


@lru_cache(maxsize=8)
def _control(tokenizer, template: str, chat_template: str) -> tuple[re.Pattern, tuple[str, ...]]:
    """A pattern of the control tokens, and the markers of the template that are plain text.

    Control tokens are the special ones, and others that the chat template names (chat_template: its
    source).
    """
    named = chat_template if template == "chat" else ""
    added = tokenizer.added_tokens_decoder.values()
    words = [
        token.content
        for token in added
        if token.special or (token.content.strip() and token.content in named)
    ]
    tokens = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)")
    return tokens, _REFERENCE if template == "reference" else _markers(tokenizer, tokens)


def _markers(tokenizer, tokens: re.Pattern) -> tuple[str, ...]:
    """What a chat template opens its turns with, where that is no token: `[INST]`, `USER:`, but no plain word."""
    words: set[str] = set()
    for roles in (("system", "user", "assistant"), ("user", "assistant", "user", "assistant")):
        turns = [{"role": role, "content": _ANSWER} for role in roles]
        try:
            text = tokenizer.apply_chat_template(turns, tokenize=False)
        except (
            Exception
        ):  # jinja2 and the templates raise many kinds: this one knows no system turn
            continue
        for before in text.split(_ANSWER)[:-1]:
            words |= set(tokens.split(before)[-1].split()[-1:])
    return tuple(sorted(word for word in words if len(word) > 1 and re.search(r"[^\w]", word)))


def control_strings(group: Group, tokenizer, template: str = "chat") -> list[list[str]]:
    """Of each response the control tokens and markers of the template that it or the prompt spells
    out.

    Paper: silent.
    """
    tokens, markers = _control(tokenizer, template, str(getattr(tokenizer, "chat_template", "")))

    def of(text: str) -> list[str]:
        return [
            *tokens.findall(text),
            *(marker for marker in markers for _ in range(text.count(marker))),
        ]

    asked = [string for turn in group.prompt for string in of(turn.text)]
    return [asked + of(response.text) for response in group.responses]


def written(tokenizer, prompt: Sequence[Turn], answer: str, **options) -> Rendered:
    """A conversation in either template, with no turn but its own, whatever its texts spell out.
    Paper: silent.

    options: template ("chat"), label (None; a label string, whose line opens a policy's answer),
    control_text ("escape") and scored (True; False: as a policy writes it, which is another text in
    the reference template). A template that closes no turn gets the tokenizer's end token. Raises
    ValueError if there is no template, if it refuses the roles, or changes the answer other than by
    stripping (drops thoughts, say).
    """
    return _written(Group("", tuple(prompt), (Response("", answer),)), tokenizer, **options)[0]


def _written(
    group, tokenizer, template="chat", label=None, control_text="escape", scored=True
) -> list[Rendered]:
    """`written` for each response."""
    one_of("template", template, TEMPLATES)
    one_of("control_text", control_text, CONTROL_TEXT)
    tokens, markers = _control(tokenizer, template, str(getattr(tokenizer, "chat_template", "")))
    if markers and control_text == "plain":
        what = (
            f"the template's markers are plain text ({', '.join(markers)}), which any text can hold"
        )
        raise ValueError(f"{what}: set control_text to escape or refuse")
    texts = [turn.text for turn in group.prompt] + [response.text for response in group.responses]
    # Marks of its own a text loses, as with transformers; markers get a backslash.
    for spelt, instead in [(_START, ""), (_END, ""), *((m, f"{m[0]}\\{m[1:]}") for m in markers)]:
        texts = [text.replace(spelt, instead) for text in texts]
    texts = [tokens.sub(f"{_START}\\g<0>{_END}", text) for text in texts]
    prompt = [Turn(turn.role, text) for turn, text in zip(group.prompt, texts, strict=False)]

    def render(answer: str) -> str:
        turns = (*prompt, Turn("assistant", answer))
        scores = scored and label is None
        return (
            _in_reference(turns, scores) if template == "reference" else _in_chat(turns, tokenizer)
        )

    mark = _ANSWER
    while any(mark in turn.text for turn in prompt):
        mark += mark
    # Spaces around the mark show whether the template strips answers, as Llama 3's does.
    text = render(f" {mark} ")
    strips = f" {mark} " not in text
    before, shown, after = text.partition(mark if strips else f" {mark} ")
    after = after or tokenizer.eos_token
    if not shown or not after:
        raise ValueError(
            "the chat template leaves out the last turn, or nothing closes it: no place for a score"
        )
    opened, out = before if label is None else f"{before}{_LABEL}{label}\n", []
    for answer in texts[len(prompt) :]:
        words, true = answer.strip() if strips else answer, render(answer)
        if true not in (before + words, before + words + after):
            raise ValueError(
                f"the chat template changes this answer: {answer[:60]!r} .. in {true[-120:]!r}"
            )
        out.append(Rendered(opened + words + after, len(opened), len(opened) + len(words)))
    return out


def tokenise(
    groups: Iterable[Group],
    tokenizer,
    *,
    max_tokens: int | None = None,
    too_long: str = "raise",
    **options,
) -> Iterator[TokenGroup | None]:
    """A `TokenGroup` of each group, lazily and in order; a text is tokenised as a whole, as plain
    transformers would.

    options: as for `written`. max_tokens: where a group's longest sequence exceeds it, the oldest
    turns of its prompt are dropped, whole exchanges at a time and never the system turn or the last
    user turn; `dropped` says how many. Paper: silent (the reference code replaces a reward model's
    row by the next one, so trains on that twice). Raises ValueError naming the group if the last
    turn alone is too long (a cut answer is another answer); with too_long "leave out" None stands
    in its place, and any other word is refused.
    """
    one_of("too_long", too_long, TOO_LONG)
    groups = iter(groups)
    while chunk := list(islice(groups, CHUNK)):
        rendered = [_render(group, tokenizer, options) for group in chunk]
        flat = iter(_encode(tokenizer, list(chain.from_iterable(rendered))))
        for group, several in zip(chunk, rendered, strict=True):
            encoded, shown = list(islice(flat, len(several))), group
            while (
                max_tokens
                and (longest := max((len(ids) for ids, _ in encoded), default=0)) > max_tokens
            ):
                shown = _shorter(shown, longest, max_tokens, too_long)
                encoded = _encode(tokenizer, _render(shown, tokenizer, options)) if shown else []
            if shown is None:
                yield None
                continue
            sequences, starts = (tuple(each[i] for each in encoded) for i in range(2))
            yield TokenGroup(group, sequences, starts, len(group.prompt) - len(shown.prompt))


def prompt_tokens(prompt: Sequence[Turn], tokenizer, **options) -> list[int]:
    """The tokens of a prompt up to where the answer begins, label line included: what a sampler
    continues.

    options: as for `written`.
    """
    opened = written(tokenizer, prompt, "", **options)
    ((ids, _),) = encode(tokenizer, [replace(opened, text=opened.text[: opened.start])])
    return ids


def closing_tokens(tokenizer, **options) -> list[int]:
    """The tokens of the closing marker alone, to be put after sampled tokens that are to be scored.

    options: as for `written`.
    """
    closed = written(tokenizer, (Turn("user", "?"),), ".", **options)
    return tokenizer(closed.text[closed.end :], add_special_tokens=False)["input_ids"]


def _render(group: Group, tokenizer, options: dict) -> list[Rendered]:
    try:
        return _written(group, tokenizer, **options)
    except ValueError as error:
        raise ValueError(f"group {group.id}: {error}") from error


def encode(
    tokenizer, rendered: Sequence[Rendered]
) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """(token ids, where each lies in the text) of each text; no special token is added beyond the
    template's.

    The one function that makes tokens of a conversation. Control tokens in its turns become plain
    text, with the ids that transformers gives them, `apply_chat_template(..,
    sanitize_control_tokens=True)`. Paper: silent.
    """
    if not rendered:
        return []
    texts = [one.text for one in rendered]
    read = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    both = zip(texts, read["input_ids"], read["offset_mapping"], strict=True)
    return [
        _apart(tokenizer, text) if _START in text or _END in text else (ids, at)
        for text, ids, at in both
    ]


def _apart(tokenizer, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """`encode` for a text with control tokens in its turns, piece by piece as `encode_marked_chat` does."""
    from transformers.utils.chat_template_utils import encode_marked_chat

    ids, offsets, at = [], [], 0
    for mark in (*_MARKED.finditer(text), None):
        start, stop = mark.span() if mark else (len(text), len(text))
        # After the beginning a piece is read behind a line break, which SentencePiece puts no space
        # of its own after.
        for before in ("\n", "") if at else ("",):
            read = tokenizer(
                before + text[at:start], add_special_tokens=False, return_offsets_mapping=True
            )
            skipped = tokenizer(before, add_special_tokens=False)["input_ids"]
            if read["input_ids"][: len(skipped)] == skipped:
                break
        ids += read["input_ids"][len(skipped) :]
        offsets += [
            (a + at - len(before), b + at - len(before))
            for a, b in read["offset_mapping"][len(skipped) :]
        ]
        # A lone mark, whose other a template cut off, is no token: its place stays a border.
        control = encode_marked_chat(tokenizer, mark[0]) if mark and mark[1] else []
        ids += control
        offsets += [(start, stop)] * len(control)
        at = stop
    return ids, offsets


def _encode(tokenizer, rendered: Sequence[Rendered]) -> list[tuple[list[int], int]]:
    """(token ids, index of the answer's first token) of each text."""
    out = []
    for one, (ids, offsets) in zip(rendered, encode(tokenizer, rendered), strict=True):
        # A token may hold the end of the prompt and the answer's beginning (two newlines, say): it
        # counts as answer.
        start = next((i for i, (_, stop) in enumerate(offsets) if stop > one.start), len(ids) - 1)
        out.append((ids, start))
    return out


def _shorter(group: Group, tokens: int, room: int, too_long: str) -> Group | None:
    """The group without the oldest exchange of its prompt; None, or an error, where it has one alone."""
    system = sum(turn.role == "system" for turn in group.prompt[:1])
    later = [i for i, turn in enumerate(group.prompt) if turn.role == "user" and i > system]
    if later:
        return replace(group, prompt=(*group.prompt[:system], *group.prompt[later[0] :]))
    if too_long == "leave out":
        return None
    what = f"{tokens} tokens with its longest response, {room} fit, and the prompt has no older turn left to drop"
    raise ValueError(f"group {group.id}: {what}; raise max_tokens or leave the group out")
