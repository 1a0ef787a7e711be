"""Tiny classifiers as anybody publishes them, and the scores that plain transformers gives by them."""

from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hs2lib.models import backbones


def classifier(folder: Path, names=("LABEL_0",), seed: int = 0, **changes) -> Path:
    """A folder with a random classifier; of so many outputs as names. changes: of its configuration."""
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        backbones.tiny_model(),
        num_labels=len(names),
        id2label=dict(enumerate(names)),
        dtype=torch.float32,
        **changes,
    )
    with torch.no_grad():
        model.score.weight.mul_(50)  # scores apart enough to see them mixed up
    model.save_pretrained(folder)
    backbones.load_tokenizer("tiny").save_pretrained(folder)
    return folder


class Plain:
    """Scores of a folder's classifier by plain transformers, one conversation at a time."""

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32
        ).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def outputs(self, prompt, answer: str) -> list[float]:
        """All outputs for an answer to a prompt, which is a text or a list of messages."""
        if isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
        talk = [*prompt, {"role": "assistant", "content": answer}]
        tokens = self.tokenizer.apply_chat_template(
            talk, return_tensors="pt", return_dict=True, sanitize_control_tokens=True
        )
        with torch.no_grad():
            return self.model(**tokens).logits[0].double().tolist()

    def __call__(self, prompt, answer: str) -> float:
        """The one output."""
        (score,) = self.outputs(prompt, answer)
        return score
