"""The reward function for verl: the exported reward model, served by verl, scores the tokens that
hs2lib would score.

It runs in verl's environment, with the checkout on PYTHONPATH: of hs2lib it uses how a conversation
is written alone.
"""

import httpx

from hs2lib.engine.chat import tokenise
from hs2lib.group import Group, Response, Turn


async def compute_score(
    data_source,
    solution_str,
    ground_truth,
    extra_info,
    reward_router_address,
    reward_model_tokenizer,
    model,
    constant=0.0,
) -> float:
    """The standardised goodness of one answer. Paper: section 4.4 (the reward).

    extra_info: the prompt's messages under "prompt". reward_router_address: host:port of the server
    that verl starts for the reward model. model, constant: the export's folder, and what its head
    leaves out (its `hs2_constant`).
    """
    prompt = tuple(Turn(message["role"], message["content"]) for message in extra_info["prompt"])
    group = Group("answer", prompt, (Response("answer", solution_str),))
    (tokens,) = tokenise([group], reward_model_tokenizer)
    asked = {"model": model, "input": tokens.sequences[0], "use_activation": False}
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        reply = await client.post(f"http://{reward_router_address}/classify", json=asked)
    reply.raise_for_status()
    return reply.json()["data"][0]["probs"][0] + constant
