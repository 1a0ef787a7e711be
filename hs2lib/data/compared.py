"""Readers of data sets of two responses to a prompt, most of them with which one is better."""

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hs2lib.data.readers import ChatMessage, Conversation, or_nan, spoken_turns, values
from hs2lib.data.rows import Fault, Row, Text, columns, expected, shown, whole
from hs2lib.group import Group, Response, Turn, prompt_string


class Two(Row):
    """A prompt and two responses, which the model names `prompt`, `first` and `second`.

    It may have a `preference`, and the `preferences` of each annotator.
    """

    def group(self, name: str, source: str) -> Group:
        """The row as a group.

        Preferences are negative where the first response is better, nan where there is none.
        """
        responses = (Response(f"{name}/0", self.first), Response(f"{name}/1", self.second))
        return Group(
            name,
            self.prompt,
            responses,
            preference=getattr(self, "preference", None),
            preferences=getattr(self, "preferences", ()),
            source=source,
        )


def chosen_first(
    name: str, prompt: tuple[Turn, ...], chosen: str, rejected: str, source: str
) -> Group:
    """A pair of responses, the better one first, preference -1."""
    responses = (Response(f"{name}/chosen", chosen), Response(f"{name}/rejected", rejected))
    return Group(name, prompt, responses, (), preference=-1.0, source=source)


# HelpSteer2


class Unrated(Two):
    """HelpSteer2 prompts with both responses and no ratings."""

    prompt: Conversation = Field(alias="input")
    first: Text = Field(alias="response_a")
    second: Text = Field(alias="response_b")


Strength = whole(-3, 3)


def _none_if_invalid(strength: object) -> object:
    return None if strength == -100 else strength


class Vote(Row, extra="ignore"):
    """One annotator's preference; None where neither response was valid (-100 in the file)."""

    strength: Annotated[Strength | None, BeforeValidator(_none_if_invalid)]


def _strengths(votes: list[Vote]) -> tuple[float, ...]:
    return tuple(or_nan(vote.strength) for vote in votes)


_SPLITS = {"train": "train", "val": "validation"}


class Preference(Two, extra="ignore"):
    """HelpSteer2-Preference: strength -3..3, negative where response 1 is better.

    One file has all splits, named in the column `split`. `preferences` are the strengths of all
    annotators as collected, nan where neither response was valid.
    """

    split: Annotated[Literal["train", "val"], AfterValidator(_SPLITS.get)]
    prompt: Conversation
    first: Text = Field(alias="response_1")
    second: Text = Field(alias="response_2")
    preference: Annotated[Strength, AfterValidator(float)] = Field(alias="preference_strength")
    preferences: Annotated[list[Vote], AfterValidator(_strengths)] = Field(
        (), alias="all_preferences_unprocessed"
    )


# HelpSteer3


def _asked(messages: list[ChatMessage]) -> tuple[Turn, ...]:
    """The turns of a conversation that waits for an answer; raises Fault for others."""
    if not messages or messages[-1].role != "user":
        last = f"ends with the {messages[-1].role}'s" if messages else "is empty"
        raise Fault(None, f"the conversation {last}", "end with the message that is answered")
    prompt = tuple(message.turn() for message in messages)
    prompt_string(prompt)  # raises ValueError where the turns make no prompt
    return prompt


class Judgement(Row, extra="ignore"):
    """One annotator's preference with the reason for it, which is not kept."""

    score: Strength
    reasoning: str


def _scores(judgements: list[Judgement]) -> tuple[float, ...]:
    return tuple(float(judgement.score) for judgement in judgements)


class HelpSteer3(Two, extra="ignore"):
    """HelpSteer3's preferences: -3..3, negative where response 1 is better.

    `preferences` are those of the annotators that were kept, three of three to five. Domain and
    language stand at the end of a group's source. Paper: silent (arXiv 2505.11475; fields as its
    card names them). It was never run on the released files.
    """

    domain: Literal["general", "stem", "code", "multilingual"]
    language: Text
    prompt: Annotated[list[ChatMessage], AfterValidator(_asked)] = Field(alias="context")
    first: Text = Field(alias="response1")
    second: Text = Field(alias="response2")
    preference: Annotated[Strength, AfterValidator(float)] = Field(alias="overall_preference")
    preferences: Annotated[list[Judgement], AfterValidator(_scores)] = Field(
        alias="individual_preference"
    )

    def group(self, name: str, source: str) -> Group:
        """The row as a group."""
        pair = super().group(name, f"{source}, {self.domain}, {self.language}")
        return replace(pair, attributes=())


# HH-RLHF


def _human_assistant(string: str) -> tuple[Turn, ...]:
    """The turns of a conversation from Human to an answer of Assistant; raises Fault for others."""
    turns = spoken_turns(string)
    if len(turns) < 2 or turns[-1].role != "assistant":
        raise Fault(
            None,
            f"expected a conversation from Human to an answer of Assistant, got {shown(string)}",
            r"write \n\nHuman: .. \n\nAssistant: ..",
        )
    return turns


HumanAssistant = Annotated[Text, AfterValidator(_human_assistant)]


class HelpfulHarmless(Row):
    """HH-RLHF: two conversations that differ in the last answer.

    White space around each message is removed. Conversations that differ earlier, or end without an
    answer, are faults (the released files have some). Paper: section 3 (HH-RLHF as a baseline).
    """

    chosen: HumanAssistant
    rejected: HumanAssistant

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if self.chosen[:-1] != self.rejected[:-1]:
            raise Fault(
                "rejected",
                "chosen and rejected differ before their last answer, "
                "so they do not share a prompt",
                "make the two conversations equal up to the last answer",
            )
        return self

    def group(self, name: str, source: str) -> Group:
        """The row as a group, the chosen answer first.

        The data say which answer is better, not by how much: -1 is our smallest preference.
        """
        prompt = self.chosen[:-1]
        return chosen_first(name, prompt, self.chosen[-1].text, self.rejected[-1].text, source)


# PandaLM

_SHOWN_TO_ANNOTATORS = Annotated[
    str | bool, AfterValidator(str), expected("text", "write the text as a string")
]

PREFERS = ("annotator1", "annotator2", "annotator3")

# The preference that an annotator's number in the file stands for: 0 a tie, 1 or 2 the better one.
_PREFERENCE = {0: 0.0, 1: -1.0, 2: 1.0}

Choice = Annotated[whole(0, 2), AfterValidator(_PREFERENCE.__getitem__)]


class PandaLM(columns(PREFERS, Choice), extra="ignore"):
    """PandaLM's test set: which of two responses each of three annotators prefers.

    As released, some responses are empty, and some "True" became the boolean true. Both were shown
    to annotators, so both stay, as text.
    """

    instruction: str | None
    input: str | None
    response1: _SHOWN_TO_ANNOTATORS
    response2: _SHOWN_TO_ANNOTATORS
    _prompt: str

    @model_validator(mode="after")
    def _joined(self) -> Self:
        parts = [part for part in (self.instruction, self.input) if part and part.strip()]
        self._prompt = "\n\n".join(parts)
        if not self._prompt:
            raise Fault(
                "instruction",
                "the text is empty, and so is input",
                "remove the row or give its text",
            )
        return self

    def group(self, name: str, source: str) -> Group:
        """The row as a group; its preference is the annotators' median (the majority, or a tie)."""
        votes = values(self, PREFERS)
        responses = (Response(f"{name}/0", self.response1), Response(f"{name}/1", self.response2))
        return Group(
            name,
            (Turn("user", self._prompt),),
            responses,
            (),
            preference=sorted(votes)[1],
            preferences=votes,
            source=source,
        )
