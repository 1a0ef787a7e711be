"""The policies that notebooks make, with the folders that hold them."""

from collections.abc import Sequence
from pathlib import Path

from hs2lib.paths import root, work
from hs2lib.runs.graph import makers


def made(tier: str, models: Sequence[str] = ()) -> dict[str, Path]:
    """Every policy that a notebook makes, by title in the notebooks' order, and its folder.

    models: others in their place, "title=folder" each; a relative folder lies in the checkout.

    Raises ValueError for a folder that is not there.
    """
    folders = {}
    for text in models:
        title, _, folder = text.partition("=")
        folders[title] = root() / Path(folder).expanduser()
        if not (title and folder and folders[title].is_dir()):
            raise ValueError(f"models: expected title=folder, with a model in it, got {text}")
    if folders:
        return folders
    return {title: work(tier, notebook) / "policy" for notebook, title in makers("policy").items()}
