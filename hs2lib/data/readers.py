"""Readers of rated responses: HelpSteer2 and its companions, HelpSteer, and your own ratings.

Each takes (path, faults, prefix, source) and yields groups whose ids start with `prefix`. Faulty rows go to `faults`.
Conversations, trees and comparisons of other makers are read in `hs2lib.data.readers`.
"""

import re
from collections.abc import Iterator
from itertools import product
from operator import itemgetter
from pathlib import Path
from statistics import median

import numpy as np

from hs2lib.data.rows import Fault, Faults, columns, encodes, number, read, say, text
from hs2lib.group import ATTRIBUTES, Group, Response, Turn, parse_prompt, prompt_string

NAN = float("nan")

COLUMNS = ("prompt", "response", *ATTRIBUTES)

_texts = itemgetter("prompt", "response")

_ratings = itemgetter(*ATTRIBUTES)

_TYPES = (*(int,) * len(ATTRIBUTES), str, str)

# All 3,125 legal ratings. One look-up validates a row, and equal labels share one tuple in memory.
_LABELS = {ratings: tuple(map(float, ratings)) for ratings in product(range(5), repeat=len(ATTRIBUTES))}


def turns(string: str, column: str = "prompt") -> tuple[Turn, ...]:
    """The turns of a prompt string; raises Fault where its markers do not make a conversation."""
    parsed = parse_prompt(string)
    if "<extra_id_" in string:
        try:
            prompt_string(parsed)
        except ValueError as error:
            raise Fault(column, f"the turn markers make no conversation: {error}", "mend the markers") from None
    return parsed


def _rated(row: object) -> tuple[str, str, tuple[float, ...]]:
    """(prompt, response, labels) of one row of HelpSteer's columns, or Fault.

    Fast path first: a sound row costs a few look-ups. Only a row that fails it is taken apart to say why.
    """
    try:
        prompt, response = _texts(row)
        ratings = _ratings(row)
        # The types are compared before the look-up because True == 1 and 1.0 == 1, also as keys.
        if (
            (*map(type, ratings), type(prompt), type(response)) == _TYPES
            and (labels := _LABELS.get(ratings))
            and len(row) == len(COLUMNS)
            and prompt
            and response
            and not prompt.isspace()
            and not response.isspace()
            and encodes(prompt)
            and encodes(response)
        ):
            return prompt, response, labels
    except (KeyError, TypeError, IndexError):
        pass
    columns(row, COLUMNS)
    labels = tuple(number(row, name, 0, 4) for name in ATTRIBUTES)
    return text(row, "prompt"), text(row, "response"), labels


def sound(check, line: int, row: object, faults: Faults):
    """check(row), or None where the row could not be read or has a fault, which is then reported."""
    if row is None:
        return None
    try:
        return check(row)
    except Fault as fault:
        faults.add(line, fault)
        return None


def _group(name: str, prompt: tuple[Turn, ...], answers: list[tuple[str, tuple]], source: str) -> Group:
    responses = tuple([Response(f"{name}/{i}", answer, labels) for i, (answer, labels) in enumerate(answers)])
    return Group(name, prompt, responses, source=source)


def helpsteer2(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer2: rows 2k and 2k + 1 (lines 2k + 1 and 2k + 2) are the two responses to one prompt.

    Paired by position, not by prompt: one train prompt occurs in two pairs. What is set aside are whole pairs, each
    row of them reported. Paper: section 2 (two responses per prompt).
    """
    rows = read(path, faults)
    for line, row in rows:
        first = sound(_rated, line, row, faults)
        second_line, second_row = next(rows, (None, None))
        if second_line is None:
            what = f"the file has {line} rows, an odd number: the last has no partner"
            faults.add(line, Fault(None, what, "restore the lost row, or remove this one"))
            return
        second = sound(_rated, second_line, second_row, faults)
        if first is None or second is None:
            for own, other, checked in ((line, second_line, first), (second_line, line, second)):
                if checked is not None:
                    faults.add(own, Fault(None, f"its pair partner, line {other}, is set aside", "mend that row"))
            continue
        try:
            if first[0] != second[0]:
                what = f"lines {line} and {second_line} are a pair by position, but their prompts differ"
                raise Fault("prompt", what, "restore the row that was lost, doubled or moved at or before this line")
            prompt = turns(first[0])
        except Fault as fault:
            faults.add(line, fault)
            faults.add(second_line, fault)
            continue
        yield _group(f"{prefix}/{line // 2}", prompt, [first[1:], second[1:]], source)


def helpsteer(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer: rows in a row with the same prompt are its responses (up to four).

    Paper: Table 2, column HS. Faulty rows are set aside one by one; the other responses to the prompt stay.
    """

    def check(row):
        prompt, response, labels = _rated(row)
        return turns(prompt), (response, labels)

    prompt, answers, start = None, [], 0
    for line, row in read(path, faults):
        checked = sound(check, line, row, faults)
        if checked is None:
            continue
        if checked[0] != prompt:
            if answers:
                yield _group(f"{prefix}/{start}", prompt, answers, source)
            prompt, answers, start = checked[0], [], line - 1
        answers.append(checked[1])
    if answers:
        yield _group(f"{prefix}/{start}", prompt, answers, source)


def disagreements(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer2's individual annotations: each attribute a list, one rating per annotator, no annotator ids.

    Consecutive rows with one prompt make a pair; a row whose partner is absent makes a group of one. The lists of a
    row are read by position (the same place, the same annotator), so their lengths must agree. Labels stay (): the
    released label follows from `hs2lib.stats.aggregate`. Paper: section 2.1 (three annotators, or five).
    """

    def check(row):
        columns(row, COLUMNS)
        by_attribute = []
        for name in ATTRIBUTES:
            given = row[name]
            if not isinstance(given, list) or not given:
                raise Fault(name, f"a list of ratings is due, got {say(given)}", "write one rating per annotator")
            by_attribute.append([number({name: rating}, name, 0, 4) for rating in given])
            if len(given) != len(by_attribute[0]):
                what = f"{len(given)} ratings, but {ATTRIBUTES[0]} has {len(by_attribute[0])}"
                raise Fault(name, what, "give every annotator's rating of every attribute")
        ratings = tuple(zip(*by_attribute, strict=True))
        return turns(text(row, "prompt")), text(row, "response"), ratings

    held = None  # a checked row waiting for its partner: (line, prompt, response, ratings)
    for line, row in read(path, faults):
        checked = sound(check, line, row, faults)
        if checked is None:
            continue
        if held and held[1] == checked[0]:
            yield _annotated(prefix, source, held, (line, *checked))
            held = None
            continue
        if held:
            yield _annotated(prefix, source, held)
        held = (line, *checked)
    if held:
        yield _annotated(prefix, source, held)


def _annotated(prefix: str, source: str, *rows: tuple) -> Group:
    name = f"{prefix}/{rows[0][0] - 1}"
    responses = tuple(Response(f"{name}/{i}", row[2], (), row[3]) for i, row in enumerate(rows))
    return Group(name, rows[0][1], responses, source=source)


PREFERENCE_COLUMNS = (
    *("split", "prompt", "response_1", "response_2", "preference_strength", "preference_statement"),
    *("preference_elaboration", "three_most_similar_preferences", "all_preferences_unprocessed"),
)


def preference(path: Path, faults: Faults, prefix: str, source: str, split: str = "both") -> Iterator[Group]:
    """HelpSteer2-Preference: strength -3..3, negative where response 1 is better; one file, its `split` column read.

    `preferences` are all annotators' strengths as collected, nan where an annotator found neither response valid
    (-100 in the file). The written justifications are not kept.
    """

    def strength(entry):
        columns(entry, ("strength",), ("justification", "statement", "elaboration"))
        return NAN if entry["strength"] in (-100, None) else number(entry, "strength", -3, 3)

    def check(row):
        columns(row, PREFERENCE_COLUMNS)
        if row["split"] not in ("train", "val"):
            raise Fault("split", f"train or val is due, got {say(row['split'])}", "write one of the two")
        given = row["all_preferences_unprocessed"]
        if not isinstance(given, list):
            raise Fault("all_preferences_unprocessed", f"a list is due, got {say(given)}", "write a list")
        answers = [(text(row, "response_1"), ()), (text(row, "response_2"), ())]
        overall = number(row, "preference_strength", -3, 3)
        return turns(text(row, "prompt")), answers, overall, tuple(map(strength, given)), row["split"]

    wanted = {"train": ("train",), "validation": ("val",), "both": ("train", "val")}[split]
    for line, row in read(path, faults):
        checked = sound(check, line, row, faults)
        if checked is not None and checked[4] in wanted:
            prompt, answers, overall, each, _ = checked
            name = f"{prefix}/{line - 1}"
            responses = tuple(Response(f"{name}/{i}", answer) for i, (answer, _) in enumerate(answers))
            yield Group(name, prompt, responses, preference=overall, preferences=each, source=source)


def unrated(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer2 prompts with both responses and no ratings (columns input, response_a, response_b)."""

    def check(row):
        columns(row, ("input", "response_a", "response_b"))
        return turns(text(row, "input"), "input"), [(text(row, name), ()) for name in ("response_a", "response_b")]

    for line, row in read(path, faults):
        checked = sound(check, line, row, faults)
        if checked is not None:
            yield _group(f"{prefix}/{line - 1}", *checked, source)


OASST_ATTRIBUTES = ("quality", "helpfulness", "creativity", "humor", "toxicity", "violence")

OASST_OTHER = (
    *("user_id", "created_date", "lang", "review_count", "review_result", "deleted", "rank", "synthetic"),
    *("model_name", "detoxify", "message_tree_id", "tree_state", "emojis"),
)


def oasst1(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """Open Assistant: the assistant messages under one parent are a group, the path from the root its prompt.

    Labels are the means of about three volunteers in [0, 1], times 4; nan where an attribute was not labelled, ()
    where a message has no labels at all. Deleted and badly reviewed messages are kept, as in the reference code.
    A message whose parent is not in the file is a fault, and so are the messages under it.
    Paper: section 3 (Open Assistant as a baseline); the scaling follows SteerLM's reference code.
    """
    nodes: dict[str, tuple] = {}  # message id -> (line, parent id, role, text, labels)

    def check(row):
        columns(row, ("message_id", "parent_id", "text", "role", "labels"), OASST_OTHER)
        name, parent = text(row, "message_id"), row["parent_id"]
        if name in nodes:
            what = f"this message is given a second time (first in line {nodes[name][0]})"
            raise Fault("message_id", what, "keep one of the two")
        role = {"prompter": "user", "assistant": "assistant"}.get(row["role"])
        if role is None:
            raise Fault("role", f"prompter or assistant is due, got {say(row['role'])}", "write one of the two")
        if parent is not None:
            text(row, "parent_id")
        return name, (parent, role, text(row, "text"), _oasst_labels(row["labels"]))

    for line, row in read(path, faults):
        checked = sound(check, line, row, faults)
        if checked is not None:
            nodes[checked[0]] = (line, *checked[1])

    paths: dict[str, tuple[Turn, ...] | None] = {}  # message id -> turns from the root to it; None: set aside
    replies: dict[str, list[str]] = {}
    for name, (line, parent, role, _, _) in nodes.items():
        if _path(name, nodes, paths, faults) is not None and role == "assistant":
            if parent is None:
                faults.add(line, Fault("role", "an assistant message opens the tree", "give the prompt it answers"))
            else:
                replies.setdefault(parent, []).append(name)
    for parent, names in replies.items():
        responses = tuple(Response(name, nodes[name][3], nodes[name][4]) for name in names)
        yield Group(f"{prefix}/{parent}", paths[parent], responses, OASST_ATTRIBUTES, source=source)


def _path(name: str, nodes: dict, paths: dict, faults: Faults) -> tuple[Turn, ...] | None:
    """The turns from the root to a message, None if one on the way is absent; each fault is reported once."""
    chain = []
    while name in nodes and name not in paths and name not in chain:
        chain.append(name)
        name = nodes[name][1]
    # name is now None (above a root), a message already settled, one that is absent, or one met twice (a circle).
    above = () if name is None else paths.get(name)
    circle = name in chain
    for child in reversed(chain):
        line, parent, role, words, _ = nodes[child]
        if above is None:
            why = "leads back to the message itself" if circle else "is not in the file, or was itself set aside"
            what = f"the message's parent {parent} {why}"
            faults.add(line, Fault("parent_id", what, "add the parent, or remove all messages under it"))
        elif above and above[-1].role == role:
            faults.add(line, Fault("role", f"a {role} message answers a {role} message", "make the roles alternate"))
            above = None
        else:
            above = (*above, Turn(role, words))
        paths[child] = above
    return paths.get(chain[0]) if chain else above


def _oasst_labels(labels: object) -> tuple[float, ...]:
    """Six labels from either layout: {name: [..], value: [..]} (Parquet) or {quality: {value: ..}, ..} (JSONL)."""
    if labels is None:
        return ()
    if not isinstance(labels, dict):
        raise Fault("labels", f"an object or null is due, got {say(labels)}", "write the labels as exported")
    if isinstance(labels.get("name"), list):
        if not isinstance(labels.get("value"), list) or len(labels["value"]) != len(labels["name"]):
            raise Fault("labels", "the lists name and value differ in length", "write the labels as exported")
        values = dict(zip(labels["name"], labels["value"], strict=True))
    else:
        values = {name: entry.get("value") if isinstance(entry, dict) else entry for name, entry in labels.items()}
    given = (number(values, name, 0, 1, whole=False) if name in values else None for name in OASST_ATTRIBUTES)
    return tuple(NAN if value is None else 4 * value for value in given)


_HH_TURN = re.compile(r"\n\n(Human|Assistant):")


def hh_rlhf(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HH-RLHF: two conversations that differ in the last answer; responses[0] is the chosen one, preference -1.

    The data say which is better, not by how much: -1 is the smallest preference of our scale. White space around
    each message is removed. Conversations that differ earlier, or end without an answer, are faults (the released
    files have some). Paper: section 3 (HH-RLHF as a baseline).
    """

    def conversation(row, column):
        string = text(row, column)
        pieces = _HH_TURN.split(string)
        if pieces[0].strip() or len(pieces) < 5 or pieces[1] != "Human" or pieces[-2] != "Assistant":
            what = f"a conversation from Human to Assistant is due, got {say(string)}"
            raise Fault(column, what, r"write \n\nHuman: .. \n\nAssistant: ..")
        if not pieces[-1].strip():
            raise Fault(column, "the last answer is empty", "remove the row or give the answer")
        roles = ("user" if name == "Human" else "assistant" for name in pieces[1::2])
        return tuple(Turn(role, words.strip()) for role, words in zip(roles, pieces[2::2], strict=True))

    def check(row):
        columns(row, ("chosen", "rejected"))
        chosen, rejected = conversation(row, "chosen"), conversation(row, "rejected")
        if chosen[:-1] != rejected[:-1]:
            what = "chosen and rejected differ before their last answer, so they do not share a prompt"
            raise Fault("rejected", what, "make the two conversations equal up to the last answer")
        return chosen[:-1], (chosen[-1].text, rejected[-1].text)

    for line, row in read(path, faults):
        checked = sound(check, line, row, faults)
        if checked is not None:
            name = f"{prefix}/{line - 1}"
            responses = (
                Response(f"{name}/chosen", checked[1][0]),
                Response(f"{name}/rejected", checked[1][1]),
            )
            yield Group(name, checked[0], responses, (), preference=-1.0, source=source)


def daring_anteater(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """Daring-Anteater: conversations as groups of one response, the last assistant turn; the rest is the prompt.

    Labels, where given ("helpfulness:4,correctness:4,.."), are those of that last turn. A user turn may itself hold a
    conversation in HelpSteer2's string format, as in the reference format. Paper: section 4 (SFT, SteerLM).
    """

    def check(row):
        columns(row, ("system", "mask", "dataset", "conversations"), ("type",))
        given = row["conversations"]
        if not isinstance(given, list) or len(given) < 2:
            raise Fault("conversations", f"a list of turns is due, got {say(given)}", "give the prompt and the answer")
        if not isinstance(row["system"], str):
            raise Fault("system", f"text is due, got {say(row['system'])}", 'write "" where there is none')
        spoken = [Turn("system", row["system"])] if row["system"].strip() else []
        last = "assistant"
        for turn in given:
            columns(turn, ("from", "value"), ("label",))
            role = {"User": "user", "Assistant": "assistant"}.get(turn["from"])
            if role is None or role == last:
                due = "Assistant" if last == "user" else "User"
                raise Fault(
                    "conversations",
                    f"a turn from {due} is due, got {say(turn['from'])}",
                    "make turns alternate",
                )
            last = role
            words = text(turn, "value")
            spoken += turns(words, "conversations") if role == "user" else [Turn(role, words)]
        if last != "assistant":
            raise Fault("conversations", "the last turn is the user's", "remove it or give the answer")
        return tuple(spoken[:-1]), spoken[-1].text, _label_string(given[-1].get("label"))

    for line, row in read(path, faults):
        checked = sound(check, line, row, faults)
        if checked is not None:
            name = f"{prefix}/{line - 1}"
            yield Group(name, checked[0], (Response(f"{name}/0", *checked[1:]),), source=source)


def _label_string(label: object) -> tuple[float, ...]:
    """The five labels of a SteerLM label string, nan where one is not named; () for null or an empty string."""
    if label is None or label == "":
        return ()
    fix = "write helpfulness:4,correctness:4,coherence:4,complexity:2,verbosity:2"
    pairs = [part.split(":") for part in label.split(",")] if isinstance(label, str) else [[]]
    given = {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[0] in ATTRIBUTES and pair[1].isdecimal()}
    if len(given) != len(pairs):
        raise Fault("conversations", f"a label string is due, got {say(label)}", fix)
    whole = {name: int(value) for name, value in given.items()}
    return tuple(number(whole, name, 0, 4) if name in whole else NAN for name in ATTRIBUTES)


SUMMEVAL_ATTRIBUTES = ("coherence", "consistency", "fluency", "relevance")


def summeval(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """SummEval: 16 systems' summaries of an article, four attributes, three experts each, on a scale of 1 to 5.

    The article is the prompt; labels are the experts' means. Rows in a row with one doc_id are a group.
    """

    def check(row):
        columns(row, ("doc_id", "system", "source", "summary", "expert_ratings"))
        columns(row["expert_ratings"], SUMMEVAL_ATTRIBUTES)
        by_attribute = []
        for name in SUMMEVAL_ATTRIBUTES:
            given = row["expert_ratings"][name]
            if not isinstance(given, list) or len(given) != 3:
                raise Fault(name, f"a list of three ratings is due, got {say(given)}", "give every expert's rating")
            by_attribute.append([number({name: rating}, name, 1, 5) for rating in given])
        raw = tuple(zip(*by_attribute, strict=True))
        labels = tuple(sum(given) / 3 for given in by_attribute)
        names = text(row, "doc_id"), text(row, "system")
        return names[0], text(row, "source"), Response("/".join(names), text(row, "summary"), labels, raw)

    article, responses = None, []
    for line, row in read(path, faults):
        checked = sound(check, line, row, faults)
        if checked is not None:
            if checked[:2] != article and responses:
                yield _summaries(prefix, article, responses, source)
                responses = []
            article = checked[:2]
            responses.append(checked[2])
    if responses:
        yield _summaries(prefix, article, responses, source)


def _summaries(prefix: str, article: tuple[str, str], responses: list[Response], source: str) -> Group:
    prompt = (Turn("user", article[1]),)
    return Group(f"{prefix}/{article[0]}", prompt, tuple(responses), SUMMEVAL_ATTRIBUTES, source=source)


def pandalm(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """PandaLM's test set: which of two responses each of three annotators prefers (0 tie, 1 or 2 the better one).

    Preferences become 0, -1 and 1; the group's is their median (the majority, or a tie). As released, some responses
    are empty, and some "True" became the boolean true: both were shown to annotators, so both are kept, as text.
    """
    annotators = ("annotator1", "annotator2", "annotator3")

    def check(row):
        columns(
            row,
            ("instruction", "input", "response1", "response2", *annotators),
            ("idx", "motivation_app", "cmp_key"),
        )
        parts = [row[name] for name in ("instruction", "input") if isinstance(row[name], str) and row[name].strip()]
        text({"instruction": "\n\n".join(parts)}, "instruction")
        answers = []
        for name in ("response1", "response2"):
            if not isinstance(row[name], (str, bool)):
                raise Fault(name, f"text is due, got {say(row[name])}", "write the text as a string")
            answers.append(str(row[name]))
        each = tuple({0: 0.0, 1: -1.0, 2: 1.0}[number(row, name, 0, 2)] for name in annotators)
        return (Turn("user", "\n\n".join(parts)),), answers, each

    for line, row in read(path, faults):
        checked = sound(check, line, row, faults)
        if checked is not None:
            prompt, answers, each = checked
            name = f"{prefix}/{line - 1}"
            responses = tuple(Response(f"{name}/{i}", answer) for i, answer in enumerate(answers))
            yield Group(name, prompt, responses, (), float(median(each)), each, source)


OPTIONAL = ("group", "id", "annotator")


def ratings(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """Groups of your own rated responses, in the order in which their prompts first occur.

    Without an `annotator` column the row's values are the labels. With it they are raw ratings, and the labels the
    plain mean of those present (the paper's rule, three most in agreement, is `hs2lib.stats.aggregate`'s). Two rows
    of one response by one annotator, or without annotators, are a fault: which of them counts cannot be known.
    """
    from_csv = ".csv" in path.suffixes
    seen: dict[tuple, int] = {}  # (group, prompt, response, annotator) -> line
    prompts: dict[object, tuple] = {}  # group key -> (name of the group, prompt string, turns)
    answers: dict[object, dict] = {}  # group key -> {response text: [(line, id, annotator, values)]}

    def check(row):
        columns(row, COLUMNS, OPTIONAL)
        values = tuple(NAN if row[a] is None else number(_parsed(row, a, from_csv), a, 0, 4, False) for a in ATTRIBUTES)
        prompt, response = text(row, "prompt"), text(row, "response")
        group, given, annotator = (_name(row, column) for column in OPTIONAL)
        return prompt, turns(prompt), response, values, group, given, annotator

    def place(line, row):
        prompt, conversation, response, values, group, given, annotator = check(row)
        key = prompt if group is None else (group,)
        if key in prompts and prompts[key][1] != prompt:
            what = f"the prompt differs from that of an earlier row of group {group!r}"
            raise Fault("prompt", what, "give one group one prompt")
        earlier = seen.setdefault((key, response, annotator), line)
        if earlier != line:
            who = f"by annotator {annotator!r}" if annotator is not None else "and no annotator is named"
            what = f"this response is rated a second time (first in line {earlier}) {who}"
            raise Fault("annotator", what, "keep one of the rows, or name who gave each rating in a column annotator")
        prompts.setdefault(key, (group or str(line - 1), prompt, conversation))
        answers.setdefault(key, {}).setdefault(response, []).append((line, given, annotator, values))

    for line, row in read(path, faults):
        if row is not None:
            sound(lambda row, line=line: place(line, row), line, row, faults)
    for key, (group, _, conversation) in prompts.items():
        name = f"{prefix}/{group}"
        responses = [_response(f"{name}/{i}", *item) for i, item in enumerate(answers[key].items())]
        yield Group(name, conversation, tuple(responses), source=source)


def _response(name: str, answer: str, rows: list[tuple]) -> Response:
    name = next((given for _, given, _, _ in rows if given is not None), name)
    if len(rows) == 1 and rows[0][2] is None:
        return Response(name, answer, rows[0][3])
    raw = np.array([values for _, _, _, values in rows])
    present = ~np.isnan(raw)
    # Sum over count rather than nanmean, which warns where nobody rated an attribute.
    with np.errstate(invalid="ignore"):
        labels = np.where(present, raw, 0).sum(axis=0) / present.sum(axis=0)
    return Response(name, answer, tuple(labels.tolist()), tuple(values for _, _, _, values in rows))


def _parsed(row: dict, name: str, from_csv: bool) -> dict:
    """CSV has only text: its numbers are read here; what is no number stays text, for `number` to refuse."""
    if not from_csv:
        return row
    for kind in (int, float):
        try:
            return {name: kind(row[name])}
        except ValueError:
            continue
    return row


def _name(row: dict, column: str) -> str | None:
    """A group, id or annotator as text; numbers are welcome as names, null and absence mean none."""
    value = row.get(column)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise Fault(column, f"a name is due, got {say(value)}", "write a text or a whole number, or leave it out")
    return str(value)
