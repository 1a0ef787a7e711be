"""Rows that are longer than a model reads: found before any is scored, then cut or left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hs2lib.data.files import FileRow, PromptFile
from hs2lib.data.rows import DataError
from hs2lib.engine.chat import TokenGroup, tokenise
from hs2lib.group import Group, Turn
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
    words = []
    group = replace(row.group, prompt=_last_exchange(row.group.prompt))
    if len(group.prompt) < len(row.group.prompt):
        words.append(f"{len(row.group.prompt) - len(group.prompt)} older turns")
    tokens = _tokens(group, model)
    lengths = [len(ids) - start for ids, start in zip(tokens.sequences, tokens.starts, strict=True)]
    # The prompt keeps what the longest response leaves, and half in any case.
    room = max(model.max_tokens // 2, model.max_tokens - max(lengths))

    def prompt_fits(text: str) -> bool:
        return min(_tokens(_with_last(group, text), model).starts) <= room

    prompt = group.prompt[-1].text
    texts = [_longest_beginning(prompt, prompt_fits)]
    if len(texts[0]) < len(prompt):
        words.append(f"{len(prompt) - len(texts[0]):,} characters at the end of the prompt")
        group = _with_last(group, texts[0])
    for i, response in enumerate(group.responses):
        texts.append(_longest_beginning(response.text, partial(_fits, group, i, model)))
        if len(texts[-1]) < len(response.text):
            cut = len(response.text) - len(texts[-1])
            words.append(f"{cut:,} characters at the end of response {i + 1}")
    if not all(map(str.strip, texts)):
        raise DataError(
            file.path,
            row.line,
            None,
            f"it cannot be cut to the {model.max_tokens:,} tokens that the model reads",
            "leave it out with --too-long leave-out, or allow more with --max-tokens",
        )
    responses = []
    for response, text in zip(group.responses, texts[1:], strict=True):
        responses.append(replace(response, text=text))
    return replace(group, responses=tuple(responses)), ", ".join(words)


def _fits(group: Group, number: int, model: RewardModel, text: str) -> bool:
    """Whether the model reads the response of this number with another text."""
    response = replace(group.responses[number], text=text)
    return _longest(replace(group, responses=(response,)), model) <= model.max_tokens


def _last_exchange(prompt: Sequence[Turn]) -> tuple[Turn, ...]:
    """The system turn, if there is one, and the last turn of a prompt."""
    system = [turn for turn in prompt[:1] if turn.role == "system"]
    return (*system, prompt[-1])


def _with_last(group: Group, text: str) -> Group:
    """The group with another text of its prompt's last turn."""
    last = replace(group.prompt[-1], text=text)
    return replace(group, prompt=(*group.prompt[:-1], last))


def _longest_beginning(text: str, fits: Callable[[str], bool]) -> str:
    """The longest beginning of a text that fits, found by halving; "" where none does."""
    if fits(text):
        return text
    low = 0  # so many characters fit
    high = len(text)  # so many do not
    while high - low > 1:
        middle = (low + high) // 2
        if fits(text[:middle]):
            low = middle
        else:
            high = middle
    return text[:low]
