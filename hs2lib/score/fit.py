"""Rows that are longer than a model reads: found before any is scored, then cut or left out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from hs2lib.data.files import FileRow, PromptFile
from hs2lib.data.rows import DataError
from hs2lib.engine.chat import TokenGroup, tokenise
from hs2lib.group import Group, Response
from hs2lib.models.reward_model import RewardModel
from hs2lib.names import one_of

# What becomes of a row that is too long.
TOO_LONG = ("stop", "cut", "leave-out")

# Tokens that a template may write around a conversation, and around each of its turns.
AROUND = 512
AROUND_TURN = 64


@dataclass(frozen=True)
class Fitted:
    """The rows of a file as a model reads them.

    groups: of each row, in order; None where the row is left out.
    cut: what was cut, in words, by line.
    left_out: the tokens of each row that is left out, by line.
    """

    groups: tuple[Group | None, ...]
    cut: dict[int, str]
    left_out: dict[int, int]


def fit(file: PromptFile, model: RewardModel, too_long: str = "stop") -> Fitted:
    """The rows of a file as a model reads them; those that are too long are cut or left out.

    "cut" takes away older exchanges of the prompt first. Where one exchange alone is too long, its
    texts lose their ends: the prompt, down to half of what the model reads, then each response. The
    score is then that of the text that is left.

    Args:
        file: the rows.
        model: that is to read them.
        too_long: one of `TOO_LONG`.

    Raises:
        DataError: rows are too long, and too_long is "stop"; or one cannot be cut to fit; or the
            model's template refuses the turns of a row.
    """
    one_of("too_long", too_long, TOO_LONG)
    _check_turns(file, model)
    groups: list[Group | None] = []
    cut = {}
    left_out = {}
    for row in file.rows:
        group: Group | None = row.group
        if model.max_tokens and _most_tokens(group) > model.max_tokens:
            n_tokens = _longest(group, model)
            if n_tokens > model.max_tokens and too_long == "cut":
                group, cut[row.line] = _cut(file, row, model)
            elif n_tokens > model.max_tokens:
                left_out[row.line] = n_tokens
                group = None
        groups.append(group)
    if left_out and too_long == "stop":
        line, n_tokens = next(iter(left_out.items()))
        raise DataError(
            file.path,
            line,
            None,
            f"{n_tokens:,} tokens, the model reads {model.max_tokens:,}; "
            f"rows that are too long: {len(left_out):,}",
            "cut them with --too-long cut, or leave them out with --too-long leave-out",
        )
    return Fitted(tuple(groups), cut, left_out)


def _check_turns(file: PromptFile, model: RewardModel) -> None:
    """Raise DataError where the model's template refuses a row, as one with a system turn.

    That depends on who speaks when, so one row of each kind is written. Else a long run would stop
    at its last row.
    """
    seen: set[tuple[str, ...]] = set()
    for row in file.rows:
        roles = tuple(turn.role for turn in row.group.prompt)
        if roles in seen:
            continue
        seen.add(roles)
        try:
            _tokens(replace(row.group, responses=row.group.responses[:1]), model)
        except ValueError as error:
            what = str(error).splitlines()[0].removeprefix(f"group {row.group.id}: ")
            raise DataError(
                file.path,
                row.line,
                None,
                what,
                "take rows with such turns out, or name a model whose template writes them",
            ) from None


def _most_tokens(group: Group) -> int:
    """More tokens than any sequence of a group has: no token is less than a byte of a text."""
    prompt = sum(len(turn.text.encode()) for turn in group.prompt)
    longest = max(len(response.text.encode()) for response in group.responses)
    return prompt + longest + AROUND + AROUND_TURN * (len(group.prompt) + 1)


def _tokens(group: Group, model: RewardModel) -> TokenGroup:
    """The whole group as tokens, however long it is."""
    return next(tokenise([group], model.tokenizer, **model.written))


def _longest(group: Group, model: RewardModel) -> int:
    """The tokens of the longest sequence of a group."""
    return max(map(len, _tokens(group, model).sequences))


def _cut(file: PromptFile, row: FileRow, model: RewardModel) -> tuple[Group, str]:
    """A group that is too long, cut so that it fits, and what was cut.

    Raises DataError where it cannot be cut to fit.
    """
    short = next(model.tokenise([row.group], too_long="leave out"))
    if short is not None:
        return row.group, f"{short.dropped} older turns"
    prompt = row.group.prompt
    system = [turn for turn in prompt[:1] if turn.role == "system"]
    group = replace(row.group, prompt=(*system, prompt[-1]))
    tokens = _tokens(group, model)
    lengths = [len(ids) - start for ids, start in zip(tokens.sequences, tokens.starts, strict=True)]
    # The prompt keeps what the longest response leaves, and half in any case.
    room = max(model.max_tokens // 2, model.max_tokens - max(lengths))

    def with_prompt(text: str) -> Group:
        return replace(group, prompt=(*system, replace(prompt[-1], text=text)))

    def prompt_excess(text: str) -> int:
        return min(_tokens(with_prompt(text), model).starts) - room

    group = with_prompt(_beginning(prompt[-1].text, prompt_excess, model))

    def response_excess(response: Response, text: str) -> int:
        alone = replace(group, responses=(replace(response, text=text),))
        return _longest(alone, model) - model.max_tokens

    responses = []
    for response in group.responses:
        text = _beginning(response.text, partial(response_excess, response), model)
        responses.append(replace(response, text=text))
    texts = [group.prompt[-1].text, *[response.text for response in responses]]
    if not all(map(str.strip, texts)):
        raise DataError(
            file.path,
            row.line,
            None,
            f"it cannot be cut to the {model.max_tokens:,} tokens that the model reads",
            "leave it out with --too-long leave-out, or allow more with --max-tokens",
        )
    before = [prompt[-1].text, *[response.text for response in row.group.responses]]
    cut = f"{sum(map(len, before)) - sum(map(len, texts)):,} characters at the end of texts"
    if len(group.prompt) < len(prompt):
        cut += f" and {len(prompt) - len(group.prompt)} older turns"
    return replace(group, responses=tuple(responses)), cut


def _beginning(text: str, excess_of: Callable[[str], int], model: RewardModel) -> str:
    """A text without the tokens at its end that are too many; "" where none would be left.

    excess_of: by how many tokens what the model reads is too long with a text.
    """
    excess = excess_of(text)
    while text and excess > 0:
        encoding = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ends = [end for _, end in encoding["offset_mapping"]]
        kept = ends[-excess - 1] if excess < len(ends) else 0
        text = text[: min(kept, len(text) - 1)]  # several tokens may be of one character
        excess = excess_of(text)
    return text
