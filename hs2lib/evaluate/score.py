"""What a reward model says of every response of groups, as one frame.

frame = score(model, groups, cache=folder)
frame[list(model.attributes)]  # one row a response
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from hs2lib.group import Group
from hs2lib.models.reward_model import RewardModel


def score(
    model: RewardModel, groups: Iterable[Group], *, too_long: str = "raise", **options: object
) -> pd.DataFrame:
    """One row a response, in the order of the groups.

    A group is scored as a whole: where one of its responses is too long or refused, all its outputs
    are nan. A score does not depend on what else is scored.

    Args:
        model: of notebook 05, or a classifier that `load_reward_model` opens.
        groups: prompts with their responses.
        too_long: what happens to a group that the model cannot read even without its older turns:
            "raise" or "leave out".
        options: of `RewardModel.score`: autocast, budget, cache, progress.

    Returns:
        Columns: prompt and response (their ids), left_out (why the group has no scores, "" where it
        has), dropped (older turns that its prompt lost), and each output of the model, float64.

    Raises:
        ValueError: a group is too long, or a score is not finite.
    """
    groups = list(groups)
    rows = []
    token_groups = []
    for group, tokens in zip(groups, model.tokenise(groups, too_long=too_long), strict=True):
        left_out = ""
        if any(model.refused(group)):
            left_out = "it spells out control strings of the template"
        elif tokens is None:
            left_out = f"longer than {model.max_tokens} tokens"
        else:
            token_groups.append(tokens)
        dropped = tokens.dropped if tokens else 0
        for response in group.responses:
            rows.append((group.id, response.id, left_out, dropped))
    frame = pd.DataFrame(rows, columns=["prompt", "response", "left_out", "dropped"])
    outputs = np.full((len(frame), len(model.attributes)), np.nan)  # [R, A]
    if token_groups:
        scored = (frame.left_out == "").to_numpy()
        outputs[scored] = model.score(token_groups, **options).double().numpy()
    return frame.join(pd.DataFrame(outputs, columns=list(model.attributes)))


def reasons(frame: pd.DataFrame) -> dict[str, str]:
    """Why groups have no scores, by id; of a frame of `score`."""
    return dict(frame[frame.left_out != ""].groupby("prompt", sort=False).left_out.first())
