r"""Conversations as text and as tokens, with SteerLM's label strings.

Two templates, chosen by name. "chat" is the tokenizer's own chat template. "reference" is the one of the paper's code,
plain text for any tokenizer:

    <extra_id_0>System\n{system}\n<extra_id_1>User\n{prompt}\n<extra_id_1>Assistant\n{answer}\n<extra_id_2>

Either can carry a SteerLM label line, `<extra_id_2>helpfulness:4,..\n`, between the assistant marker and the answer.
What a template writes after the answer is its closing marker. A reward is read at the last token of the closing marker,
never inside the answer: there the model has seen that the answer is over. Paper: silent; as in the reference code.

A text may spell out what a template writes between turns, `<|im_end|>` or `[INST]`, and so pass for further turns.
Here it never does. A control token in a text is tokenised as plain text. A marker that is plain text itself cannot be
told apart by its tokens, so in a text it gets a backslash, `[\INST]`. `control_text` says what is done besides:

    plain    nothing; a template with markers of plain text is refused
    escape   the backslash (the default)
    refuse   the same, and whoever scores or trains sets the response aside and counts it
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from hs2lib.group import ATTRIBUTES, MISSING, Group, Response, Turn, named_numbers, prompt_string
from hs2lib.names import CONTROL_TEXT, TEMPLATES, one_of

# The nine outputs of the reference code's regression models: Open Assistant's attributes before HelpSteer's.
NINE = ("quality", "toxicity", "humor", "creativity", *ATTRIBUTES)

LEVELS = (0, 1, 2, 3, 4)  # of an attribute in a label string

# The reference code's system turn, word for word: a model trained with it has to be asked with it.
SYSTEM_PROMPT = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)

CHUNK = 128  # groups whose texts are tokenised in one call

_LABEL = "<extra_id_2>"

_REGRESSION_END = "\n<extra_id_2>"  # where the reward is read

_STEERLM_END = "\n<extra_id_1>"  # what a SteerLM model writes to end its turn

_REFERENCE = ("<extra_id_0>", "<extra_id_1>", "<extra_id_2>")  # the reference template's markers

_ANSWER = "\ue000answer\ue000"  # a private-use mark; shows where a chat template puts the answer

# The marks that transformers puts around a control token of a text, and what lies between two of them.
_START, _END = "\U000f0000", "\U000f0001"
_MARKED = re.compile(f"{_START}([^{_START}{_END}]*){_END}|[{_START}{_END}]")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text: `text[:start]` is the prompt, `text[start:end]` the answer, then the closing.

    control: where its turns hold control tokens as text, (start, stop) each.
    """

    text: str
    start: int
    end: int
    control: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """A group as token sequences, one per response, each holding prompt, answer and closing marker.

    starts[i]: the index in sequences[i] of the first token that holds a character of the answer (or of its closing
    marker, where the answer is empty). dropped: how many turns of the prompt were left out to fit; 0 for most.
    """

    group: Group
    sequences: tuple[list[int], ...]
    starts: tuple[int, ...]
    dropped: int = 0


def label_vector(
    labels: Sequence[float], attributes: Sequence[str], outputs: Sequence[str] = ATTRIBUTES
) -> tuple[float, ...]:
    """A response's labels in the order of a model's outputs, MISSING (-100) where unlabelled.

    Paper: silent; the reference code's 9-vector is `outputs=NINE`. labels: values in the order of `attributes`, nan for
    missing, or () for none at all. Raises ValueError if labels and attributes differ in number.
    """
    if labels and len(labels) != len(attributes):
        raise ValueError(f"{len(labels)} labels for {len(attributes)} attributes {tuple(attributes)}")
    by_name = dict(zip(attributes, labels, strict=False))
    values = (by_name.get(name, math.nan) for name in outputs)
    return tuple(MISSING if math.isnan(value) else float(value) for value in values)


def label_string(labels: Sequence[float], attributes: Sequence[str] = ATTRIBUTES) -> str:
    """SteerLM's label string, `helpfulness:4,correctness:4,..`; a missing label (nan) is left out.

    Paper: section 4.4; the string is the reference code's. Raises ValueError for a value that is no whole number 0-4:
    predictions are made whole by `whole` first.
    """
    if len(labels) != len(attributes):
        raise ValueError(f"{len(labels)} labels for {len(attributes)} attributes {tuple(attributes)}")
    pairs = [(name, value) for name, value in zip(attributes, labels, strict=True) if not math.isnan(value)]
    if wrong := [value for _, value in pairs if value not in LEVELS]:
        raise ValueError(f"a label is a whole number from 0 to 4, got {wrong[0]}: make predictions whole with `whole`")
    return ",".join(f"{name}:{int(value)}" for name, value in pairs)


def parse_label(string: str, attributes: Sequence[str] = ATTRIBUTES) -> tuple[float, ...]:
    """The values of a label string in the order of `attributes`, nan where not named; the inverse of label_string."""
    values = named_numbers(string) if string else {}
    wrong = [name for name, value in values.items() if name not in attributes or value not in LEVELS]
    if wrong:
        raise ValueError(f"expected name:0 to name:4, names {tuple(attributes)}, got {wrong[0]!r} in {string!r}")
    return tuple(values.get(name, math.nan) for name in attributes)


def whole(values: Iterable[float]) -> tuple[float, ...]:
    """Predicted values as labels: clamped to 0-4, rounded half to even. Paper: section 4.4 (reference code)."""
    return tuple(float(round(min(max(value, 0.0), 4.0))) for value in values)


def reference(prompt: Sequence[Turn], answer: str, label: str | None = None) -> Rendered:
    """The reference code's text of a conversation; with a label string, SteerLM's form of it.

    Without label it closes with `<extra_id_2>`, where the regression model is read; with one, with `<extra_id_1>`,
    which a SteerLM model writes to end its turn. A system turn of the prompt replaces the fixed one.
    Raises ValueError where a text holds a marker, so that the string could not be parsed back.
    """
    if not prompt or prompt[0].role != "system":
        prompt = (Turn("system", SYSTEM_PROMPT), *prompt)
    if answer.startswith(_LABEL) or _REGRESSION_END in answer or _STEERLM_END in answer:
        raise ValueError(f"an answer holds a marker of the reference template: {answer[:60]!r}")
    line = "" if label is None else f"{_LABEL}{label}\n"
    text = prompt_string((*prompt, Turn("assistant", line + answer)))
    return Rendered(text + (_REGRESSION_END if label is None else _STEERLM_END), len(text) - len(answer), len(text))


class _Chat:
    """A prompt in the tokenizer's chat template, rendered once; `answer` fits the answers in."""

    def __init__(self, tokenizer, prompt: Sequence[Turn]):
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError("the tokenizer has no chat template: use template='reference', or set one")
        self.tokenizer, self.prompt, answer = tokenizer, prompt, _ANSWER
        while any(answer in turn.text for turn in prompt):
            answer += answer
        # Spaces around the mark show whether the template strips answers, as Llama 3's does.
        text = self.render(f" {answer} ")
        self.strips = f" {answer} " not in text
        before, mark, after = text.partition(answer if self.strips else f" {answer} ")
        if not mark:
            raise ValueError("the chat template does not show the last assistant turn")
        self.before, self.after = before, after or tokenizer.eos_token
        if not self.after:
            raise ValueError("the chat template closes no turn and there is no end token: no place for a score")

    def render(self, answer: str) -> str:
        turns = [{"role": turn.role, "content": turn.text} for turn in (*self.prompt, Turn("assistant", answer))]
        try:
            return self.tokenizer.apply_chat_template(turns, tokenize=False)
        except Exception as error:  # jinja2 and the templates raise many kinds
            roles = [turn.role for turn in self.prompt]
            raise ValueError(f"the chat template refuses a conversation with roles {roles}: {error}") from error

    def answer(self, answer: str, label: str | None = None) -> Rendered:
        """The answer in its place. Raises ValueError where the template rewrites it (drops thoughts, say)."""
        words = answer.strip() if self.strips else answer
        fitted = self.before + words + self.after
        if not fitted.startswith(true := self.render(answer)) or fitted[len(true) :] not in ("", self.after):
            raise ValueError(f"the chat template changes this answer: {answer[:60]!r} .. in {true[-120:]!r}")
        before = self.before if label is None else f"{self.before}{_LABEL}{label}\n"
        return Rendered(before + words + self.after, len(before), len(before) + len(words))


def chat(tokenizer, prompt: Sequence[Turn], answer: str, label: str | None = None) -> Rendered:
    """A conversation in the tokenizer's chat template, exactly as `apply_chat_template` writes it.

    With a label string, its line opens the answer. A template that closes no turn gets the tokenizer's end token.
    Raises ValueError if there is no template, if it refuses the roles, or changes the answer other than by stripping.
    """
    return _Chat(tokenizer, prompt).answer(answer, label)


@lru_cache(maxsize=8)
def _control(tokenizer, template: str, chat_template: str) -> tuple[re.Pattern, tuple[str, ...]]:
    """A pattern of the control tokens, and the markers of the template that are plain text.

    Control tokens are the special ones, and others that the chat template names (chat_template: its source).
    """
    named = chat_template if template == "chat" else ""
    added = tokenizer.added_tokens_decoder.values()
    tokens = [token.content for token in added if token.special or (token.content.strip() and token.content in named)]
    pattern = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or "(?!)")
    return pattern, _REFERENCE if template == "reference" else _markers(tokenizer, pattern)


def _markers(tokenizer, tokens: re.Pattern) -> tuple[str, ...]:
    """What a chat template opens its turns with, where that is no token: `[INST]`, `USER:`, but no plain word."""
    words: set[str] = set()
    for roles in (("system", "user", "assistant"), ("user", "assistant", "user", "assistant")):
        turns = [{"role": role, "content": _ANSWER} for role in roles]
        try:
            text = tokenizer.apply_chat_template(turns, tokenize=False)
        except Exception:  # jinja2 and the templates raise many kinds: this one knows no system turn
            continue
        for before in text.split(_ANSWER)[:-1]:
            words |= set(tokens.split(before)[-1].split()[-1:])
    return tuple(sorted(word for word in words if len(word) > 1 and re.search(r"[^\w]", word)))


def control_strings(group: Group, tokenizer, template: str = "chat") -> list[list[str]]:
    """Of each response the control tokens and markers of the template that it or the prompt spells out.

    Paper: silent.
    """
    tokens, markers = _control(tokenizer, template, str(getattr(tokenizer, "chat_template", "")))

    def of(text: str) -> list[str]:
        return [*tokens.findall(text), *(marker for marker in markers for _ in range(text.count(marker)))]

    asked = [string for turn in group.prompt for string in of(turn.text)]
    return [asked + of(response.text) for response in group.responses]


def written(
    tokenizer, prompt: Sequence[Turn], answer: str, *, template="chat", label: str | None = None, control_text="escape"
) -> Rendered:
    """A conversation in either template, with no turn but its own, whatever its texts spell out. Paper: silent."""
    group = Group("", tuple(prompt), (Response("", answer),))
    return _written(group, tokenizer, template, label, control_text)[0]


def _written(group: Group, tokenizer, template: str, label: str | None, control_text: str) -> list[Rendered]:
    """`written` for each response."""
    one_of("control_text", control_text, CONTROL_TEXT)
    tokens, markers = _control(tokenizer, template, str(getattr(tokenizer, "chat_template", "")))
    if markers and control_text == "plain":
        what = f"the template's markers are plain text ({', '.join(markers)}), which any text can hold"
        raise ValueError(f"{what}: set control_text to escape or refuse")
    texts = [turn.text for turn in group.prompt] + [response.text for response in group.responses]
    forged = any(tokens.search(text) or any(marker in text for marker in markers) for text in texts)
    if forged:
        for marker in markers:
            texts = [text.replace(marker, f"{marker[0]}\\{marker[1:]}") for text in texts]
        # Marks of its own a text loses, as with transformers.
        texts = [tokens.sub(f"{_START}\\g<0>{_END}", re.sub(f"[{_START}{_END}]", "", text)) for text in texts]
    roles = [turn.role for turn in group.prompt]
    prompt = [Turn(role, text) for role, text in zip(roles, texts, strict=False)]
    if template == "reference":
        out = [reference(prompt, answer, label) for answer in texts[len(roles) :]]
    else:
        fitted = _Chat(tokenizer, prompt)
        out = [fitted.answer(answer, label) for answer in texts[len(roles) :]]
    return list(map(_unmarked, out)) if forged else out


def _unmarked(one: Rendered) -> Rendered:
    """A rendered text without the marks around control tokens, and where they stood."""
    text, control, ends = "", [], []
    for part in (one.text[: one.start], one.text[one.start : one.end], one.text[one.end :]):
        for i, piece in enumerate(_MARKED.split(part)):
            # Every second piece was marked; of a lone mark, which a template cut off, the place stays a border.
            control += [(len(text), len(text) + len(piece or ""))] * (i % 2)
            text += piece or ""
        ends.append(len(text))
    return Rendered(text, ends[0], ends[1], tuple(control))


def tokenise(
    groups: Iterable[Group],
    tokenizer,
    *,
    template="chat",
    max_tokens: int | None = None,
    label: str | None = None,
    control_text: str = "escape",
) -> Iterator[TokenGroup]:
    """Token sequences of groups, lazily and in order; the whole text is tokenised at once, as plain transformers would.

    label: a label string put before every answer (SteerLM). max_tokens: where a group's longest sequence exceeds it,
    the oldest turns of its prompt are dropped, whole exchanges at a time and never the system turn or the last user
    turn; `dropped` says how many. Paper: silent (the reference code replaces the row by the next one, so trains on that
    twice). Raises ValueError naming the group if the last turn alone is too long: a cut answer is another answer.
    """
    one_of("template", template, TEMPLATES)
    groups = iter(groups)
    while chunk := list(islice(groups, CHUNK)):
        rendered = [_render(group, group.prompt, tokenizer, template, label, control_text) for group in chunk]
        flat = iter(_encode(tokenizer, [one for several in rendered for one in several]))
        for group, several in zip(chunk, rendered, strict=True):
            encoded, dropped = list(islice(flat, len(several))), 0
            prompt = group.prompt
            while max_tokens and max((len(ids) for ids, _ in encoded), default=0) > max_tokens:
                prompt = _shorter(group, prompt, max(len(ids) for ids, _ in encoded), max_tokens)
                dropped = len(group.prompt) - len(prompt)
                encoded = _encode(tokenizer, _render(group, prompt, tokenizer, template, label, control_text))
            yield TokenGroup(group, tuple(ids for ids, _ in encoded), tuple(start for _, start in encoded), dropped)


def prompt_tokens(prompt: Sequence[Turn], tokenizer, **options) -> list[int]:
    """The tokens of a prompt up to where the answer begins, label line included: what a sampler continues.

    options: template, label and control_text, as for `written`.
    """
    opened = written(tokenizer, prompt, "", **options)
    ((ids, _),) = encode(tokenizer, [replace(opened, text=opened.text[: opened.start])])
    return ids


def closing_tokens(tokenizer, **options) -> list[int]:
    """The tokens of the closing marker alone, to be put after sampled tokens that are to be scored.

    options: template and label, as for `written`.
    """
    closed = written(tokenizer, (Turn("user", "?"),), ".", **options)
    return tokenizer(closed.text[closed.end :], add_special_tokens=False)["input_ids"]


def _render(group: Group, prompt: Sequence[Turn], tokenizer, *how) -> list[Rendered]:
    try:
        return _written(replace(group, prompt=tuple(prompt)), tokenizer, *how)
    except ValueError as error:
        raise ValueError(f"group {group.id}: {error}") from error


def encode(tokenizer, rendered: Sequence[Rendered]) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """(token ids, where each lies in the text) of each text; no special token is added beyond the template's.

    The one function that makes tokens of a conversation. Control tokens in its turns become plain text, with the ids
    that transformers gives them, `apply_chat_template(.., sanitize_control_tokens=True)`. Paper: silent.
    """
    if not rendered:
        return []
    texts = tokenizer([one.text for one in rendered], add_special_tokens=False, return_offsets_mapping=True)
    both = zip(rendered, texts["input_ids"], texts["offset_mapping"], strict=True)
    return [_apart(tokenizer, one) if one.control else (ids, offsets) for one, ids, offsets in both]


def _apart(tokenizer, one: Rendered) -> tuple[list[int], list[tuple[int, int]]]:
    """`encode` for a text with control tokens in its turns, piece by piece as `encode_marked_chat` does."""
    from transformers.utils.chat_template_utils import encode_marked_chat

    ids, offsets, at = [], [], 0
    for start, stop in (*one.control, (len(one.text), len(one.text))):
        # After the beginning a piece is read behind a line break, which SentencePiece puts no space of its own after.
        for before in ("\n", "") if at else ("",):
            read = tokenizer(before + one.text[at:start], add_special_tokens=False, return_offsets_mapping=True)
            skipped = tokenizer(before, add_special_tokens=False)["input_ids"]
            if read["input_ids"][: len(skipped)] == skipped:
                break
        ids += read["input_ids"][len(skipped) :]
        offsets += [(a + at - len(before), b + at - len(before)) for a, b in read["offset_mapping"][len(skipped) :]]
        control = encode_marked_chat(tokenizer, f"{_START}{one.text[start:stop]}{_END}") if start < stop else []
        ids += control
        offsets += [(start, stop)] * len(control)
        at = stop
    return ids, offsets


def _encode(tokenizer, rendered: Sequence[Rendered]) -> list[tuple[list[int], int]]:
    """(token ids, index of the answer's first token) of each text."""
    out = []
    for one, (ids, offsets) in zip(rendered, encode(tokenizer, rendered), strict=True):
        # A token may hold the end of the prompt and the answer's beginning (two newlines, say): it counts as answer.
        start = next((i for i, (_, stop) in enumerate(offsets) if stop > one.start), len(ids) - 1)
        out.append((ids, start))
    return out


def _shorter(group: Group, prompt: Sequence[Turn], tokens: int, room: int) -> tuple[Turn, ...]:
    system = prompt[:1] if prompt and prompt[0].role == "system" else ()
    rest = prompt[len(system) :]
    later = next((i for i in range(1, len(rest)) if rest[i].role == "user"), None)
    if later is None:
        what = f"{tokens} tokens with its longest response, {room} fit, and the prompt has no older turn left to drop"
        raise ValueError(f"group {group.id}: {what}; raise max_tokens or leave the group out")
    return (*system, *rest[later:])
