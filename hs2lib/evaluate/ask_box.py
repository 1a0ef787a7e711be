"""Ask any policy: a held-out prompt or one typed by hand, at any temperature, in a live notebook.

    ask_box.box(places, prompts, reward_model, setup, labels=labels, draw=show.answers_html)

Nothing is loaded before the reader asks, and one policy is held at a time. Of a prompt of the small
world the truth about the answer is shown; of another nobody knows it. What is asked here is kept
nowhere. `gallery.ask` shows answers in copies that do not run. Paper: silent.
"""

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import ipywidgets

from hs2lib.corpus import generate
from hs2lib.evaluate import gallery
from hs2lib.group import Group, Turn
from hs2lib.models import saved
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.report.answers import Answer
from hs2lib.runs.setup import Setup

HOTTEST = 1.5  # temperature
BY_HAND = "typed by hand"  # the source of such a prompt
WAITS = (
    "<p>Choose a policy, a prompt, a temperature, or change the text: the answer comes here.</p>"
)


def asked(chosen: Group | None, text: str) -> Group:
    """The prompt that a reader asks: the chosen one, or a new one where the text is another.

    A new one is the text alone, as a user's first turn.

    Args:
        chosen: a prompt; None for none.
        text: as it stands in the box.

    Raises:
        ValueError: the text is empty.
    """
    if chosen is not None and text == chosen.prompt[-1].text:
        return chosen
    if not text.strip():
        raise ValueError("there is nothing to ask: type a prompt, or choose one")
    return Group(BY_HAND, (Turn("user", text),), (), source=BY_HAND)


def named(prompts: Sequence[Group]) -> list[tuple[str, int]]:
    """Each prompt's family and first line, for a list to choose from, and its number.

    prompts: of the small world.
    """
    options = []
    for number, prompt in enumerate(prompts):
        line = prompt.prompt[-1].text.splitlines()[0][:90]
        options.append((f"{generate.task_of(prompt.id).family}: {line}", number))
    return sorted(options)


class _Held:
    """The one policy that is loaded; asking for another lets it go."""

    def __init__(self, places: Mapping[str, Policy | str | Path]) -> None:
        self.places = places
        self.name = ""
        self.policy: Policy | None = None

    def get(self, name: str) -> Policy:
        """The policy of this name, loaded where it is not the one that is held."""
        if self.policy is None or self.name != name:
            self.policy = None  # let go first: two large ones may not fit
            place = self.places[name]
            if isinstance(place, Policy):
                self.policy = place
            else:
                self.policy = load_policy(place).to(saved.device())
            self.name = name
        return self.policy


def box(
    places: Mapping[str, Policy | str | Path],
    prompts: Sequence[Group],
    reward_model: RewardModel | None,
    setup: Setup,
    *,
    labels: Mapping[str, str | None],
    draw: Callable[[Group, Sequence[Answer]], str],
) -> ipywidgets.VBox:
    """A box for a live notebook: choose who answers, how and what, and see the answer.

    A change of any part asks anew. So does the button, which draws another sample; a greedy answer
    stays. What a model or a reader cannot do is said in the answer's place. `children` are, in this
    order: the policy, the temperature, the choice of the prompt, its text, the button, the view.

    Args:
        places: policies by name; a folder or a model's name is loaded when it is first asked.
        prompts: of the small world to choose from; may be none.
        reward_model: scores the answers; None for no scores.
        setup: of the run. Its recipe has the seed, top-p and the longest answer.
        labels: the label string of a policy that reads one, by the policy's name.
        draw: what makes HTML of a prompt and answers, as `show.answers_html`; it escapes texts.
    """
    options = named(prompts)
    first = options[0][1] if options else None
    policy = ipywidgets.Dropdown(options=list(places), description="policy")
    temperature = ipywidgets.FloatSlider(
        0.0, min=0, max=HOTTEST, step=0.1, description="temperature", continuous_update=False
    )
    prompt = ipywidgets.Dropdown(
        options=options, value=first, description="prompt", layout={"width": "60em"}
    )
    text = ipywidgets.Textarea(
        prompts[first].prompt[-1].text if prompts else "",
        placeholder="a prompt of your own",
        continuous_update=False,
        layout={"width": "60em", "height": "6em"},
    )
    again = ipywidgets.Button(description="ask again")
    view = ipywidgets.HTML(WAITS)
    held = _Held(places)
    draws = {"made": 0}

    def answer() -> None:
        view.value = "<p>..</p>"
        try:
            group = asked(None if prompt.value is None else prompts[prompt.value], text.value)
            writer = {policy.value: held.get(policy.value)}
            ((group, answers),) = gallery.ask(
                writer,
                [group],
                reward_model,
                setup,
                labels=labels,
                temperatures=(temperature.value,),
                seed=setup.recipe.seed + draws["made"],
                keep=False,
            )
        except (OSError, RuntimeError, ValueError) as error:
            view.value = f"<p>No answer: {html.escape(str(error))}</p>"
            return
        if temperature.value:
            how = f"{answers[0].how}, sample {draws['made'] + 1}"
            answers = [replace(answers[0], how=how)]
        view.value = draw(group, answers)

    def answer_anew(_: object) -> None:
        draws["made"] = 0
        answer()

    def write_prompt(_: object) -> None:
        before = text.value
        text.value = prompts[prompt.value].prompt[-1].text
        if text.value == before:  # two prompts may end in the same words
            answer_anew(None)

    def draw_another(_: object) -> None:
        draws["made"] += 1
        answer()

    for widget in (policy, temperature, text):
        widget.observe(answer_anew, "value")
    prompt.observe(write_prompt, "value")
    again.on_click(draw_another)
    return ipywidgets.VBox([policy, temperature, prompt, text, again, view])
