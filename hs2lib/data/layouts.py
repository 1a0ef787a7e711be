"""What stands where in a row of prompts and responses, by the usual names of its columns.

    layout = layout_of(row)
    layout.responses          # ("response_A", "response_B")
    layout.preference("A>B")  # -1.0: the first is better

Nothing is guessed. Where names may mean two things, one error says how to decide, and `Columns`
decides.
"""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from hs2lib.data.rows import Fault, Unclear, listed, shown


def bare(name: str) -> str:
    """The name of a column as names are compared: in any case, without white space around it."""
    return name.strip().lower()


# The usual names of columns, as `bare` has them.

PROMPTS = (
    "prompt",
    "question",
    "instruction",
    "input",
    "context",
    "history",
    "query",
    "conversation_input",
)

# A conversation, which is the prompt where there are responses, and else ends in the response.
CONVERSATIONS = ("messages", "conversations", "conversation")

ONE = ("response", "output", "answer", "completion")

SEVERAL = ("responses", "outputs", "answers", "completions")

# The column of the better response, or of several, and the names that the other one may have.
BETTER_FIRST = {
    "chosen": ("rejected", "reject"),
    "bon_best": ("loser_list",),
    "canonical_solution": ("buggy_solution",),
}

# Two or more columns that differ in a number or a letter: response_a, response1, output_2.
_NUMBERED = re.compile(
    "(response|output|answer|completion|conversation|human_ref)([_ ]?)([a-z]|[0-9]+)"
)

# Which of two numbered responses is better, in words or as A>B, 1 or 2.
WORDS = ("label", "winner", "preferred")

# The same as a strength, which is negative where the first one is better.
STRENGTHS = ("preference_strength", "overall_preference")

# The same as 0 or 1, which is the number in the names response_0 and response_1.
NUMBERS = ("better_response_id", "safer_response_id")

# What a verdict in words may be where the first response is better, where the second is, and where
# neither is.
FIRST = {"a>b", "a>>b", "a", "1", "model_a"}
SECOND = {"b>a", "b>>a", "a<b", "a<<b", "b", "2", "model_b"}
TIE = {"tie", "tie (bothbad)", "tie (inconsistent)", "both", "neither", "a=b", "b=a"}


@dataclass(frozen=True)
class Columns:
    """Which columns hold what, as the user says it; what is empty their names decide.

    `prompt` has the columns of the prompt. The texts of several are joined; a column `system` is a
    turn of its own. `response` has the columns of the responses. `verdict` is the column that
    says which of two responses is better. It may have its values: "label=0,1" where the first or
    the second is better, "margin=-,+" for a number that is negative where the first is. "first"
    says that the first column has the better responses, and "none" leaves all verdicts unread.
    """

    prompt: tuple[str, ...] = ()
    response: tuple[str, ...] = ()
    verdict: str = ""


# Names of columns decide all.
BY_NAME = Columns()


# What a row of each kind of layout has.
_IN_WORDS = {
    "one": "one response",
    "better first": "a better and a worse response",
    "numbered": "responses in numbered columns",
    "list": "a list of responses",
}


class Layout(NamedTuple):
    """What stands where in a row, by the names of its columns as the file writes them.

    kind: "one" response, "better first", "numbered" responses, or a "list" of them.
    prompt: the columns of the prompt; () where the responses are conversations that hold it.
    system: of the system turn.
    responses: of the responses; where the better ones come first, these and the others.
    verdict: of what says which of two is better.
    preference: the preference that a verdict means, as `Group` has it. It raises Fault and Unclear.
    """

    kind: str
    prompt: tuple[str, ...]
    system: str | None
    responses: tuple[str, ...]
    verdict: str | None = None
    preference: Callable[[object], float] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        single = [name for name in (self.system, self.verdict) if name]
        return (*self.prompt, *self.responses, *single)

    @property
    def shape(self) -> str:
        """What a row has, in words, and in which columns."""
        return f"{_IN_WORDS[self.kind]} ({', '.join(self.responses)})"

    def notes(self) -> list[str]:
        """How columns were read, in words, as far as their names are not ours."""
        notes = []
        prompt = " and ".join(self.prompt)
        if self.system and prompt:
            prompt += f" after {self.system}"
        elif self.system:
            notes.append(f"a system turn from {self.system}")
        if prompt not in ("", "prompt"):
            notes.append(f"prompt from {prompt}")
        if self.kind == "better first":
            better, *worse = self.responses
            pairs = {"chosen": better, "rejected": " and ".join(worse)}
            notes += [f"{ours} from {name}" for ours, name in pairs.items() if ours != bare(name)]
        elif self.verdict:
            names = " and ".join(self.responses)
            notes.append(f"chosen and rejected from {names} by {self.verdict}")
        elif self.responses and self.responses != ("response",):
            notes.append(f"responses from {', '.join(self.responses)}")
        return notes


# Which response is better


def _strength(column: str, value: object) -> float:
    """The preference that a strength from -3 to 3 means."""
    # An integer column with a gap is one of floats.
    word = str(value).strip().removesuffix(".0")
    if not re.fullmatch("[-+]?[0-3]", word):
        raise Fault(
            column,
            f"expected which answer is better, got {shown(value)}",
            "write a whole number from -3, the first is better, to 3, the second is",
        )
    return float(word)


def _words(column: str, first: str, second: str, value: object) -> float:
    """The preference that a verdict in words means.

    Args:
        column: of the verdict.
        first: the column of the first response.
        second: that of the second.
        value: the verdict.

    Raises:
        Fault: it does not say which response is better.
        Unclear: it is a number or a bool that may mean either.
    """
    word = str(value).strip().lower()
    # The second's name, or the first one.
    from_zero = bare(first).endswith("0") and word in ("1", "2")
    if word == bare(first) or (word in FIRST and not from_zero):
        return -1.0
    if word == bare(second) or (word in SECOND and not from_zero):
        return 1.0
    if word in TIE:
        return 0.0
    is_number = re.fullmatch(r"[+-]?\d+(\.\d+)?|true|false", word)
    kind = Unclear if is_number else Fault
    raise kind(
        column,
        f"expected which answer is better, got {shown(value)}",
        "write A>B or B>A, or 1 or 2 (beside a 0 a 1 may mean either), in a column label, and tie "
        f"for a tie; hs2 score takes --verdict {column}=FIRST,SECOND with the two values; "
        "rename a column that says something else",
    )


def _named_value(
    column: str, values: Sequence[str], meanings: Sequence[float], value: object
) -> float:
    """The preference that one of few values means.

    Args:
        column: of the verdict.
        values: that there are, as texts.
        meanings: the preference that each of them means.
        value: the verdict.
    """
    word = _verdict_word(value)
    for known, meaning in zip(values, meanings, strict=False):  # a tie need not have a value
        if word == _verdict_word(known):
            return meaning
    raise Fault(
        column,
        f"expected which answer is better, got {shown(value)}",
        f"write {' or '.join(values)}",
    )


def _verdict_word(value: object) -> str:
    """A value of a verdict as it is compared: a number of a column with a gap is a float."""
    return str(value).strip().removesuffix(".0").lower()


def _sign(column: str, sign: float, value: object) -> float:
    """The preference, -1, 0 or 1, that a number means whose sign says which response is better.

    sign: 1 where it is negative for the first, as ours is; else -1.
    """
    try:
        number = float(str(value))
    except ValueError:
        number = float("nan")
    if math.isnan(number):
        raise Fault(
            column, f"expected a number, got {shown(value)}", "write it, or leave the row out"
        )
    if not number:
        return 0.0
    return sign * math.copysign(1.0, number)


# The columns of a row


def layout_of(
    row: dict[str, Any], columns: Columns = BY_NAME, several_only: bool = False
) -> Layout:
    """What stands where in a row, by the names of its columns.

    Args:
        row: of a file. Columns without a value count as absent.
        columns: what the user says of them.
        several_only: whether a row has to have two or more responses.

    Raises:
        Fault: the row has no prompt or no response, or lacks a column that is named.
        Unclear: its columns may mean two things.
    """
    present = [name for name, value in row.items() if value is not None]
    names = {bare(name): name for name in present}
    kind, responses = _responses(row, names, columns, several_only)
    system = names.get("system")
    if kind == "conversation":
        kind = "one"
        prompt = ()
    else:
        prompt = _prompt(row, names, columns, responses)
    if columns.prompt:  # what the user names is all that counts
        system = next((name for name in prompt if bare(name) == "system"), None)
        prompt = tuple(name for name in prompt if name != system)
    layout = Layout(kind, prompt, system, responses)
    _check_case(present, layout)
    verdict, _, _ = columns.verdict.partition("=")
    if kind != "numbered" and verdict not in ("", "first", "none"):
        raise Unclear(
            None,
            f"--verdict names {verdict}, and the row has {layout.shape}, where no verdict is read",
            "leave --verdict out, or name two columns of responses by --response",
        )
    if kind != "numbered" or len(responses) != 2:
        return layout
    verdict, preference = _verdict(row, names, columns, responses)
    return layout._replace(verdict=verdict, preference=preference)


def asked_layout(row: dict[str, Any], columns: Columns = BY_NAME) -> Layout:
    """Where the prompt of a row stands, whether the row has responses or not.

    A prompt that has columns of its own is of kind "asked", without responses. Else the row is a
    conversation that holds it, as for `layout_of`.

    Raises:
        Fault: the row has no prompt.
        Unclear: its columns may mean two things.
    """
    present = [name for name, value in row.items() if value is not None]
    names = {bare(name): name for name in present}
    layout = None
    with suppress(Fault, Unclear):  # of responses, which says nothing of the prompt
        layout = layout_of(row, replace(columns, verdict="none"))
    responses = layout.responses if layout else ()
    if layout and layout.kind == "one" and not layout.prompt:
        value = row[responses[0]]
        if _last_speaker(value) in ("user", "human"):
            return Layout("asked", responses, names.get("system"), ())  # nobody has answered it
    prompt = _prompt(row, names, columns, responses)
    if prompt:
        asked = tuple(name for name in prompt if bare(name) != "system")
        layout = Layout("asked", asked, names.get("system"), ())
        _check_case(present, layout)
        return layout
    if layout:
        return layout
    known = ("prompt", *PROMPTS, *CONVERSATIONS)
    empty = next((name for name in row if bare(name) in known), None)
    if empty is not None:
        raise _empty(empty)
    raise Fault(
        None,
        f"no column of prompts is known; the row has: {listed(row)}",
        "call it prompt, or name it: --prompt COLUMN",
    )


def has_several(row: dict[str, Any]) -> bool:
    """Whether a row has two or more responses by the names of its columns, or one of a set."""
    names = {bare(name): name for name, value in row.items() if value is not None}
    try:
        candidates, missing = _candidates(names)
    except Unclear:  # several, of which two have one number
        return True
    ranked = [names[name] for name in SEVERAL if name in names]
    return bool(candidates or missing) or any(kind_of(row[name]) == "list" for name in ranked)


def _check_case(present: Sequence[str], layout: Layout) -> None:
    """Raise Unclear where a column that is read has the name of another one, in another case.

    present: the columns of the row that have a value.
    """
    for name in layout.columns:
        alike = [other for other in present if bare(other) == bare(name)]
        if len(alike) > 1:
            raise Unclear(
                None, f"the columns {' and '.join(alike)} have one name", "rename one of them"
            )


def _last_speaker(value: object) -> object:
    """Who speaks last in a list of messages; None of anything else."""
    last = value[-1] if holds_messages(value) else None
    return last.get("role", last.get("from")) if isinstance(last, dict) else None


def _empty(column: str) -> Fault:
    """The fault of a row whose cell of a column holds nothing."""
    return Fault(column, "it is empty", "fill it, or leave the row out")


def _missing(row: dict, column: str) -> Fault:
    """The fault of a row that lacks a column, or has nothing in it."""
    for name in row:
        if bare(name) == bare(column):
            return _empty(name)
    what = f"the column is missing; the row has: {listed(row)}"
    return Fault(column, what, f"add the column {column!r}")


def _named(row: dict, names: dict[str, str], asked: Sequence[str]) -> tuple[str, ...]:
    """The columns that the user names, as the row writes them; raises Fault where one is absent."""
    for name in asked:
        if bare(name) not in names:
            raise _missing(row, name)
    return tuple(names[bare(name)] for name in asked)


def holds_messages(value: object) -> bool:
    """Whether a value is a list of messages."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and bool({"role", "from"} & first.keys())


def kind_of(value: object) -> str:
    """Whether one column holds "one" response or a "list" of them."""
    return "list" if isinstance(value, list) and not holds_messages(value) else "one"


def _numbered(names: dict[str, str]) -> list[tuple[tuple[str, ...], str]]:
    """(columns, name of a gap) of each set of numbered responses, from the first on.

    The gap is a column that is missing before another one; "" where there is none. Raises Unclear
    where two columns have one number.
    """
    sets: dict[tuple[str, str, bool], dict[int, str]] = {}
    for name, column in names.items():
        match = _NUMBERED.fullmatch(name)
        if match:
            stem, mark, number = match.groups()
            is_letter = number.isalpha()
            place = ord(number) - ord("a") if is_letter else int(number)
            of_stem = sets.setdefault((stem, mark, is_letter), {})
            if place in of_stem:  # response_1 and response_01
                raise Unclear(
                    None,
                    f"the columns {of_stem[place]} and {column} have one number",
                    "rename one of them",
                )
            of_stem[place] = column
    whole_sets = []
    for (stem, mark, is_letter), columns in sets.items():
        place = min(columns)
        if place > (0 if is_letter else 1):  # the first is a, 0 or 1
            continue
        of_set = []
        while place in columns:
            of_set.append(columns[place])
            place += 1
        gap = ""
        if len(of_set) < len(columns):
            gap = f"{stem}{mark}{chr(ord('a') + place) if is_letter else place}"
        whole_sets.append((tuple(of_set), gap))
    return whole_sets


def _candidates(names: dict[str, str]) -> tuple[list[tuple[str, tuple[str, ...]]], str]:
    """The sets of columns that may be the responses: (kind, columns), and a column that is missing.

    The column is that of the first set which is not whole; "" where there is none.
    """
    candidates = []
    missing = ""
    for better, others in BETTER_FIRST.items():
        worse = next((name for name in others if name in names), others[0])
        if better in names and worse in names:
            candidates.append(("better first", (names[better], names[worse])))
        elif better in names:
            missing = missing or worse
        elif worse in names:
            missing = missing or better
    for columns, gap in _numbered(names):
        if len(columns) > 1 and not gap:
            candidates.append(("numbered", columns))
        else:
            missing = missing or gap or _next_name(columns[0])
    return candidates, missing


def _next_name(column: str) -> str:
    """The name of the column after a numbered one: response_2 after response_1."""
    return column[:-1] + chr(ord(column[-1]) + 1)


def _responses(
    row: dict, names: dict[str, str], columns: Columns, several_only: bool
) -> tuple[str, tuple[str, ...]]:
    """(kind, columns) of the responses of a row; "conversation" is one in which the last turn is.

    Raises Fault and Unclear, as `layout_of`.
    """
    if columns.response:
        asked = _named(row, names, columns.response)
        if len(asked) > 1:
            is_known = tuple(map(bare, asked)) in _better_first()
            return "better first" if is_known or columns.verdict == "first" else "numbered", asked
        if bare(asked[0]) in CONVERSATIONS:
            return "conversation", asked
        return kind_of(row[asked[0]]), asked
    candidates, missing = _candidates(names)
    single = [names[name] for name in (*SEVERAL, *ONE) if name in names]
    if "response" in names:
        single = [names["response"]]
    singles = [(kind_of(row[name]), (name,)) for name in single]
    if several_only:
        singles = [] if candidates else [one for one in singles if one[0] == "list"]
    candidates += singles
    if len(candidates) > 1:
        sets = [" and ".join(of_set) for _, of_set in candidates]
        raise Unclear(
            None,
            f"the responses may be {', or '.join(sets)}",
            "say which: hs2 score takes "
            + " or ".join([f"--response {','.join(of_set)}" for _, of_set in candidates])
            + "; or rename the others",
        )
    if candidates:
        kind, of_set = candidates[0]
        if columns.verdict == "first" and kind == "numbered":
            kind = "better first"
        return kind, of_set
    if missing or several_only:
        raise _missing(row, missing or "chosen")
    for name in CONVERSATIONS:
        if name in names:
            return "conversation", (names[name],)
    known = (*ONE, *SEVERAL, *CONVERSATIONS)
    empty = next((name for name in row if bare(name) in known), None)
    if empty is not None:
        raise _empty(empty)
    raise Fault(
        None,
        f"no column of responses is known; the row has: {listed(row)}",
        "call it response, or name it: --response COLUMN",
    )


def _better_first() -> set[tuple[str, str]]:
    """The pairs of names of which the first holds the better response."""
    pairs = set()
    for better, others in BETTER_FIRST.items():
        pairs |= {(better, worse) for worse in others}
    return pairs


def _prompt(
    row: dict, names: dict[str, str], columns: Columns, responses: Sequence[str]
) -> tuple[str, ...]:
    """The columns of the prompt; () where there is none. Raises Fault and Unclear, as `layout_of`.

    responses: the columns of the responses.
    """
    if columns.prompt:
        # Of several that are joined some may be empty.
        empty = {bare(name) for name, value in row.items() if value is None}
        asked = [name for name in columns.prompt if bare(name) not in empty]
        return _named(row, names, asked or columns.prompt)
    if "prompt" in names:
        return (names["prompt"],)
    candidates = [names[name] for name in PROMPTS if name in names and names[name] not in responses]
    if len(candidates) > 1 and [bare(name) for name in candidates] != ["instruction", "input"]:
        raise Unclear(
            None,
            f"the prompt may be {' or '.join(candidates)}",
            f"say which: hs2 score takes --prompt {candidates[0]}, "
            f"or --prompt {','.join(candidates)} to join them; or rename the others",
        )
    if candidates:
        return tuple(candidates)
    for name in CONVERSATIONS:
        # A conversation that ends in an answer is one more answer, and no prompt.
        is_free = name in names and names[name] not in responses
        if is_free and _last_speaker(row[names[name]]) not in ("assistant", "gpt"):
            return (names[name],)
    return ()


def _verdict(
    row: dict, names: dict[str, str], columns: Columns, responses: Sequence[str]
) -> tuple[str | None, Callable[[object], float] | None]:
    """The column that says which of two responses is better, and what its values mean.

    Both are None where there is none. Raises Fault and Unclear, as `layout_of`.
    """
    if columns.verdict == "none":
        return None, None
    stem = bare(responses[0])
    name, _, values = columns.verdict.partition("=")
    if name:
        if bare(name) not in names:
            if bare(name) in map(bare, row):
                return None, None
            raise _missing(row, name)
        verdicts = [bare(name)]
    else:
        usual = [*WORDS, *STRENGTHS]
        if stem == "response_0":
            usual += NUMBERS
        if stem == "human_ref_a":
            usual.append("labels")
        verdicts = [usual_name for usual_name in usual if usual_name in names]
    if len(verdicts) > 1:
        raise Unclear(
            None,
            f"{' and '.join(names[one] for one in verdicts)} may say which response is better",
            "say which: hs2 score takes "
            + " or ".join([f"--verdict {names[one]}" for one in verdicts])
            + "; or rename the others",
        )
    if not verdicts:
        return None, None
    column = names[verdicts[0]]
    if values in ("-,+", "+,-"):
        return column, partial(_sign, column, 1.0 if values == "-,+" else -1.0)
    if values:
        return column, partial(_named_value, column, values.split(","), (-1.0, 1.0, 0.0))
    if verdicts[0] in STRENGTHS:
        return column, partial(_strength, column)
    if verdicts[0] in NUMBERS:
        return column, partial(_named_value, column, ("0", "1"), (-1.0, 1.0))
    if verdicts[0] == "labels" and stem == "human_ref_a":
        # SHP: 1 where A is preferred, 0 where B is.
        return column, partial(_named_value, column, ("1", "0"), (-1.0, 1.0))
    return column, partial(_words, column, responses[0], responses[1])


def checked_columns(columns: Columns) -> Columns:
    """The columns as they are; raises ValueError where a verdict has one value, or more than three.

    No two of them may be equal. The third value means a tie.
    """
    _, equals, values = columns.verdict.partition("=")
    words = [_verdict_word(value) for value in values.split(",")]
    is_list = len(words) in (2, 3) and "" not in words and len(set(words)) == len(words)
    if equals and not is_list:
        raise ValueError(
            f"--verdict {columns.verdict}: expected COLUMN=FIRST,SECOND or COLUMN=FIRST,SECOND,TIE "
            "with the values of the column, COLUMN=-,+ for a number that is negative where the "
            "first is better, COLUMN alone, first or none"
        )
    return columns
