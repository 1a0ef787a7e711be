"""How a model is used outside of training: one context for mode, gradients and precision."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def computing(model: torch.nn.Module, autocast: torch.dtype | None = None) -> Iterator[None]:
    """No dropout and no gradients inside; afterwards the model trains again if it did before, also after an error.

    Paper: silent. autocast: torch.bfloat16 for speed; None leaves autocast as it is.
    """
    device, training = next(model.parameters()).device.type, model.training
    model.eval()
    try:
        with torch.no_grad(), torch.autocast(device, dtype=autocast) if autocast else nullcontext():
            yield
    finally:
        model.train(training)
